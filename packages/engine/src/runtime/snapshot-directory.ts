// Where do the files of snapshots lie, and which of them are whole?
//
//   data-dir/snapshots/ID.qbackup.new   a file that is being written, or deleted
//   data-dir/snapshots/ID.qbackup       a whole and durable backup file, named by the snapshot's id and by nothing that a user gave
//   data-dir/snapshots/ID.json          what is told of it (snapshot-entry.ts)
//
//   making     .qbackup.new written and synced -> .json written and synced -> .qbackup.new becomes .qbackup: from then on it is there
//   deleting   .qbackup becomes .qbackup.new: from then on it is not -> .json removed -> .qbackup.new removed
//
// So after a crash at any moment a .json beside a .qbackup.new is of no snapshot, and both are removed at start; a .json alone tells
// of a file that is lost, and a .qbackup alone is a snapshot whose entry is lost, and which is read to tell of it again.

import {
  closeSync,
  existsSync,
  fstatSync,
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
import type { BackupHeader } from "../backup/header.ts";
import { readBackupHeader, type VerifiedBackup, verifyBackup } from "../backup/read.ts";
import { failpoint } from "../base/failpoint.ts";
import { snapshotsDirectory, syncDirectory } from "./data-directory.ts";
import { entryText, headerDifference, readEntry } from "./snapshot-entry.ts";

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

/** Which files there are of one id. */
type Parts = { file: boolean; entry: boolean; unfinished: boolean; newEntry: boolean };

const partNames = {
  qbackup: "file",
  json: "entry",
  "qbackup.new": "unfinished",
  "json.new": "newEntry",
} as const satisfies Record<string, keyof Parts>;

export type OpenedSnapshots = {
  /** What the entries tell; that their files are whole is not said. */
  told: Snapshot[];
  /** Ids of files whose entry is damaged or missing. */
  untold: string[];
  /** Names of files that are of no snapshot, or of one of which nothing is left; they are left as they are. */
  strays: string[];
  /** How many interrupted snapshots were removed. */
  removed: number;
};

export class SnapshotDirectory {
  readonly #path: string;
  readonly #sync: (path: string) => void;

  /** The directory is there: whoever took the data directory has made it. @param sync makes its names durable */
  constructor(dataDir: string, sync: (path: string) => void = syncDirectory) {
    this.#path = snapshotsDirectory(dataDir);
    this.#sync = sync;
  }

  /** Where the file of a snapshot lies. @param id made by this program */
  pathOf(id: string): string {
    return join(this.#path, `${id}.qbackup`);
  }

  /** Where a file lies until it is published. */
  unfinishedPathOf(id: string): string {
    return join(this.#path, `${id}.qbackup.new`);
  }

  #entryOf(id: string): string {
    return join(this.#path, `${id}.json`);
  }

  /** What lies there, in the order of ids. */
  look(): { ids: Map<string, Parts>; strays: string[] } {
    const ids = new Map<string, Parts>();
    const strays: string[] = [];
    for (const name of readdirSync(this.#path).sort()) {
      const [, id, kind] = /^([0-9a-z]+)\.(qbackup|qbackup\.new|json|json\.new)$/.exec(name) ?? [];
      if (id === undefined) {
        strays.push(name);
        continue;
      }
      const parts = ids.get(id) ?? { file: false, entry: false, unfinished: false, newEntry: false };
      ids.set(id, parts);
      parts[partNames[kind as keyof typeof partNames]] = true;
    }
    return { ids, strays };
  }

  /** What is there at start. What was interrupted is removed. */
  open(): OpenedSnapshots {
    const { ids, strays } = this.look();
    const opened: OpenedSnapshots = { told: [], untold: [], strays, removed: 0 };
    for (const [id, { file, entry, unfinished, newEntry }] of ids) {
      if (!file && (unfinished || !entry)) {
        this.clear(id);
        opened.removed++;
        continue;
      }
      if (unfinished || newEntry) this.#clearBeside(id);
      const told = this.told(id);
      if (told !== undefined) opened.told.push(told);
      else if (file) opened.untold.push(id);
      else strays.push(`${id}.json`);
    }
    return opened;
  }

  /** What the entry of a snapshot tells; undefined where it is missing or damaged. */
  told(id: string): Snapshot | undefined {
    try {
      return readEntry(id, readFileSync(this.#entryOf(id), "utf8"));
    } catch (error) {
      // A disk that cannot read the entry is a damaged entry: the file tells the same.
      if (typeof (error as NodeJS.ErrnoException).code === "string") return undefined;
      throw error;
    }
  }

  isThere(id: string): boolean {
    return existsSync(this.pathOf(id));
  }

  /** True where an entry has no file, and nobody is just making or deleting it. */
  isMissing(id: string): boolean {
    if (this.isThere(id) || existsSync(this.unfinishedPathOf(id))) return false;
    // Asked again at the end: it may have been published between the two names.
    return existsSync(this.#entryOf(id)) && !this.isThere(id);
  }

  /** What shows at once, by the file's length and its header, of damage to a snapshot. @returns undefined: nothing */
  problemOf(told: Snapshot): string | undefined {
    try {
      return this.#read(told.id, (file) =>
        headerDifference(told, readBackupHeader(file), fstatSync(file).size),
      );
    } catch (error) {
      return problemWords(error);
    }
  }

  /** The header of a snapshot's file; undefined where that is damaged or missing. */
  headerOf(id: string): BackupHeader | undefined {
    try {
      return this.#read(id, readBackupHeader);
    } catch (error) {
      problemWords(error);
      return undefined;
    }
  }

  /** Reads a snapshot's file to its end. @param onRead told how many bytes are read @throws invalid_snapshot, or of the file system */
  verify(id: string, onRead: (bytes: number) => void = () => undefined): VerifiedBackup {
    return this.#read(id, (file) => verifyBackup(file, onRead));
  }

  #read<T>(id: string, act: (file: number) => T): T {
    const file = openSync(this.pathOf(id), "r");
    try {
      return act(file);
    } finally {
      closeSync(file);
    }
  }

  /** Makes a snapshot of an unfinished file, which is whole and synced. A failure leaves none, now and after a restart. */
  publish(snapshot: Snapshot): void {
    const { id } = snapshot;
    try {
      this.#sync(this.#path);
      this.#writeEntry(snapshot);
      failpoint("snapshot:entry-synced");
      renameSync(this.unfinishedPathOf(id), this.pathOf(id));
      failpoint("snapshot:named");
      this.#sync(this.#path);
    } catch (error) {
      this.#retract(id);
      throw fileError(error);
    }
  }

  /** Writes again what is told of a snapshot that is there. */
  tell(snapshot: Snapshot): void {
    try {
      this.#writeEntry(snapshot);
      this.#sync(this.#path);
    } catch (error) {
      throw fileError(error);
    }
  }

  #writeEntry(snapshot: Snapshot): void {
    const path = this.#entryOf(snapshot.id);
    const unfinished = `${path}.new`;
    const file = openSync(unfinished, "w", 0o600);
    try {
      const bytes = Buffer.from(entryText(snapshot));
      for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(unfinished, path);
  }

  /** Takes a publication back. Names that the disk does not take back are those of an unfinished file, or of one that is whole. */
  #retract(id: string): void {
    try {
      if (existsSync(this.pathOf(id))) renameSync(this.pathOf(id), this.unfinishedPathOf(id));
      this.clear(id);
    } catch (error) {
      // The disk has failed before, and the caller is told of that; what is left goes at the next start.
      if (typeof (error as NodeJS.ErrnoException).code !== "string") throw error;
    }
  }

  /** Makes a snapshot one that is not there; `clear` then removes what is left of it. */
  retire(id: string): void {
    const [path, unfinished] = [this.pathOf(id), this.unfinishedPathOf(id)];
    try {
      if (!existsSync(path)) {
        rmSync(this.#entryOf(id), { force: true });
        this.#sync(this.#path);
        return;
      }
      renameSync(path, unfinished);
      try {
        this.#sync(this.#path);
      } catch (error) {
        renameSync(unfinished, path);
        throw error;
      }
    } catch (error) {
      throw fileError(error);
    }
  }

  #clearBeside(id: string): void {
    rmSync(`${this.#entryOf(id)}.new`, { force: true });
    rmSync(this.unfinishedPathOf(id), { force: true });
  }

  /** Removes what is left of a snapshot that is not there; the file last, for it says what the rest is. */
  clear(id: string): void {
    rmSync(`${this.#entryOf(id)}.new`, { force: true });
    rmSync(this.#entryOf(id), { force: true });
    this.#sync(this.#path);
    failpoint("snapshot:entry-gone");
    rmSync(this.unfinishedPathOf(id), { force: true });
  }
}

/** What an error says of a file that was to be read; a bug of ours passes. */
export function problemWords(error: unknown): string {
  if (error instanceof QuiverError) return error.message.replace(" Nothing was changed.", "");
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code !== "string") throw error;
  return code === "ENOENT" ? "Its file is missing." : `Its file cannot be read (${code}).`;
}
