// Where do the files of snapshots lie, and which of them are whole?
//
//   data-dir/snapshots/ID.qbackup   a backup file, named by the snapshot's id and by nothing that a user gave
//   data-dir/snapshots/ID.json      what it is of, its size and its SHA-256; written when the file is whole and durable
//
// The second one decides: a file without it is left over from something that was interrupted, and is removed at start. To
// delete a snapshot is to remove it first.

import {
  closeSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { QuiverError } from "@quiver/protocol/errors";
import type { Snapshot } from "@quiver/protocol/shapes/snapshot";
import { failpoint } from "../base/failpoint.ts";
import { snapshotsDirectory, syncDirectory } from "./data-directory.ts";

const suffix = ".qbackup";

/** The error of the table for a failure of the file system; others pass. */
export function fileError(error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof QuiverError || typeof code !== "string" || !(error instanceof Error)) return error;
  const isFull = code === "ENOSPC" || code === "EDQUOT";
  return new QuiverError(
    isFull ? "storage_full" : "storage_failed",
    isFull
      ? "The disk is full; nothing was kept. Free some space, or delete snapshots, and send the request again."
      : `The file of a snapshot could not be read or written (${code}); nothing was changed.`,
    {},
    { cause: error },
  );
}

export class SnapshotDirectory {
  readonly #path: string;

  /** The directory is there: whoever took the data directory has made it. */
  constructor(dataDir: string) {
    this.#path = snapshotsDirectory(dataDir);
  }

  /** Where the file of a snapshot lies. @param id made by this program */
  pathOf(id: string): string {
    return join(this.#path, `${id}${suffix}`);
  }

  #entryOf(id: string): string {
    return join(this.#path, `${id}.json`);
  }

  /**
   * All whole snapshots; what else lies there is removed.
   * @param onProblem told of entries that cannot be read, which are left as they are
   */
  open(onProblem: (id: string, problem: unknown) => void): { snapshots: Snapshot[]; removed: number } {
    const names = new Set(readdirSync(this.#path));
    const snapshots: Snapshot[] = [];
    let removed = 0;
    for (const name of names) {
      const id = name.replace(/\.(json|qbackup)$/, "");
      const isEntry = name === `${id}.json`;
      if (isEntry) {
        try {
          const snapshot = JSON.parse(readFileSync(join(this.#path, name), "utf8")) as Snapshot;
          if (snapshot.id !== id) throw new Error(`the entry is of the snapshot ${snapshot.id}`);
          snapshots.push(snapshot);
        } catch (problem) {
          onProblem(id, problem);
        }
      } else if (!names.has(`${id}.json`)) {
        rmSync(join(this.#path, name), { force: true });
        removed++;
      }
    }
    return { snapshots, removed };
  }

  /** Makes a snapshot, whose file is whole and durable, one that is there. */
  publish(snapshot: Snapshot): void {
    const path = this.#entryOf(snapshot.id);
    const unfinished = `${path}.new`;
    try {
      const file = openSync(unfinished, "w", 0o600);
      try {
        writeSync(file, JSON.stringify(snapshot));
        fsyncSync(file);
      } finally {
        closeSync(file);
      }
      syncDirectory(this.#path);
      failpoint("snapshot:entry-synced");
      renameSync(unfinished, path);
      failpoint("snapshot:named");
      syncDirectory(this.#path);
    } catch (error) {
      rmSync(unfinished, { force: true });
      throw fileError(error);
    }
  }

  /** Removes a snapshot, or what an interrupted one has left. */
  remove(id: string): void {
    rmSync(this.#entryOf(id), { force: true });
    syncDirectory(this.#path);
    failpoint("snapshot:entry-gone");
    rmSync(this.pathOf(id), { force: true });
  }
}
