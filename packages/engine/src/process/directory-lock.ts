// Who has a data directory open?
//
//   quiver.lock    always empty; the system's lock lies on it
//   quiver.owner   names the process that took the lock last; used in error messages only, never to decide whether the lock is held
//
//   owner    an exclusive transaction of SQLite on quiver.lock, open until the owner ends (takeLock)
//   reader   a shared one, while `quiver check` or `quiver repair` reads (lockForReading)
//
// SQLite uses the locks of the system (fcntl, LockFileEx). So the kernel decides whether the lock is held, for all processes that see
// the file, also across containers and PID namespaces. It frees the lock exactly when the last thread of the owner is gone, so a
// thread that still waits for the disk keeps it. No process can take the lock from another, and no stale lock remains: a copied
// directory is free.
//
// Rules that keep this true:
//   1. quiver.lock is never deleted. Otherwise a process that waits for the deleted file and one that creates a new file would both
//      become the owner.
//   2. Only SQLite opens quiver.lock. Under POSIX a process loses its lock when it closes *any* descriptor of the file. SQLite
//      handles this for all threads of a process.
//   3. The code keeps a reference to the connection until it releases the lock. Otherwise the garbage collector would close it.

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
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";

/** Files of the lock. The last three are never created, but SQLite would open them, so none of them may be a link. */
export const lockNames = [
  "quiver.lock",
  "quiver.owner",
  "quiver.lock-journal",
  "quiver.lock-wal",
  "quiver.lock-shm",
] as const;

/** The process that has, or had, a directory open. */
export type Owner = {
  readonly host: string;
  /** In the owner's PID namespace. */
  readonly pid: number;
  /** ISO 8601. */
  readonly since: string;
};

export type LockOptions = {
  /** How long to wait for an owner that is ending. Default 10 seconds. */
  waitMs?: number;
  /** Called once if there is a wait. */
  onWait?(message: string, waitMs: number): void;
  clock?: () => number;
};

const lockFile = (directory: string) => join(directory, "quiver.lock");
const ownerFile = (directory: string) => join(directory, "quiver.owner");

/** Milliseconds between two attempts. */
const attemptMs = 50;
/** The owner file always has this length, so it is overwritten in place and a full disk does not prevent a start. */
const ownerBytes = 256;
/** SQLite's primary result code for a lock that another connection has. */
const busy = 5;

/**
 * Becomes the owner of a directory.
 * @param directory its real path
 * @returns a function that releases the lock
 * @throws data_directory_in_use if it is still in use after the wait
 */
export async function takeLock(directory: string, options: LockOptions = {}): Promise<() => void> {
  const { waitMs = limits.lockWaitMsDefault, onWait, clock = Date.now } = options;
  makeLockFile(lockFile(directory));
  const end = performance.now() + waitMs;
  let connection = attempt(directory, "exclusive");
  if (connection === undefined && waitMs > 0)
    onWait?.(`${useOf(directory).message} Waiting for it to end.`, waitMs);
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
 * Keeps owners out while the caller reads a directory that no process has open. Several readers may hold the lock at once. Changes and
 * creates no file: without a lock file, no process has ever opened the directory.
 * @returns a function that releases the lock
 * @throws data_directory_in_use if the directory has an owner
 */
export function lockForReading(directory: string): () => void {
  if (lstatSync(lockFile(directory), { throwIfNoEntry: false }) === undefined) return () => {};
  const connection = attempt(directory, "shared");
  if (connection === undefined) throw inUse(directory);
  return () => connection.close();
}

/** Creates the lock file, or empties it: earlier versions of Quiver wrote into it, and SQLite rejects a file that is not a database. */
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

/** Tries to take the lock. @returns the connection that holds it; undefined if another connection does */
function attempt(directory: string, kind: "exclusive" | "shared"): DatabaseSync | undefined {
  const { DatabaseSync } = sqlite();
  const connection = new DatabaseSync(lockFile(directory), { readOnly: kind === "shared" });
  try {
    // MEMORY: no journal file. SQLite silently turns an exclusive transaction into a shared one if it could open the file only for
    // reading. The change of user_version, which is never committed, makes it fail instead.
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

/** The SQLite of Node.js. Some versions warn, once per thread, that it is experimental. Users cannot act on that, so it is suppressed. */
function sqlite(): typeof import("node:sqlite") {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return process.getBuiltinModule("node:sqlite");
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Who has the directory open, in a sentence for users, and what they can do about it. */
function useOf(directory: string): { message: string; advice: string; owner?: Owner } {
  const reading = attempt(directory, "shared");
  reading?.close();
  if (reading !== undefined)
    return {
      message: `The data directory ${directory} is being read by a quiver check or quiver repair.`,
      advice: "Wait until that has ended.",
    };
  const owner = readOwner(directory);
  const who = owner ? `process ${owner.pid} on host ${owner.host}, since ${owner.since}` : "another process";
  return {
    message: `The data directory ${directory} is in use by ${who}.`,
    advice:
      "One process at a time may open it: stop the other one, send requests to it if it is a server, or name another directory.",
    ...(owner && { owner }),
  };
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
    // The owner file only serves messages. The lock works without it.
    return undefined;
  }
}

function inUse(directory: string): QuiverError {
  const { message, advice, owner } = useOf(directory);
  return new QuiverError("data_directory_in_use", `${message} ${advice}`, { path: directory, ...owner });
}
