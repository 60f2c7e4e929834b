// Who changed what: a file to which lines are only ever added.
//
//   <dataDir>/audit.log      one JSON object a line, mode 0600; older files beside it as audit.log.1 (newest) to .4
//
// A change has two lines. The first is on disk before the change begins, so that there is no change without a line, and
// a log that cannot be written refuses changes instead of missing them. The second tells the outcome, and is on disk
// before the answer goes out. When the disk fails between the two, the change has happened and is answered so; the
// second line is owed, and written before any other one, so that no further change begins without it. The first stands
// alone in the log while it is owed, and for good when the process ends before.
//
// Lines are written one after another, each synced. A line that a crash or a full disk has cut short is cut off before
// the next one.

import { constants } from "node:fs";
import { type FileHandle, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isQuiverError, QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { AuditEntry, AuditList } from "@quiver/protocol/shapes/audit";

export const auditFileName = "audit.log";

/** Of a file that is one too many: it is there while a rotation is under way, or after one that could not remove it. */
const excess = limits.auditOldFilesMax + 1;

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
  /** Outcomes that could not be written, oldest first; as many at most as changes are carried out at once. */
  #owed: Buffer[] = [];
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

  /**
   * Resolves when the line is durable.
   * @throws storage_failed, storage_full; a `begun` is then not in the log, and an outcome is owed
   */
  record(change: AuditedChange, phase: AuditEntry["phase"], error?: string): Promise<void> {
    const entry: AuditEntry = {
      at: new Date(this.#clock()).toISOString(),
      phase,
      ...change,
      ...(error === undefined ? {} : { error }),
    };
    const line = Buffer.from(`${JSON.stringify(entry)}\n`);
    return this.#inTurn(() => (phase === "begun" ? this.#append([line]) : this.#settle(line)));
  }

  /** The newest entries, newest first, of the file and of the older ones beside it. */
  read(limit: number): Promise<AuditList> {
    return this.#inTurn(async () => {
      const entries: AuditEntry[] = [];
      let damaged = 0;
      for (let number = 0; number <= excess && entries.length < limit; number++) {
        for (const line of await linesFromTheEnd(this.#name(number))) {
          if (entries.length === limit) break;
          const entry = parsed(line);
          if (entry === undefined) damaged++;
          else entries.push(entry);
        }
      }
      return { entries, damaged_lines: damaged };
    });
  }

  /** Waits for the lines that are being written, and tries once more those that are owed. @throws as `record` */
  async close(): Promise<void> {
    await this.#inTurn(async () => {
      try {
        if (this.#owed.length > 0) await this.#append([]);
      } finally {
        await this.#file.close();
      }
    });
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(act);
    // Whoever waits for the turn is told of its failure; the next one begins in any case.
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #settle(outcome: Buffer): Promise<void> {
    try {
      await this.#append([outcome]);
    } catch (error) {
      this.#owed.push(outcome);
      throw error;
    }
  }

  /** Adds what is owed and these lines: all of them, or none. */
  async #append(lines: readonly Buffer[]): Promise<void> {
    const bytes = Buffer.concat([...this.#owed, ...lines]);
    try {
      if (this.#isTorn) await this.#file.truncate(this.#bytes);
      this.#isTorn = false;
      if (this.#bytes > 0 && this.#bytes + bytes.length > this.#fileBytesMax) await this.#rotate();
      this.#isTorn = true;
      await this.#file.appendFile(bytes);
      await this.#file.datasync();
      this.#bytes += bytes.length;
      this.#isTorn = false;
      this.#owed = [];
    } catch (error) {
      throw auditError(error, "cannot be written");
    }
  }

  /**
   * Begins a new file; the full one becomes the first of the old ones, and the oldest goes last.
   *
   *   .4 to .5, .3 to .4, .2 to .3, .1 to .2, audit.log to .1, new audit.log, .5 goes
   *
   * Each step leaves one gap in the names, or fills it, and none takes a name that a file has. A rotation that failed at
   * any step, or that a crash has ended, goes on from the first gap: however often it fails, no file is moved twice.
   */
  async #rotate(): Promise<void> {
    let gap = 0;
    while (gap < excess && (await hasLines(this.#name(gap)))) gap++;
    for (let number = gap; number > 0; number--) await rename(this.#name(number - 1), this.#name(number));
    const full = this.#file;
    const { file, bytes } = await openFile(this.#path);
    this.#file = file;
    this.#bytes = bytes;
    await full.close();
    await rm(this.#name(excess), { force: true });
  }

  /** @param number 0 for the file that is written, then from the newest of the older ones */
  #name(number: number): string {
    return number === 0 ? this.#path : `${this.#path}.${number}`;
  }
}

/** A file without lines is one that a failed rotation has begun: its name is as good as free. */
async function hasLines(path: string): Promise<boolean> {
  try {
    return (await stat(path)).size > 0;
  } catch (error) {
    ignoreMissing(error);
    return false;
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
