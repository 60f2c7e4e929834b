// How does a store on disk keep its spools (S6)?
//
// A spool is a file beside the store's own, `spool-<number>`: bytes that a later write needs once, in the order in which they came. A table
// would need a page of 4 KiB for a vector of 3 KiB, and leave these pages in the store's file for ever.
//
//   write ---> sync ---> the store's commit, which says how long the spool is now
//
// The file may be longer than the newest commit says: after a crash or a failed write. The next write begins where the commit says, so such
// bytes are never read. A spool is removed after the commit that gives it up; a crash in between leaves a file, which the next start removes.

import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  writevSync,
} from "node:fs";
import { join } from "node:path";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";

/** The file of a spool. */
export const spoolFile = (directory: string, spool: number): string => join(directory, `spool-${spool}`);

const spoolName = /^spool-(\d+)$/;

/** What a write has changed in one spool. `from`: the first byte that it wrote. */
type Written = { file: number; from: number };

/** Reads a whole range of an open file. @returns false if the file ends before */
function readWhole(file: number, at: number, into: Uint8Array): boolean {
  for (let done = 0; done < into.length; ) {
    const read = readSync(file, into, done, into.length - done, at + done);
    if (read === 0) return false;
    done += read;
  }
  return true;
}

export class SpoolFiles {
  readonly #directory: string;
  readonly #open = new Map<number, number>();
  readonly #written = new Map<number, Written>();
  /** Whether a file was made whose name is not durable yet. */
  #isNamed = true;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** @throws the error of the system */
  write(spool: number, at: number, parts: readonly Uint8Array[]): void {
    const file = this.#fileOf(spool, constants.O_RDWR | constants.O_CREAT);
    if (!this.#written.has(spool)) this.#written.set(spool, { file, from: at });
    let left = parts.filter(({ length }) => length > 0);
    for (let to = at; left.length > 0; ) {
      const written = writevSync(file, left, to);
      to += written;
      left = after(left, written);
    }
    failpoint("spool:written");
  }

  /** Makes everything that was written durable. @throws the error of the system */
  sync(): void {
    for (const { file } of this.#written.values()) fdatasyncSync(file);
    if (this.#written.size > 0 && !this.#isNamed) {
      const directory = openSync(this.#directory, constants.O_RDONLY);
      try {
        fsyncSync(directory);
      } finally {
        closeSync(directory);
      }
      this.#isNamed = true;
    }
    if (this.#written.size > 0) failpoint("spool:synced");
  }

  /** The store has committed, or may have committed, what was written. */
  kept(): void {
    this.#written.clear();
  }

  /** The store has not committed: gives the space on disk back. */
  undo(): void {
    for (const { file, from } of this.#written.values())
      try {
        ftruncateSync(file, from);
      } catch {
        // The bytes stay until the next write replaces them. They are never read.
      }
    this.#written.clear();
  }

  /** @returns false if the spool ends before, or is missing. @throws the error of the system */
  read(spool: number, at: number, into: Uint8Array): boolean {
    try {
      return readWhole(this.#fileOf(spool, constants.O_RDWR), at, into);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
      throw error;
    }
  }

  #fileOf(spool: number, flags: number): number {
    let file = this.#open.get(spool);
    if (file !== undefined) return file;
    file = openSync(spoolFile(this.#directory, spool), flags, 0o600);
    this.#isNamed &&= (flags & constants.O_CREAT) === 0;
    this.#open.set(spool, file);
    return file;
  }

  remove(spool: number): void {
    const file = this.#open.get(spool);
    if (file !== undefined) closeSync(file);
    this.#open.delete(spool);
    failpoint("spool:closed");
    try {
      rmSync(spoolFile(this.#directory, spool), { force: true });
    } catch {
      // The next start removes it.
    }
    failpoint("spool:removed");
  }

  /** The spools that have a file. */
  list(): number[] {
    return readdirSync(this.#directory).flatMap((name) => {
      const number = spoolName.exec(name)?.[1];
      return number === undefined ? [] : [Number(number)];
    });
  }

  close(): void {
    invariant(this.#written.size === 0, `${this.#written.size} spools are closed in the middle of a write`);
    for (const file of this.#open.values()) closeSync(file);
    this.#open.clear();
  }
}

/** A spool, for reading only, while a server may have it open. */
export class SpoolFile {
  readonly #file: number | undefined;

  /** @throws the error of the system, but not for a missing file */
  constructor(directory: string, spool: number) {
    try {
      this.#file = openSync(spoolFile(directory, spool), constants.O_RDONLY);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }

  /** Its bytes; undefined if there is no such file. */
  get sizeBytes(): number | undefined {
    return this.#file === undefined ? undefined : fstatSync(this.#file).size;
  }

  /** @returns false if the spool ends before, or is missing */
  read(at: number, into: Uint8Array): boolean {
    return this.#file !== undefined && readWhole(this.#file, at, into);
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
  }
}

/** What is left of the parts after the first bytes of them. */
function after(parts: readonly Uint8Array[], bytes: number): Uint8Array[] {
  let skipped = bytes;
  return parts.flatMap((part) => {
    const from = Math.min(skipped, part.length);
    skipped -= from;
    return from === part.length ? [] : [part.subarray(from)];
  });
}
