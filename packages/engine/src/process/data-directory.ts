// What does the data directory contain, and which process may use it?
//
//   data-dir/quiver.lock      the lock; quiver.owner names the process that holds it (directory-lock.ts)
//   data-dir/catalog/         store of the catalog; catalog.new during its creation
//   data-dir/collections/ID/  store of one collection, named by its internal id, and what its open transaction has staged
//   data-dir/snapshots/       files of snapshots
//   data-dir/admin-key        the key that the server generated; admin-key.new while it is being written
//   data-dir/audit.log        the server's audit log; older ones are audit.log.1, ...
//
// The server owns the last two. This file does what is common to all of them. Files with other names are not ours: it ignores them. A
// directory that has only such is refused.
//
// Directories have mode 0700 and files 0600, whatever the umask. Opening the data directory restricts what an earlier version or a copy
// left more open. A data directory that Quiver creates, or finds empty, gets mode 0700 as well; one with content keeps the
// mode that its creator chose. The data directory may be a symbolic link, but nothing of ours in it may be one: a link would make
// this process read, overwrite or delete files elsewhere. So links are refused before anything is opened.

import {
  chmodSync,
  closeSync,
  type Dirent,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  realpathSync,
  rmSync,
  type Stats,
  statSync,
} from "node:fs";
import { readdir, stat, statfs } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { QuiverError } from "@quiverdb/protocol/errors";
import { failpoint } from "../base/failpoint.ts";
import { diskFailure, storageError } from "../storage/disk-error.ts";
import { type LockOptions, lockNames, takeLock } from "./directory-lock.ts";

export const catalogDirectory = (dataDir: string): string => join(dataDir, "catalog");
export const collectionsDirectory = (dataDir: string): string => join(dataDir, "collections");
export const snapshotsDirectory = (dataDir: string): string => join(dataDir, "snapshots");
export const collectionDirectory = (dataDir: string, internalId: string): string =>
  join(collectionsDirectory(dataDir), internalId);

/** Real paths of the directories that this thread has open, or is opening. The lock covers other threads. */
const open = new Set<string>();

/** How a data directory is taken. */
type TakeOptions = LockOptions & {
  /** Takes a directory that has other files, and none of ours. Default false. */
  force?: boolean;
};

/**
 * Takes the lock of the data directory, and creates the directory if it is missing.
 * @returns a function that releases the lock
 * @throws data_directory_in_use if this or another process has it open; data_directory_foreign if it has other files, and none of ours;
 *   storage_failed if it is unusable
 */
export async function takeDataDirectory(dataDir: string, options: TakeOptions = {}): Promise<() => void> {
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
    "data_directory_in_use",
    `This process has the data directory ${path} open already. Use the database that it opened, or close it first.`,
    { path, pid: process.pid },
  );
}

