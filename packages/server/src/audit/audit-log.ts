// Who changed what: a file to which lines are only ever added.
//
//   <dataDir>/audit.log      one JSON object a line, mode 0600; older files beside it as audit.log.1 (newest) to .4
//
// A change has two lines. The first is on disk before the change begins, so that there is no change without a line, and
// a log that cannot be written refuses changes instead of missing them. The second tells the outcome, before the answer
// goes out. After a crash the first can stand alone: the change was then never acknowledged.
//
// Lines are written one after another, each synced. A line that a crash or a full disk has cut short was never
// acknowledged either, and is cut off before the next one.

import { constants } from "node:fs";
import { type FileHandle, open, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isQuiverError, QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { AuditEntry, AuditList } from "@quiver/protocol/shapes/audit";

export const auditFileName = "audit.log";

/** What all lines of one change have in common. */
export type AuditedChange = Omit<AuditEntry, "at" | "phase" | "error">;

export class AuditLog {
  readonly #path: string;
  readonly #clock: () => number;
  readonly #fileBytesMax: number;
  #file: FileHandle;
  /** Bytes of complete, synced lines. */
  #bytes: number;
  /** True after a failure: there may be more in the file than `#bytes`. */
  #isTorn = false;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(
    path: string,
    clock: () => number,
    fileBytesMax: number,
    file: FileHandle,
    bytes: number,
  ) {
    this.#path = path;
    this.#clock = clock;
    this.#fileBytesMax = fileBytesMax;
    this.#file = file;
    this.#bytes = bytes;
  }

  /**
   * Opens, or makes, the log of a data directory.
   * @throws storage_failed when the file is a symbolic link, or no file, or cannot be written
   */
  static async open(
    dataDir: string,
    clock: () => number,
    fileBytesMax: number = limits.auditFileBytesMax,
  ): Promise<AuditLog> {
    const path = join(dataDir, auditFileName);
    try {
      const { file, bytes } = await openFile(path);
      return new AuditLog(path, clock, fileBytesMax, file, bytes);
    } catch (error) {
      throw auditError(error, "cannot be opened");
    }
  }

  /** Resolves when the line is durable. @throws storage_failed, storage_full; then no line was added */
  record(change: AuditedChange, phase: AuditEntry["phase"], error?: string): Promise<void> {
    const entry: AuditEntry = {
      at: new Date(this.#clock()).toISOString(),
      phase,
      ...change,
      ...(error === undefined ? {} : { error }),
    };
    return this.#inTurn(() => this.#append(Buffer.from(`${JSON.stringify(entry)}\n`)));
  }

  /** The newest entries, newest first, of the file and of the older ones beside it. */
  read(limit: number): Promise<AuditList> {
    return this.#inTurn(async () => {
      const entries: AuditEntry[] = [];
      let damaged = 0;
      for (let number = 0; number <= limits.auditOldFilesMax && entries.length < limit; number++) {
        for (const line of await linesFromTheEnd(number === 0 ? this.#path : `${this.#path}.${number}`)) {
          if (entries.length === limit) break;
          const entry = parsed(line);
          if (entry === undefined) damaged++;
          else entries.push(entry);
        }
      }
      return { entries, damaged_lines: damaged };
    });
  }

  /** Waits for the lines that are being written. */
  async close(): Promise<void> {
    await this.#inTurn(() => this.#file.close());
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(act);
    // Whoever waits for the turn is told of its failure; the next one begins in any case.
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #append(line: Buffer): Promise<void> {
    try {
      if (this.#isTorn) await this.#file.truncate(this.#bytes);
      this.#isTorn = false;
      if (this.#bytes > 0 && this.#bytes + line.length > this.#fileBytesMax) await this.#rotate();
      this.#isTorn = true;
      await this.#file.appendFile(line);
      await this.#file.datasync();
      this.#bytes += line.length;
      this.#isTorn = false;
    } catch (error) {
      throw auditError(error, "cannot be written");
    }
  }

  /** The file becomes the first of the old ones; the oldest goes. Every step leaves names that the next start knows. */
  async #rotate(): Promise<void> {
    await rm(`${this.#path}.${limits.auditOldFilesMax}`, { force: true });
    for (let number = limits.auditOldFilesMax - 1; number >= 0; number--) {
      const from = number === 0 ? this.#path : `${this.#path}.${number}`;
      await rename(from, `${this.#path}.${number + 1}`).catch(ignoreMissing);
    }
    const { file, bytes } = await openFile(this.#path);
    await this.#file.close();
    this.#file = file;
    this.#bytes = bytes;
  }
}

/** Opens the file for adding to it, makes its name durable, and cuts off a last line that is not whole. */
async function openFile(path: string): Promise<{ file: FileHandle; bytes: number }> {
  const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
  const file = await open(path, flags, 0o600);
  try {
    const { size, mode } = await file.stat();
    if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw new Error("it is no file");
    if ((mode & 0o077) !== 0) await file.chmod(0o600);
    const bytes = await wholeLinesBytes(file, size);
    if (bytes < size) await file.truncate(bytes);
    await file.sync();
    const directory = await open(dirname(path), "r");
    await directory.sync().finally(() => directory.close());
    return { file, bytes };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Bytes up to the end of the last whole line. */
async function wholeLinesBytes(file: FileHandle, size: number): Promise<number> {
  const chunk = Buffer.alloc(64 * 1024);
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - chunk.length);
    const { bytesRead } = await file.read(chunk, 0, end - start, start);
    const at = chunk.subarray(0, bytesRead).lastIndexOf(0x0a);
    if (at >= 0) return start + at + 1;
    end = start;
  }
  return 0;
}

/** The lines of a file, the last one first; none where there is no such file. */
async function linesFromTheEnd(path: string): Promise<Iterable<string>> {
  try {
    const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0);
    return reversed(await readFile(path, { flag: flags as unknown as string }));
  } catch (error) {
    ignoreMissing(error);
    return [];
  }
}

function* reversed(bytes: Buffer): Generator<string> {
  for (let end = bytes.lastIndexOf(0x0a); end > 0; ) {
    const before = bytes.lastIndexOf(0x0a, end - 1);
    yield bytes.toString("utf8", before + 1, end);
    end = before;
  }
}

function parsed(line: string): AuditEntry | undefined {
  try {
    const entry = JSON.parse(line) as AuditEntry | null;
    return typeof entry?.at === "string" ? entry : undefined;
  } catch {
    return undefined;
  }
}

function ignoreMissing(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
}

function auditError(error: unknown, what: string): QuiverError {
  if (isQuiverError(error)) return error;
  const { code } = error as NodeJS.ErrnoException;
  const isFull = code === "ENOSPC" || code === "EDQUOT";
  const reason =
    code === "ELOOP" ? "it is a symbolic link" : (code ?? (error as Error).message ?? "unknown error");
  return new QuiverError(
    isFull ? "storage_full" : "storage_failed",
    `The audit log ${what} (${reason}), and without it nothing is changed that it records.`,
    {},
    { cause: error },
  );
}
