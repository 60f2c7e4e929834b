// Are the snapshot files those that were acknowledged, and are their bases intact?
//
// Each file is read completely and compared with its description. On a running server, files may be created and deleted meanwhile; those
// have the name of an unfinished file (runtime/snapshot-directory.ts) and are skipped.
//
// An incremental snapshot without its base is not a finding, because `quiver backup` moves bases elsewhere. One whose base exists here and
// is damaged is a finding.

import { existsSync } from "node:fs";
import type { Finding } from "@quiver/protocol/shapes/check";
import type { Snapshot } from "@quiver/protocol/shapes/snapshot";
import { checkDefinitions } from "../../backup/definitions.ts";
import type { BackupHeader } from "../../backup/header.ts";
import { snapshotsDirectory } from "../../runtime/data-directory.ts";
import { problemWords, SnapshotDirectory } from "../../runtime/snapshot-directory.ts";
import { difference, snapshotOf } from "../../runtime/snapshot-entry.ts";
import type { Report } from "./report.ts";

export type SnapshotCheckOptions = {
  /** Only snapshots of this collection, by their description. */
  readonly collection?: string | undefined;
  /** Called with the file that is being read and the number of records read. */
  onProgress?(snapshot: string, records: number): void;
};

/** A snapshot with an intact file. */
type Whole = { readonly told: Snapshot; readonly header: BackupHeader };

/** Adds findings and the number of files to a report. */
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
        message: `snapshots/${name} is no part of a snapshot. Nothing reads it; move it elsewhere, or remove it.`,
      });
  }

  #look(id: string): void {
    const told = this.#directory.readEntry(id);
    const { collection } = this.#options;
    if (collection !== undefined) {
      const name = told?.collection_name ?? this.#directory.headerOf(id)?.collection.name;
      if (name !== collection) return;
    }
    const find = (finding: Finding) =>
      this.#report.add({
        ...finding,
        snapshot_id: id,
        ...(told && { collection: told.collection_name, version: told.version_number }),
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
      if (told !== undefined) this.#damaged.push(told);
      return;
    }
    this.#report.snapshots++;
    const differs = told && difference(told, found);
    if (differs !== undefined) {
      find({
        kind: "snapshot",
        message: `The file is not that of the snapshot ${id}, which ${differs}. ${lost}`,
      });
      this.#damaged.push(told as Snapshot);
      return;
    }
    this.#whole.push({ told: found, header });
    // Checked again, because the snapshot may have been deleted in the meantime.
    if (told === undefined && this.#directory.readEntry(id) === undefined && this.#directory.isThere(id))
      this.#report.add({
        kind: "snapshot",
        derived: true,
        snapshot_id: id,
        collection: found.collection_name,
        version: found.version_number,
        message: `The description of the snapshot ${id} is damaged or missing. The file is intact: the next start regenerates the description.`,
      });
  }

  /** Finds incremental snapshots whose base exists here but cannot be used. */
  #compareChains(): void {
    const isBase = (of: Snapshot) => (base: Snapshot) =>
      base.collection_name === of.collection_name &&
      base.version_number === of.since_version &&
      base.hash === of.since_hash &&
      base.id !== of.id;
    for (const { told, header } of this.#whole) {
      if (header.since === null) continue;
      const bases = this.#whole.filter((each) => isBase(told)(each.told));
      if (bases.some((base) => base.header.next_ordinal === header.first_ordinal)) continue;
      const broken = bases[0]?.told ?? this.#damaged.find(isBase(told));
      if (broken === undefined) continue;
      const why =
        bases.length > 0 ? "whose last record does not precede its first" : "which is damaged or missing";
      this.#report.add({
        kind: "snapshot_chain",
        snapshot_id: told.id,
        collection: told.collection_name,
        version: told.version_number,
        message: `The incremental snapshot ${told.id} is based on the snapshot ${broken.id}, ${why}. It can be restored only with another file of version ${told.since_version}.`,
      });
    }
  }
}
