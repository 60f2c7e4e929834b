// Which entries can still be recovered from pages that no table reaches any more?
//
// A user whose file has lost one branch page gets back the thousands of records below it (`quiver repair`).
//
// A damaged page hides the pages below it, and its own nodes if its header or offsets are wrong. Every value has a checksum trailer
// over table, key and value. So the search tries each even offset of an unreachable page as the start of a node: a node whose
// trailer matches a table is an entry of that table. Free pages are skipped, because their entries were deleted.

import { invariant } from "../base/invariant.ts";
import { LmdbFile } from "./lmdb-file.ts";
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
import { payloadOf } from "./store.ts";

/** An entry found by its checksum trailer: its table, key and payload, and where it lies. */
export type Carved = {
  readonly table: string;
  readonly key: Uint8Array;
  readonly body: Uint8Array;
  readonly place: Place;
};

/** Where a node lies: its page, and its byte offset in it. */
export type Place = { readonly page: number; readonly at: number };

/**
 * Searches every page that is neither in use nor free for entries.
 * @param tables to which an entry may belong
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
  const stored = file.valueOf(node);
  if (stored === undefined) return undefined;
  for (const table of tables) {
    const body = payloadOf(table, node.key, stored);
    if (body !== undefined) return { table, body };
  }
  return undefined;
}

/** The payload of an entry that `carve` has found. */
export function payloadAt(file: LmdbFile, table: string, { page, at }: Place): Uint8Array | undefined {
  const bytes = file.page(page);
  const node = bytes && nodeAt(bytes, at);
  const stored = node && file.valueOf(node);
  return stored && payloadOf(table, node.key, stored);
}

/**
 * Opens a file whose meta pages are damaged, and so may name an older state or none at all. It searches for the page of the table list
 * that was written last and reads the file as of that page. The list of free pages is then unknown.
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
  invariant(
    best.page <= lastPage && best.txn >= known,
    () => `page ${best.page} of transaction ${best.txn} is taken for the newest list of tables`,
  );
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
