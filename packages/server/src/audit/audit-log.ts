// Who changed what? An append-only file.
//
//   <dataDir>/audit.log      one JSON object a line, mode 0600; older files beside it as audit.log.1 (newest) to .4
//
// Each change has two lines. The first is on disk before the change begins: no change happens without a line, and if the log cannot be
// written, the change is rejected. The second line has the outcome and is on disk before the response is sent. If the disk fails between
// the two, the change has happened, and the response says so. The second line is then pending and is written before any other line, so that
// no further change begins without it. Until then the first line stands alone; if the process ends before, it stays alone.
//
// Lines are written one after another, each with a sync. An incomplete line, left by a crash or a full disk, is removed before the next one
// is written.

import { constants } from "node:fs";
import { type FileHandle, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { AuditEntry, AuditList } from "@quiverdb/protocol/shapes/audit";

const auditFileName = "audit.log";

/** Number of the surplus file: it exists during a rotation, or after a rotation that failed to remove it. */
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
  /** True after a failure: the file may be longer than `#bytes`. */
  #isTorn = false;
  /** Outcomes that could not be written, oldest first; at most one for each change in progress. */
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
   * Opens or creates the log of a data directory.
   * @throws storage_failed if the path is a symbolic link or not a file, or cannot be written
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
   * @throws storage_failed, storage_full; a `begun` line is then not in the log, and an outcome is pending
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

  /** The latest entries of the current file and the older ones, newest first. */
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

  /** Waits for the lines that are being written, and retries the pending ones. @throws as `record` */
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
    // The caller gets the error of its own turn; the next turn starts in any case.
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

  /** Appends the pending lines and these: all of them or none. */
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
   * Starts a new file; the full one becomes the newest of the old files, and the oldest is deleted last.
   *
   *   .4 to .5, .3 to .4, .2 to .3, .1 to .2, audit.log to .1, new audit.log, delete .5
   *
   * Each step leaves one gap in the names or fills it, and never overwrites a file. A rotation that was interrupted by a failure or a crash
   * continues from the first gap, so no file is moved twice, however often it fails.
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

  /** @param number 0 for the current file, then the older ones from the newest on */
  #name(number: number): string {
    return number === 0 ? this.#path : `${this.#path}.${number}`;
  }
}

/** A file without lines was created by a failed rotation: its name counts as free. */
async function hasLines(path: string): Promise<boolean> {
  try {
    return (await stat(path)).size > 0;
  } catch (error) {
    ignoreMissing(error);
    return false;
  }
}

/** Opens the file for appending, makes its name durable, and truncates an incomplete last line. */
async function openFile(path: string): Promise<{ file: FileHandle; bytes: number }> {
  const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
  const file = await open(path, flags, 0o600);
  try {
    const { size, mode } = await file.stat();
    if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw new Error("it is not a file");
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

/** Bytes up to the end of the last complete line. */
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

/** The lines of a file, last one first; none if the file does not exist. */
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
    `The audit log ${what} (${reason}). Changes that it must record are rejected until it can be written.`,
    {},
    { cause: error },
  );
}
