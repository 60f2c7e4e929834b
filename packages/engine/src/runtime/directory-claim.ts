// May Quiver use the directory that it was given, and if it cannot, why not?
//
//   missing, or empty                                        it becomes ours
//   has quiver.lock or a catalog                             it is ours, whatever else lies there
//   has nothing but names of ours, and what systems put in   it becomes ours: somebody has prepared it
//   anything else                                            somebody made a mistake: refused, unless forced
//
// The lock is the first file that an opening creates, so the directory of an interrupted first start is ours, too. The catalog counts
// because a copy may lack the lock.

import { existsSync, lstatSync, readdirSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { QuiverError } from "@quiverdb/protocol/errors";
import { diskFailure } from "../storage/disk-error.ts";
import { lockNames } from "./directory-lock.ts";

/** Names in the data directory that belong to Quiver. */
const ourNames = /^(catalog|catalog\.new|collections|snapshots|admin-key|admin-key\.new|audit\.log(\.\d+)?)$/;

/** Whether a name in the data directory belongs to Quiver. */
export const isOurs = (name: string): boolean =>
  ourNames.test(name) || (lockNames as readonly string[]).includes(name);

/** What is in a directory before anybody has used it: the root of an ext4 volume, a folder that macOS has shown, our image's working directory. */
const beforehand: readonly string[] = ["lost+found", ".DS_Store", "quiver.config.json"];

const namesShown = 5;

/**
 * Refuses a directory that has something in it, but nothing that says it is a data directory.
 * @param path of a directory that exists
 * @throws data_directory_foreign with what was found in it
 */
export function refuseForeign(path: string): void {
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
