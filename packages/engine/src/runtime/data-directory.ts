// What lies where in the data directory, and who may use it?
//
//   data-dir/quiver.lock      the process that has it open
//   data-dir/catalog/         store of the catalog; catalog.new while it is made
//   data-dir/collections/ID/  store of one collection, named by its internal id
//   data-dir/snapshots/       files of snapshots
//   data-dir/admin-key        the key that the server has made; admin-key.new while it is written
//   data-dir/audit.log        the server's audit log, and audit.log.1, ... the older ones
//
// The last two are the server's; what all of them have in common is seen to here. What has another name is somebody else's:
// it is not looked at.
//
// One process at a time: the lock file names its process and when that process began, so that the file of a
// process that was killed is told from that of a running one, also when its number was given again.
//
// Directories are 0700 and files 0600, whatever the umask: what an earlier version or a copy has left more open is
// closed when the directory is opened. The data directory itself is made so, too, or becomes so when it was empty; with
// anything in it, its mode is what whoever made it wanted. It may be a link; nothing of ours in it is one. A link there
// would have this process read, overwrite or delete what lies elsewhere, so it is refused before anything is opened.

import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { QuiverError } from "@quiver/protocol/errors";
import { failpoint } from "../base/failpoint.ts";
import { diskFailure, storageError } from "../storage/disk-error.ts";

export const catalogDirectory = (dataDir: string): string => join(dataDir, "catalog");
export const collectionsDirectory = (dataDir: string): string => join(dataDir, "collections");
export const snapshotsDirectory = (dataDir: string): string => join(dataDir, "snapshots");
export const collectionDirectory = (dataDir: string, internalId: string): string =>
  join(collectionsDirectory(dataDir), internalId);

/** Names in the data directory that are ours; all other ones are not. */
const ourNames =
  /^(quiver\.lock|catalog|catalog\.new|collections|snapshots|admin-key|admin-key\.new|audit\.log(\.\d+)?)$/;

const lockFile = (dataDir: string) => join(dataDir, "quiver.lock");

type Lock = { pid: number; began: string };

/** When a process began, in ticks since boot; empty where the system does not tell. */
function processBegan(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    // There is no such process, or no /proc on this system: the caller then goes by the number alone.
    return "";
  }
}

function isRunning({ pid, began }: Lock): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it runs, as another user.
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  return began === "" || processBegan(pid) === began;
}

/** Directories this process has open. */
const open = new Set<string>();

/**
 * Makes the data directory where it is missing and takes its lock.
 * @returns gives the lock back
 * @throws storage_failed when another process, or this one, has it open, or it cannot be used
 */
export function takeDataDirectory(dataDir: string): () => void {
  const path = resolve(dataDir);
  if (open.has(path)) throw inUse("this process already");
  try {
    makeDirectory(path);
    const names = readdirSync(path);
    // One that was made for us beforehand.
    if (names.length === 0) chmodSync(path, 0o700);
    const found = names
      .filter((name) => ourNames.test(name))
      .flatMap((name) => tooOpen(path, join(path, name)));
    // Only when there is no link anywhere is anything changed.
    for (const { path: each, mode } of found) chmodSync(each, mode);
    for (const directory of [catalogDirectory(path), collectionsDirectory(path), snapshotsDirectory(path)])
      makeDirectory(directory);
    failpoint("open:directories-made");
    writeLock(path);
    failpoint("open:locked");
  } catch (error) {
    throw openingError(path, error);
  }
  open.add(path);
  return () => {
    open.delete(path);
    try {
      rmSync(lockFile(path), { force: true });
    } catch (error) {
      // The file names a process that will be gone, so that the next start takes no notice of it.
      if (diskFailure(error as Error) !== "read-only") throw error;
    }
  };
}

/** What whoever starts a server is told when the disk, or the directory, does not let it be opened; bugs of ours pass through. */
export function openingError(dataDir: string, error: unknown): unknown {
  if (error instanceof QuiverError || !(error instanceof Error)) return error;
  const { code } = error as NodeJS.ErrnoException;
  const kind = diskFailure(error, dataDir);
  if (kind === "other" && code === undefined) return error;
  return new QuiverError(
    kind === "full" ? "storage_full" : "storage_failed",
    `The data directory ${resolve(dataDir)} cannot be used${code ? ` (${code})` : ""}. ${openingAdvice[kind]}`,
    {},
    { cause: error },
  );
}

const openingAdvice = {
  full: "Its disk is full. Free some space and start again.",
  "read-only": "Its disk is read-only. Mount it for reading and writing, or name another directory.",
  other: "It must be a directory that this user may read and write.",
} as const;

