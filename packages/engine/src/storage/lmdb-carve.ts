// What can still be found in pages that no table reaches any more?
//
// A damaged page hides what is below it, and its own nodes where its header or offsets are wrong. Whatever lies there was written
// with a seal over table, key and value, so nodes can be looked for at every even place of such a page: what passes a seal is an
// entry of that table. Pages that are free are left out, for what lies in them was deleted.

import { LmdbFile, type RawEntry } from "./lmdb-file.ts";
import { treeBytes } from "./lmdb-meta.ts";
import {
  headerBytes,
  type LeafNode,
  leafNode,
  nodeAt,
  nodeCount,
  nodeFlags,
  pageFlags,
  u16At,
  u64At,
} from "./lmdb-page.ts";
import type { Pages } from "./lmdb-verify.ts";
import { bodyOf } from "./store.ts";

/** An entry whose seal says whose it is, and where it lies. */
export type Carved = {
  readonly table: string;
  readonly key: Uint8Array;
  readonly body: Uint8Array;
  readonly place: Place;
};

/** A node of a page. */
export type Place = { readonly page: number; readonly at: number };

/**
 * Looks for entries in every page that is neither in use nor free.
 * @param tables whose entries are looked for
 */
export function* carve(file: LmdbFile, pages: Pages, tables: readonly string[]): Generator<Carved> {
  for (let number = 2; number <= (file.meta?.lastPage ?? 0); number++) {
    if (pages.used.has(number) || pages.free.has(number)) continue;
    const page = file.page(number);
    if (page === undefined) continue;
    for (let at = headerBytes; at < page.length; at += 2) {
      const node = nodeAt(page, at);
      if (node === undefined || node.flags > nodeFlags.overflow) continue;
      const found = openAny(file, node, tables);
      if (found !== undefined) yield { ...found, key: node.key, place: { page: number, at } };
    }
  }
}

function openAny(file: LmdbFile, node: LeafNode, tables: readonly string[]) {
  const sealed = file.valueOf(node);
  if (sealed === undefined) return undefined;
  for (const table of tables) {
    const body = bodyOf(table, node.key, sealed);
    if (body !== undefined) return { table, body };
  }
  return undefined;
}

/** The entry at a place where `carve` has found it. */
export function entryAt(file: LmdbFile, { page, at }: Place): RawEntry | undefined {
  const bytes = file.page(page);
  const node = bytes && nodeAt(bytes, at);
  if (node === undefined) return undefined;
  return { key: node.key, sealed: file.valueOf(node), isLong: node.flags === nodeFlags.overflow };
}

/**
 * The file as of its youngest page of tables, for one whose beginnings are damaged: they may name a state that is older, or none.
 * Which pages are free is not known then.
 */
export function openBySearch(directory: string, expected: readonly string[]): LmdbFile {
  const file = new LmdbFile(directory);
  if (file.problems.length === 0) return file;
  const { pageBytes } = file;
  const lastPage = Math.floor(file.sizeBytes / pageBytes) - 1;
  let best = { page: -1, txn: -1 };
  for (let number = 2; number <= lastPage; number++) {
    const page = file.rawPage(number);
    if (page === undefined || !isPageOfTables(page, number, expected)) continue;
    const txn = u64At(page, 8);
    if (txn > best.txn) best = { page: number, txn };
  }
  const { txn: known, root } = file.meta?.tables ?? { txn: -1, root: -1 };
  if (best.page < 0 || best.txn < known || best.page === root) return file;
  const empty = { flags: 0, depth: 0, branches: 0, leaves: 0, overflows: 0, entries: 0, root: -1 };
  const { txn } = best;
  file.meta = {
    pageBytes,
    lastPage,
    txn,
    checksum: 0,
    free: { ...empty, name: "(free pages)", txn },
    tables: {
      ...empty,
      name: "(tables)",
      txn,
      depth: 1,
      leaves: 1,
      entries: expected.length,
      root: best.page,
    },
  };
  return file;
}

function isPageOfTables(page: Uint8Array, number: number, expected: readonly string[]): boolean {
  if (u64At(page, 0) !== number || u16At(page, 18) !== pageFlags.leaf || nodeCount(page) !== expected.length)
    return false;
  for (let i = 0; i < expected.length; i++) {
    const node = leafNode(page, i);
    if (node?.flags !== nodeFlags.tree || node.inline.length !== treeBytes) return false;
    if (!expected.includes(Buffer.from(node.key.subarray(0, -1)).toString("latin1"))) return false;
  }
  return true;
}