/** Takes the lock. On return our files exist, are no links, and are closed to other users. */
async function prepare(path: string, { force = false, ...options }: TakeOptions): Promise<() => void> {
  if (!force) refuseForeign(path);
  const names = readdirSync(path);
  for (const name of names) if (isOurs(name)) refuseLink(path, join(path, name));
  // An empty directory was created for us beforehand, so its mode is ours to set.
  if (names.length === 0) chmodSync(path, 0o700);
  const unlock = await takeLock(path, options);
  try {
    failpoint("open:locked");
    const found = readdirSync(path)
      .filter(isOurs)
      .flatMap((name) => tooOpen(path, join(path, name)));
    // `tooOpen` has refused every link by now, so these changes stay inside the data directory.
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

/** Creates a directory and its missing parents, and makes their names durable. */
function makeDirectory(path: string): void {
  const missing: string[] = [];
  for (let at = path; statSync(at, { throwIfNoEntry: false }) === undefined; at = dirname(at))
    missing.push(at);
  // One by one, from the top. A recursive mkdir of Node.js never returns where the system denies that a parent exists, as in /proc, and
  // reports a read-only disk as ENOENT.
  for (const each of missing.reverse()) {
    makeOne(each);
    syncDirectory(dirname(each));
  }
  if (!statSync(path).isDirectory()) throw Object.assign(new Error("not a directory"), { code: "ENOTDIR" });
}

function makeOne(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Another start was faster.
    const isThere = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
    if ((error as NodeJS.ErrnoException).code !== "EEXIST" || !isThere) throw error;
  }
}

/**
 * @returns the file's status; undefined if it is gone
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
 * Finds what is accessible to other users in a file, or in a directory with all its content, and the mode that each should have.
 * @throws storage_failed for a symbolic link
 */
function tooOpen(dataDir: string, path: string): { path: string; mode: number }[] {
  const found = refuseLink(dataDir, path);
  if (found === undefined) return [];
  // Only its owner can change a mode. If another user owns it, that user gave this process access on purpose.
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

/** Makes the content of a file durable. @throws storage_failed, storage_full */
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
 * Makes durable what a store shows after it was opened or created. A process that is killed while it waits for the disk leaves a
 * commit that is visible but that a power loss would undo. The name of a new file is not durable either.
 */
export function syncStore(path: string): void {
  syncFile(join(path, "data.mdb"));
  syncDirectory(path);
}

/** Removes the directories of collections that are not in the catalog. @returns how many */
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

// ---- May Quiver use the directory that it was given, and if it cannot, why not?
//
//   missing, or empty                                        it becomes ours
//   has quiver.lock or a catalog                             it is ours, whatever else lies there
//   has nothing but names of ours, and what systems put in   it becomes ours: somebody has prepared it
//   anything else                                            somebody made a mistake: refused, unless forced
//
// The lock is the first file that an opening creates, so the directory of an interrupted first start is ours, too. The catalog counts
// because a copy may lack the lock.

/** Names in the data directory that belong to Quiver. */
const ourNames = /^(catalog|catalog\.new|collections|snapshots|admin-key|admin-key\.new|audit\.log(\.\d+)?)$/;

/** Whether a name in the data directory belongs to Quiver. */
const isOurs = (name: string): boolean =>
  ourNames.test(name) || (lockNames as readonly string[]).includes(name);

/** What is in a directory before anybody has used it: the root of an ext4 volume, a folder that macOS has shown, our image's working directory. */
const beforehand: readonly string[] = ["lost+found", ".DS_Store", "quiver.config.json"];

const namesShown = 5;

/**
 * Refuses a directory that has something in it, but nothing that says it is a data directory.
 * @param path of a directory that exists
 * @throws data_directory_foreign with what was found in it
 */
function refuseForeign(path: string): void {
  const names = readdirSync(path);
  if (names.includes("quiver.lock") || existsSync(join(path, "catalog", "data.mdb"))) return;
  const foreign = names.filter((name) => !isOurs(name) && !beforehand.includes(name)).sort();
  if (foreign.length === 0) return;
  const more = foreign.length - namesShown;
  const shown = foreign.slice(0, namesShown).map((name) => JSON.stringify(name));
  throw new QuiverError(
    "data_directory_foreign",
    `The directory ${path} is not empty, and is no data directory of Quiver: it has ${shown.join(", ")}${more > 0 ? ` and ${more} more` : ""}. Nothing was changed. Name an empty directory or a new one, such as ${join(path, "quiver-data")}, or use this one all the same with the option force.`,
    { path, found: foreign.slice(0, namesShown), found_total: foreign.length },
  );
}

/** The error that the caller gets if the disk or the directory prevents opening. Errors of our own pass through unchanged. */
export function openingError(dataDir: string, error: unknown): unknown {
  if (error instanceof QuiverError || !(error instanceof Error)) return error;
  const { code } = error as NodeJS.ErrnoException;
  const kind = diskFailure(error, dataDir);
  if (kind === "other" && code === undefined) return error;
  const path = resolve(dataDir);
  const why = {
    full: () => "Its disk is full. Free some space and start again.",
    "read-only": () => "Its disk is read-only. Mount it for reading and writing, or name another directory.",
    other: () => obstacle(path, code),
  }[kind]();
  return new QuiverError(
    kind === "full" ? "storage_full" : "storage_failed",
    `The data directory ${path} cannot be used${code ? ` (${code})` : ""}. ${why}`,
    {},
    { cause: error },
  );
}

/** What is in the way of a directory, and what to do about it. */
function obstacle(path: string, code: string | undefined): string {
  let at = path;
  // The root exists.
  while (!isThere(at)) at = dirname(at);
  if (!existsSync(at))
    return `${at} is a link to what does not exist. Create that, or name another directory.`;
  const found = statSync(at);
  if (!found.isDirectory()) return `${at} is a file. Name a directory.`;
  if (code === "EACCES" || code === "EPERM")
    return `User ${process.getuid?.() ?? "?"} may not write in ${at}, which belongs to user ${found.uid} and has the mode ${(found.mode & 0o7777).toString(8)}. Change its owner, its mode or its attributes, or name another directory.`;
  return `Nothing can be created in ${at}. Name another directory.`;
}

function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // Whoever may not look into its parent does not see it.
    return false;
  }
}

// ---- How many bytes do the files of a directory take?

const blockBytes = 512;

/** Bytes that the files below a directory take on the disk; 0 for one that is missing. Files that vanish meanwhile count nothing. */
export async function directoryBytes(path: string): Promise<number> {
  const entries = await unlessGone<Dirent[]>(readdir(path, { withFileTypes: true, recursive: true }), []);
  const sizes = await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async ({ parentPath, name }) => {
        const found = await unlessGone(stat(join(parentPath, name)), undefined);
        // Files have holes: what counts is what the disk has given.
        return found === undefined ? 0 : found.blocks === undefined ? found.size : found.blocks * blockBytes;
      }),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** Bytes that a process without privileges can still write beside a directory. */
export async function freeBytes(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize;
}

async function unlessGone<T>(reading: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return otherwise;
    throw error;
  }
}