/** Makes a directory and those above it, where they are missing, and makes their names durable. */
function makeDirectory(path: string): void {
  const first = makeAllDirectories(path);
  if (first === undefined) return;
  for (let made = path; made.length >= first.length; made = dirname(made)) syncDirectory(dirname(made));
}

/** @returns the first one that was made */
function makeAllDirectories(path: string): string | undefined {
  try {
    return mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    // That is what Node.js makes of a disk that is read-only. Asked for a single directory, it says what is wrong.
    if ((error as NodeJS.ErrnoException).code === "ENOENT" && existsSync(dirname(path)))
      mkdirSync(path, { mode: 0o700 });
    throw error;
  }
}

function writeLock(path: string): void {
  const lock: Lock = { pid: process.pid, began: processBegan(process.pid) };
  for (let attempt = 0; ; attempt++) {
    try {
      writeFileSync(lockFile(path), JSON.stringify(lock), { flag: "wx", mode: 0o600 });
      return;
    } catch (error) {
      const isThere = (error as NodeJS.ErrnoException).code === "EEXIST";
      // A full disk makes the file, and nothing in it.
      if (!isThere && diskFailure(error as Error) === "full") rmSync(lockFile(path), { force: true });
      if (!isThere || attempt > 1) throw error;
      const holder = readLock(path);
      const isSelf = holder?.pid === process.pid;
      if (holder && !isSelf && isRunning(holder)) throw inUse(`the process ${holder.pid}`);
      rmSync(lockFile(path), { force: true });
    }
  }
}

/** To be asked before a directory is read that no database has open. @throws storage_failed where one has it */
export function requireUnused(dataDir: string): void {
  const holder = readLock(resolve(dataDir));
  if (open.has(resolve(dataDir))) throw inUse("this process already");
  if (holder && holder.pid !== process.pid && isRunning(holder)) throw inUse(`the process ${holder.pid}`);
}

/** The lock that lies there; undefined when it is not readable, as after a crash while it was written. */
function readLock(path: string): Lock | undefined {
  try {
    const lock = JSON.parse(readFileSync(lockFile(path), "utf8")) as Lock;
    return Number.isInteger(lock.pid) ? lock : undefined;
  } catch {
    return undefined;
  }
}

function inUse(by: string): QuiverError {
  return new QuiverError(
    "storage_failed",
    `The data directory is in use by ${by}. One process at a time may open it: stop the other one or name another directory.`,
  );
}

/**
 * What others have rights on, of a file, or of a directory with everything in it, and the mode that it should have.
 * @throws storage_failed for a symbolic link
 */
function tooOpen(dataDir: string, path: string): { path: string; mode: number }[] {
  const found = lstatSync(path);
  if (found.isSymbolicLink())
    throw new QuiverError(
      "storage_failed",
      `${relative(dataDir, path)} in the data directory is a symbolic link, and would have the server use what lies elsewhere. ` +
        "Put the real file or directory in its place; the data directory as a whole may be a link.",
    );
  // What another user owns, only that user can close; its owner let this process in on purpose.
  const isOurs = found.uid === process.getuid?.();
  const isOpen = isOurs && (found.mode & 0o077) !== 0;
  const own = isOpen ? [{ path, mode: found.isDirectory() ? 0o700 : 0o600 }] : [];
  if (!found.isDirectory()) return own;
  return [...own, ...readdirSync(path).flatMap((name) => tooOpen(dataDir, join(path, name)))];
}

/** Makes names in a directory durable. @throws storage_failed, storage_full */
export function syncDirectory(path: string): void {
  sync(path, "r");
}

/** Makes what is in a file durable. @throws storage_failed, storage_full */
export function syncFile(path: string): void {
  sync(path, "r+");
}

function sync(path: string, mode: "r" | "r+"): void {
  try {
    const handle = openSync(path, mode);
    try {
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
  } catch (error) {
    throw storageError(error);
  }
}

/**
 * Makes durable what can be seen of a store that was just opened or made: a process that was killed while it waited for the
 * disk leaves a commit that is to be seen and that a power loss would take back, and a new file's name is not durable either.
 */
export function syncStore(path: string): void {
  syncFile(join(path, "data.mdb"));
  syncDirectory(path);
}

/** Removes the directories of collections that the catalog does not know. @returns how many */
export function removeOrphans(dataDir: string, known: ReadonlySet<string>): number {
  let removed = 0;
  for (const name of readdirSync(collectionsDirectory(dataDir))) {
    if (known.has(name)) continue;
    removeCollectionDirectory(dataDir, name);
    removed++;
  }
  return removed;
}

export function removeCollectionDirectory(dataDir: string, internalId: string): void {
  const path = collectionDirectory(dataDir, internalId);
  rmSync(path, { recursive: true, force: true });
  failpoint("remove:files-gone");
  syncDirectory(dirname(path));
}
