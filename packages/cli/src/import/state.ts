// Where did an interrupted import stop?
//
//   FILE.quiver-import.json     next to the first file, or the file given by --state
//
// The state is written while the import runs, by renaming a complete new file over the old one, and deleted when the import has ended.
// Everything that it records as acknowledged was acknowledged by the server. It may lag behind; then some records are sent again, which
// changes nothing, because the last write to an id wins.
//
// A state is used only for the same server, collection, mode, options and unchanged files. For a streaming import it also contains a
// version of the collection: if the server does not know that version, the collection is a different one of the same name, and the import
// starts from the beginning.

import { createHash } from "node:crypto";
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { firstPosition, type Position } from "@quiverdb/import/files/item";

const stateFormat = 1;
const fingerprintBytes = 64 * 1024;

export type Mode = "streaming" | "transaction";

/** The fingerprint that shows whether a file is still the same. */
type Fingerprint = {
  readonly path: string;
  readonly size: number;
  readonly mtimeMs: number;
  readonly hash: string;
};

/** What must be equal for an import to be resumed. */
export type ImportIdentity = {
  readonly url: string;
  readonly collection: string;
  readonly mode: Mode;
  /** Of a server only its name. */
  readonly files: readonly Fingerprint[];
  readonly idsFile: Fingerprint | null;
  /** Options that change which records result from the files. */
  readonly options: Readonly<Record<string, string | number | null>>;
};

export type ImportState = {
  readonly format: typeof stateFormat;
  readonly identity: ImportIdentity;
  /** Everything before this position is acknowledged or rejected. */
  readonly position: Position;
  /** Rows before `position` in all files, for the numbering of rows. */
  readonly rows: number;
  /** Records before `position` that the server has acknowledged. */
  readonly acknowledged: number;
  /** Lines before `position` that were rejected. */
  readonly rejected: number;
  /** Number of lines before `position` with removed unknown fields, and how often each field was removed; absent in older states. */
  readonly ignored?: Ignored;
  readonly transactionId: string | null;
  readonly version: { readonly number: number; readonly hash: string } | null;
  /** ISO 8601. */
  readonly updatedAt: string;
};

export type Ignored = { readonly lines: number; readonly fields: readonly (readonly [string, number])[] };

export const statePathOf = (file: string): string => `${file}.quiver-import.json`;

export function emptyState(identity: ImportIdentity): ImportState {
  return {
    format: stateFormat,
    identity,
    position: firstPosition,
    rows: 0,
    acknowledged: 0,
    rejected: 0,
    transactionId: null,
    version: null,
    updatedAt: new Date(0).toISOString(),
  };
}

/** Reads a state; undefined if there is none or it is not valid. */
export function loadState(path: string): ImportState | undefined {
  if (!existsSync(path)) return undefined;
  try {
    const state = JSON.parse(readFileSync(path, "utf8")) as ImportState;
    return state.format === stateFormat && typeof state.position?.offset === "number" ? state : undefined;
  } catch {
    return undefined;
  }
}

/** Replaces the state atomically. */
export function saveState(path: string, state: ImportState): void {
  const next = `${path}.new`;
  writeFileSync(next, `${JSON.stringify({ ...state, updatedAt: new Date().toISOString() }, null, 2)}\n`);
  renameSync(next, path);
}

export function deleteState(path: string): void {
  rmSync(path, { force: true });
  rmSync(`${path}.new`, { force: true });
}

/** Made of size, modification time and both ends of the file, because reading all of a large file only to compare it takes too long. */
export async function fingerprint(path: string): Promise<Fingerprint> {
  const { size, mtimeMs } = await stat(path);
  const file = await open(path);
  try {
    const hash = createHash("sha256");
    const buffer = Buffer.alloc(fingerprintBytes);
    for (const position of [0, Math.max(0, size - fingerprintBytes)]) {
      const { bytesRead } = await file.read(buffer, 0, fingerprintBytes, position);
      hash.update(buffer.subarray(0, bytesRead));
    }
    return { path, size, mtimeMs, hash: hash.digest("hex") };
  } finally {
    await file.close();
  }
}

/** Describes the difference between the interrupted import and the new one; undefined if there is none. */
export function difference(before: ImportIdentity, now: ImportIdentity): string | undefined {
  if (before.url !== now.url) return `it used the server ${before.url}`;
  if (before.collection !== now.collection)
    return `it used the collection ${JSON.stringify(before.collection)}`;
  if (before.mode !== now.mode) return `it was a ${before.mode} import`;
  const names = (identity: ImportIdentity) => identity.files.map(({ path }) => path).join(", ");
  if (names(before) !== names(now)) return `it read ${names(before)}`;
  for (const [i, file] of now.files.entries()) {
    if (!sameFile(before.files[i], file)) return `${file.path} has changed since`;
  }
  if (!sameFile(before.idsFile, now.idsFile)) return "its ids file was a different one or has changed since";
  return JSON.stringify(before.options) === JSON.stringify(now.options)
    ? undefined
    : "it had different options";
}

function sameFile(a: Fingerprint | null | undefined, b: Fingerprint | null): boolean {
  if (!a || !b) return !a && !b;
  return a.path === b.path && a.size === b.size && a.mtimeMs === b.mtimeMs && a.hash === b.hash;
}
