// Who has a data directory open?
//
//   quiver.lock    always empty; the system's lock lies on it
//   quiver.owner   who took the lock last: told to the one who is refused, and never asked whether the lock is held
//
//   owner    an exclusive transaction of SQLite on quiver.lock, open until the owner ends (takeLock)
//   reader   a shared one, while `quiver check` or `quiver repair` reads (lockForReading)
//
// SQLite locks by what the system has for it (fcntl, LockFileEx). So the kernel decides whether the lock is held, for all
// processes that see the file, in containers and PID namespaces of their own, too. It frees the lock when the last thread of the
// owner is gone: not before a thread that still waits for the disk can write no more, and never later. Nobody takes a
// lock away from another process, and no lock is left over: a copied directory is free.
//
// Rules that keep this true:
//   1. quiver.lock is never deleted. Who waits for a deleted file and who makes a new one would both become the owner.
//   2. Nothing but SQLite opens quiver.lock: as POSIX has it, a process loses its lock when it closes *any* descriptor
//      of the file. SQLite itself looks after this for all threads of a process.
//   3. The connection is kept until the lock is given back: the collector would close it.

import {
  accessSync,
  closeSync,
  constants,
  lstatSync,
  openSync,
  readFileSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";

/** Files of the lock. SQLite would look at the last three, which are never made: none of them may be a link. */
export const lockNames = [
  "quiver.lock",
  "quiver.owner",
  "quiver.lock-journal",
  "quiver.lock-wal",
  "quiver.lock-shm",
] as const;

/** Who has, or had, a directory open. */
export type Owner = {
  readonly host: string;
  /** As its own PID namespace numbers it. */
  readonly pid: number;
  /** ISO 8601. */
  readonly since: string;
};

export type LockOptions = {
  /** How long to wait for an owner that is ending. Default 10 seconds. */
  waitMs?: number;
  /** Told once, when it has to be waited. */
  onWait?(message: string, waitMs: number): void;
  clock?: () => number;
};

const lockFile = (directory: string) => join(directory, "quiver.lock");
const ownerFile = (directory: string) => join(directory, "quiver.owner");

/** Milliseconds between two attempts. */
const attemptMs = 50;
/** The owner file has this length always, so that it is written in place: a full disk does not keep a start from it. */
const ownerBytes = 256;
/** SQLite's primary result code for a lock that another connection has. */
const busy = 5;

/**
 * Becomes the owner of a directory.
 * @param directory its real path
 * @returns gives the lock back
 * @throws storage_failed when it is still in use after the wait
 */
export async function takeLock(directory: string, options: LockOptions = {}): Promise<() => void> {
  const { waitMs = limits.lockWaitMsDefault, onWait, clock = Date.now } = options;
  makeLockFile(lockFile(directory));
  const end = performance.now() + waitMs;
  let connection = attempt(directory, "exclusive");
  if (connection === undefined && waitMs > 0) onWait?.(`${usedBy(directory)} It is waited for.`, waitMs);
  while (connection === undefined) {
    if (performance.now() >= end) throw inUse(directory);
    await sleep(attemptMs);
    connection = attempt(directory, "exclusive");
  }
  const held = connection;
  try {
    writeOwner(directory, { host: hostname(), pid: process.pid, since: new Date(clock()).toISOString() });
  } catch (error) {
    held.close();
    throw error;
  }
  return () => held.close();
}

/**
 * Keeps owners out while a directory is read that nobody has open. Several may read. Changes nothing, and makes no file: without
 * one, nobody has ever opened the directory.
 * @returns lets owners in again
 * @throws storage_failed when it has an owner
 */
export function lockForReading(directory: string): () => void {
  if (lstatSync(lockFile(directory), { throwIfNoEntry: false }) === undefined) return () => {};
  const connection = attempt(directory, "shared");
  if (connection === undefined) throw inUse(directory);
  return () => connection.close();
}

/** Makes the lock file, or empties it: earlier versions of Quiver wrote into it, and SQLite would not take that for its own. */
function makeLockFile(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found !== undefined) {
    accessSync(path, constants.R_OK | constants.W_OK);
    if (found.size > 0) truncateSync(path, 0);
    return;
  }
  try {
    writeFileSync(path, "", { flag: "wx", mode: 0o600 });
  } catch (error) {
    // Another start was faster.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** The connection that holds the lock; undefined where another one holds it. */
function attempt(directory: string, kind: "exclusive" | "shared"): DatabaseSync | undefined {
  const { DatabaseSync } = sqlite();
  const connection = new DatabaseSync(lockFile(directory), { readOnly: kind === "shared" });
  try {
    // No journal beside the file. The change, which is never committed, fails where SQLite could open the file only for reading: of
    // such a one it would make an exclusive transaction a shared one, without a word.
    connection.exec(
      kind === "exclusive"
        ? "PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE; PRAGMA user_version = 1"
        : "BEGIN; SELECT * FROM sqlite_schema",
    );
    return connection;
  } catch (error) {
    connection.close();
    if ((((error as { errcode?: number }).errcode ?? 0) & 0xff) === busy) return undefined;
    throw error;
  }
}

/** SQLite as Node.js brings it. Some versions warn, once in each thread, that it is new: nobody who starts a server can act on that. */
function sqlite(): typeof import("node:sqlite") {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return process.getBuiltinModule("node:sqlite");
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** A sentence that says who has the directory open, in words for a person. */
function usedBy(directory: string): string {
  const reading = attempt(directory, "shared");
  reading?.close();
  if (reading !== undefined)
    return `The data directory ${directory} is being read by a quiver check or quiver repair.`;
  const owner = readOwner(directory);
  const who = owner ? `process ${owner.pid} on host ${owner.host}, since ${owner.since}` : "another process";
  return `The data directory ${directory} is in use by ${who}.`;
}

function writeOwner(directory: string, owner: Owner): void {
  const handle = openSync(ownerFile(directory), constants.O_WRONLY | constants.O_CREAT, 0o600);
  try {
    writeSync(handle, JSON.stringify(owner).padEnd(ownerBytes));
  } finally {
    closeSync(handle);
  }
}

function readOwner(directory: string): Owner | undefined {
  try {
    const owner = JSON.parse(readFileSync(ownerFile(directory), "utf8").slice(0, ownerBytes)) as Owner;
    return Number.isInteger(owner.pid) ? owner : undefined;
  } catch {
    // It lies there for people alone. The lock holds without it.
    return undefined;
  }
}

function inUse(directory: string): QuiverError {
  return new QuiverError(
    "storage_failed",
    `${usedBy(directory)} One process at a time may open it: stop the other one or name another directory.`,
  );
}
