// Where are data sets read from, and where are generated files cached?

import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";

const dataFolder = resolve(import.meta.dirname, "../../../shared/data");
const cacheFolder = resolve(import.meta.dirname, "../.cache");

/** A path in the data folder, whose sets are read in place. */
export const inData = (path: string): string => join(dataFolder, path);

/** A path in bench/.cache. */
export const inCache = (path: string): string => join(cacheFolder, path);

/** The reason why a set of the data folder cannot be read here; undefined if it can. */
export const missingFolder = (folder: string): string | undefined =>
  existsSync(inData(folder)) ? undefined : `${folder} is not in the data folder`;

/** The bytes of a file, decompressed if its name ends in .gz. */
export function bytesOf(path: string): Uint8Array {
  const bytes = readFileSync(path);
  // A copy starts at offset 0, as required by views of four-byte elements.
  return Uint8Array.from(/\.(gz|dz)$/.test(path) ? gunzipSync(bytes) : bytes);
}

/** The bytes of a cached file, which `make` creates if it does not exist. */
export function made(path: string, make: () => Uint8Array): Uint8Array {
  if (!existsSync(path)) keep(path, make());
  return bytesOf(path);
}

/** Some bytes of a cached file, which `make` creates if it does not exist. A large set is not read where a part is wanted. */
export function madePart(path: string, make: () => Uint8Array, from: number, length: number): Uint8Array {
  if (!existsSync(path)) keep(path, make());
  const bytes = new Uint8Array(length);
  const file = openSync(path, "r");
  try {
    if (readSync(file, bytes, 0, length, from) < length) throw new Error(`${path} is too short`);
  } finally {
    closeSync(file);
  }
  return bytes;
}

/** Writes a file atomically. */
function keep(path: string, bytes: Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.part`, bytes);
  renameSync(`${path}.part`, path);
}

/** Bytes of all files below a directory whose path `counts`. */
export function bytesBelow(directory: string, counts: (path: string) => boolean = () => true): number {
  return readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((path) => join(directory, path))
    .filter((path) => counts(path))
    .map((path) => statSync(path))
    .filter((entry) => entry.isFile())
    .reduce((sum, { size }) => sum + size, 0);
}
