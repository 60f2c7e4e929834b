// Are the files of snapshots intact, and does each incremental snapshot continue its base?
//
// Each file is read completely and compared with the description beside it. A running server creates and deletes files meanwhile; a file
// that is being created or deleted has the name of an unfinished one (runtime/snapshot-directory.ts) and is skipped.
//
// An incremental snapshot whose base is missing is not a finding, because `quiver backup` moves bases elsewhere. A damaged base is one.

import { existsSync } from "node:fs";
import type { Finding } from "@quiverdb/protocol/shapes/check";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import { snapshotsDirectory } from "../../process/data-directory.ts";
import type { Report } from "../check/collection-check.ts";
import { checkDefinitions } from "./backup-definitions.ts";
import type { BackupHeader } from "./backup-header.ts";
import { SnapshotDirectory } from "./snapshot-directory.ts";
import { difference, problemWords, snapshotOf } from "./snapshot-entry.ts";

export type SnapshotCheckOptions = {
  /** Only snapshots whose description names this collection. */
  readonly collection?: string | undefined;
  /** Called with what is being read, and how many of its records were read. */
  onProgress?(snapshot: string, records: number): void;
};

/** A snapshot whose file is intact. */
type Whole = { readonly entry: Snapshot; readonly header: BackupHeader };

/** Adds findings, and the number of files read, to a report. */
export function checkSnapshots(dataDir: string, report: Report, options: SnapshotCheckOptions = {}): void {
  if (!existsSync(snapshotsDirectory(dataDir))) return;
  new SnapshotCheck(dataDir, report, options).run();
}

class SnapshotCheck {
  readonly #directory: SnapshotDirectory;
  readonly #report: Report;
  readonly #options: SnapshotCheckOptions;
  readonly #whole: Whole[] = [];
  readonly #damaged: Snapshot[] = [];

  constructor(dataDir: string, report: Report, options: SnapshotCheckOptions) {
    this.#directory = new SnapshotDirectory(dataDir);
    this.#report = report;
    this.#options = options;
  }

  run(): void {
    const { ids, strays } = this.#directory.look();
    for (const [id, { file, entry }] of ids) if (file || entry) this.#look(id);
    this.#compareChains();
    if (this.#options.collection !== undefined) return;
    for (const name of strays)
      this.#report.add({
        kind: "snapshot_stray",
        message: `snapshots/${name} does not belong to a snapshot. Nothing reads it; move it elsewhere, or remove it.`,
      });
  }

  #look(id: string): void {
    const entry = this.#directory.readEntry(id);
    const { collection } = this.#options;
    if (collection !== undefined) {
      const name = entry?.collection_name ?? this.#directory.headerOf(id)?.collection.name;
      if (name !== collection) return;
    }
    const find = (finding: Finding) =>
      this.#report.add({
        ...finding,
        snapshot_id: id,
        ...(entry && { collection: entry.collection_name, version: entry.version_number }),
      });
    const lost = "Delete the snapshot, and make or upload another one.";
    let found: Snapshot;
    let header: BackupHeader;
    try {
      const verified = this.#directory.verify(id);
      header = verified.header;
      checkDefinitions(header);
      found = snapshotOf(id, verified);
      this.#options.onProgress?.(found.collection_name, found.records_stored);
    } catch (error) {
      const words = problemWords(error);
      if ((error as NodeJS.ErrnoException).code !== "ENOENT")
        find({ kind: "snapshot", message: `The snapshot ${id} is damaged: ${words} ${lost}` });
      else if (this.#directory.isMissing(id))
        find({ kind: "snapshot_missing", message: `The file of the snapshot ${id} is missing. ${lost}` });
      else return;
      if (entry !== undefined) this.#damaged.push(entry);
      return;
    }
    this.#report.snapshots++;
    const differs = entry && difference(entry, found);
    if (differs !== undefined) {
      find({
        kind: "snapshot",
        message: `The file is not that of the snapshot ${id}, which ${differs}. ${lost}`,
      });
      this.#damaged.push(entry as Snapshot);
      return;
    }
    this.#whole.push({ entry: found, header });
    // Look again: the snapshot may have been deleted meanwhile.
    if (entry === undefined && this.#directory.readEntry(id) === undefined && this.#directory.isThere(id))
      this.#report.add({
        kind: "snapshot",
        derived: true,
        snapshot_id: id,
        collection: found.collection_name,
        version: found.version_number,
        message: `The description beside the file of snapshot ${id} is damaged or missing. The file is intact: the next start writes the description again.`,
      });
  }

  /** Finds incremental snapshots whose base is here but cannot be used. */
  #compareChains(): void {
    const isBase = (of: Snapshot) => (base: Snapshot) =>
      base.collection_name === of.collection_name &&
      base.version_number === of.since_version &&
      base.hash === of.since_hash &&
      base.id !== of.id;
    for (const { entry, header } of this.#whole) {
      if (header.since === null) continue;
      const bases = this.#whole.filter((each) => isBase(entry)(each.entry));
      if (bases.some((base) => base.header.next_ordinal === header.first_ordinal)) continue;
      const broken = bases[0]?.entry ?? this.#damaged.find(isBase(entry));
      if (broken === undefined) continue;
      const why = bases.length > 0 ? "which does not end where it begins" : "which is damaged or missing";
      this.#report.add({
        kind: "snapshot_chain",
        snapshot_id: entry.id,
        collection: entry.collection_name,
        version: entry.version_number,
        message: `The incremental snapshot ${entry.id} continues the snapshot ${broken.id}, ${why}. It can be restored only with another file of version ${entry.since_version}.`,
      });
    }
  }
}
