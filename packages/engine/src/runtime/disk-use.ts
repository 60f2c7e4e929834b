// How many bytes do the files of a directory take?

import type { Dirent } from "node:fs";
import { readdir, stat, statfs } from "node:fs/promises";
import { join } from "node:path";

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
