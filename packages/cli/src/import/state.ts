// Where did an interrupted import stop?
//
//   FILE.quiver-import.json     beside the first file, or where --state says
//
// It is written while the import runs, by renaming a complete new file over the old one, and deleted when the import
// has ended. What it says has been acknowledged, the server has acknowledged; it may lag behind, which costs sending a
// little again and changes nothing, for the last write to an id wins.
//
// A state is used only when it is of the same server, collection, mode, options and unchanged files. For a streaming
// import it also carries a version of the collection: where the server does not know that version, the collection is
// another one of the same name, and the import starts from the beginning.

import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import type { Fingerprint } from "./input-file.ts";
import { firstPosition, type Position } from "./item.ts";

export const stateFormat = 1;

export type Mode = "streaming" | "transaction";

/** What must be the same for an import to go on. */
export type ImportIdentity = {
  readonly url: string;
  readonly collection: string;
  readonly mode: Mode;
  readonly files: readonly Fingerprint[];
  readonly idsFile: Fingerprint | null;
  /** Options that change which records the files mean. */
  readonly options: Readonly<Record<string, string | number | null>>;
};

export type ImportState = {
  readonly format: typeof stateFormat;
  readonly identity: ImportIdentity;
  /** Everything before it is acknowledged or rejected. */
  readonly position: Position;
  /** Rows before `position` in all files, for the numbering of rows. */
  readonly rows: number;
  /** Records before `position` that the server has acknowledged. */
  readonly acknowledged: number;
  /** Lines before `position` that were rejected. */
  readonly rejected: number;
  /** Lines before `position` of which unknown fields were left out, and how often each field was; absent in older states. */
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

/** Reads a state; undefined when there is none or it cannot be read as one. */
export function loadState(path: string): ImportState | undefined {
  if (!existsSync(path)) return undefined;
  try {
    const state = JSON.parse(readFileSync(path, "utf8")) as ImportState;
    return state.format === stateFormat && typeof state.position?.offset === "number" ? state : undefined;
  } catch {
    return undefined;
  }
}

/** Replaces the state by a new one, as a whole. */
export function saveState(path: string, state: ImportState): void {
  const next = `${path}.new`;
  writeFileSync(next, `${JSON.stringify({ ...state, updatedAt: new Date().toISOString() }, null, 2)}\n`);
  renameSync(next, path);
}

export function deleteState(path: string): void {
  rmSync(path, { force: true });
  rmSync(`${path}.new`, { force: true });
}

/** What differs between the import that stopped and the one that starts, in words; undefined when nothing does. */
export function difference(before: ImportIdentity, now: ImportIdentity): string | undefined {
  if (before.url !== now.url) return `it went to ${before.url}`;
  if (before.collection !== now.collection)
    return `it filled the collection ${JSON.stringify(before.collection)}`;
  if (before.mode !== now.mode) return `it was a ${before.mode} import`;
  const names = (identity: ImportIdentity) => identity.files.map(({ path }) => path).join(", ");
  if (names(before) !== names(now)) return `it read ${names(before)}`;
  for (const [i, file] of now.files.entries()) {
    if (!sameFile(before.files[i], file)) return `${file.path} has changed since`;
  }
  if (!sameFile(before.idsFile, now.idsFile)) return "its ids file was another one or has changed since";
  return JSON.stringify(before.options) === JSON.stringify(now.options) ? undefined : "it had other options";
}

function sameFile(a: Fingerprint | null | undefined, b: Fingerprint | null): boolean {
  if (!a || !b) return !a && !b;
  return a.path === b.path && a.size === b.size && a.mtimeMs === b.mtimeMs && a.hash === b.hash;
}
