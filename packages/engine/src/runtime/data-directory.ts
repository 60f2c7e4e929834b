// What lies where in the data directory, and who may use it?
//
//   data-dir/quiver.lock      whether it is open, and quiver.owner in which process (directory-lock.ts)
//   data-dir/catalog/         store of the catalog; catalog.new while it is made
//   data-dir/collections/ID/  store of one collection, named by its internal id
//   data-dir/snapshots/       files of snapshots
//   data-dir/admin-key        the key that the server has made; admin-key.new while it is written
//   data-dir/audit.log        the server's audit log, and audit.log.1, ... the older ones
//
// The last two are the server's; what all of them have in common is seen to here. What has another name is somebody else's:
// it is not looked at.
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
  realpathSync,
  rmSync,
  type Stats,
} from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { QuiverError } from "@quiver/protocol/errors";
import { failpoint } from "../base/failpoint.ts";
import { diskFailure, storageError } from "../storage/disk-error.ts";
import { type LockOptions, lockNames, takeLock } from "./directory-lock.ts";

export const catalogDirectory = (dataDir: string): string => join(dataDir, "catalog");
export const collectionsDirectory = (dataDir: string): string => join(dataDir, "collections");
export const snapshotsDirectory = (dataDir: string): string => join(dataDir, "snapshots");
export const collectionDirectory = (dataDir: string, internalId: string): string =>
  join(collectionsDirectory(dataDir), internalId);

/** Names in the data directory that are ours; all other ones are not. */
const ourNames = /^(catalog|catalog\.new|collections|snapshots|admin-key|admin-key\.new|audit\.log(\.\d+)?)$/;
const isOurs = (name: string) => ourNames.test(name) || (lockNames as readonly string[]).includes(name);

/** Real paths of the directories that this thread has open, or is opening. The lock tells of other threads. */
const open = new Set<string>();

/**
 * Makes the data directory where it is missing and takes its lock.
 * @returns gives the lock back
 * @throws storage_failed when another process, or this one, has it open, or it cannot be used
 */
export async function takeDataDirectory(dataDir: string, options: LockOptions = {}): Promise<() => void> {
  let path: string | undefined;
  try {
    makeDirectory(resolve(dataDir));
    const real = realpathSync(dataDir);
    if (open.has(real)) throw openHere(real);
    open.add(real);
    path = real;
    const unlock = await prepare(real, options);
    return () => {
      open.delete(real);
      unlock();
    };
  } catch (error) {
    if (path !== undefined) open.delete(path);
    throw openingError(dataDir, error);
  }
}

function openHere(path: string): QuiverError {
  return new QuiverError(
    "storage_failed",
    `This process has the data directory ${path} open already. Use the database that it opened, or close it first.`,
  );
}

/** Takes the lock; then everything that is ours is no link, is closed to others, and is there. */
async function prepare(path: string, options: LockOptions): Promise<() => void> {
  const names = readdirSync(path);
  for (const name of names) if (isOurs(name)) refuseLink(path, join(path, name));
  // One that was made for us beforehand.
  if (names.length === 0) chmodSync(path, 0o700);
  const unlock = await takeLock(path, options);
  try {
    failpoint("open:locked");
    const found = readdirSync(path)
      .filter(isOurs)
      .flatMap((name) => tooOpen(path, join(path, name)));
    // Only when there is no link anywhere is anything changed.
    for (const { path: each, mode } of found) chmodSync(each, mode);
    for (const directory of [catalogDirectory(path), collectionsDirectory(path), snapshotsDirectory(path)])
      makeDirectory(directory);
    failpoint("open:directories-made");
    return unlock;
  } catch (error) {
    unlock();
    throw error;
  }
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

/**
 * @returns what lies there; undefined where there is nothing any more
 * @throws storage_failed for a symbolic link
 */
function refuseLink(dataDir: string, path: string): Stats | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isSymbolicLink())
    throw new QuiverError(
      "storage_failed",
      `${relative(dataDir, path)} in the data directory is a symbolic link, and would have the server use what lies elsewhere. ` +
        "Put the real file or directory in its place; the data directory as a whole may be a link.",
    );
  return found;
}

/**
 * What others have rights on, of a file, or of a directory with everything in it, and the mode that it should have.
 * @throws storage_failed for a symbolic link
 */
function tooOpen(dataDir: string, path: string): { path: string; mode: number }[] {
  const found = refuseLink(dataDir, path);
  if (found === undefined) return [];
  // What another user owns, only that user can close; its owner let this process in on purpose.
  const isOwn = found.uid === process.getuid?.();
  const isOpen = isOwn && (found.mode & 0o077) !== 0;
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
