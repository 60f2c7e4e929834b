// What does a store's file contain, read without LMDB?
//
// A user whose disk has flipped a bit asks `quiver check` what is hit, and `quiver repair` to save the rest. LMDB cannot answer: a walk
// with its cursors in a process of its own crashes, ends at the first damaged page, or misses entries silently (docs/decisions/store.md).
//
// LMDB trusts its file, so a damaged one can crash it. `LmdbFile` is our own read-only reader. It reads the newest state of a data.mdb
// as of the moment of opening, and checks every number in the file before using it. It returns what is readable and skips the
// rest; lmdb-verify.ts reports what is wrong.
//
// The file may belong to a running server. The caller then holds a read transaction, so that LMDB does not reuse the pages meanwhile.

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { compareBytes } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import {
  findPageBytes,
  type Meta,
  type ReadBytes,
  readCommitMarker,
  readMeta,
  readTree,
  type Tree,
  treeBytes,
} from "./lmdb-meta.ts";
import {
  childAt,
  headerBytes,
  type LeafNode,
  leafNode,
  nodeCount,
  nodeFlags,
  pageFlags,
  u16At,
  u32At,
  u64At,
} from "./lmdb-page.ts";
import { payloadOf } from "./store.ts";

/** A stored value. */
export type RawEntry = {
  readonly key: Uint8Array;
  /** The value with its checksum trailer; undefined if its overflow pages are damaged or were not requested. */
  readonly stored: Uint8Array | undefined;
  /** Whether the value lies in overflow pages. */
  readonly isLong: boolean;
};

/** Reads of the meta pages: a running server may be writing one while we read it. */
const attemptsMax = 3;

export class LmdbFile {
  readonly #file: number;
  readonly sizeBytes: number;
  readonly pageBytes: number;
  /** The newest state, which is the one to read; undefined if neither meta page is usable. */
  meta: Meta | undefined;
  /** What is wrong with the meta pages. */
  problems: readonly { readonly problem: string; readonly page?: number }[] = [];
  /** What is wrong with the commit marker. The store itself loses nothing by it. */
  commitMarkerProblem: string | undefined;
  #trees: Map<string, Tree> | undefined;

  /** @param directory of the store. @throws where the file cannot be opened */
  constructor(directory: string) {
    this.#file = openSync(join(directory, "data.mdb"), "r");
    try {
      this.sizeBytes = fstatSync(this.#file).size;
      const read = (at: number, length: number) => this.#read(at, length);
      this.pageBytes = findPageBytes(read);
      invariant(this.pageBytes >= 512, `a page of the file has ${this.pageBytes} bytes`);
      for (let attempt = 0; attempt < attemptsMax; attempt++) {
        this.#readMetaPages(directory, read);
        if (this.problems.length === 0) break;
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #readMetaPages(directory: string, read: ReadBytes): void {
    const problems: { problem: string; page?: number }[] = [];
    // The marker is read before the meta pages, so these can only be newer than it.
    const marker = readCommitMarker(directory);
    this.commitMarkerProblem = typeof marker === "string" ? marker : undefined;
    this.meta = readMeta(
      read,
      fstatSync(this.#file).size,
      typeof marker === "string" ? undefined : marker,
      (problem, page) => problems.push({ problem, ...(page !== undefined && { page }) }),
    );
    this.problems = problems;
  }

  close(): void {
    closeSync(this.#file);
  }

  #read(at: number, length: number): Uint8Array | undefined {
    invariant(at >= 0 && length > 0, () => `${length} bytes at ${at} of a store's file are read`);
    if (at + length > this.sizeBytes) return undefined;
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const read = readSync(this.#file, bytes, done, length - done, at + done);
      if (read === 0) return undefined;
      done += read;
    }
    return bytes;
  }

  /** A page, as a copy that the caller may keep; undefined if the file has no page of this number. */
  page(number: number): Uint8Array | undefined {
    return this.meta !== undefined && number <= this.meta.lastPage ? this.rawPage(number) : undefined;
  }

  /** Like `page`, but works without a readable state: any page of the file except the meta pages. */
  rawPage(number: number): Uint8Array | undefined {
    return number < 2 ? undefined : this.#read(number * this.pageBytes, this.pageBytes);
  }

  /** The tables that are readable, ordered by name. */
  get tables(): ReadonlyMap<string, Tree> {
    this.#trees ??= new Map(this.#findTables().map((tree) => [tree.name, tree]));
    return this.#trees;
  }

  #findTables(): Tree[] {
    const { meta } = this;
    if (meta === undefined) return [];
    const trees: Tree[] = [];
    for (const page of this.#leaves(meta.tables))
      for (let i = 0; i < nodeCount(page); i++) {
        const node = leafNode(page, i);
        if (node === undefined || node.flags !== nodeFlags.tree || node.inline.length !== treeBytes) continue;
        // LMDB stores the zero byte that ends a name.
        const name = Buffer.from(node.key.subarray(0, -1)).toString("latin1");
        trees.push(readTree(node.inline, 0, name, meta.txn));
      }
    return trees;
  }

  /** The reachable and readable leaves of a tree, in key order. */
  *#leaves(tree: Tree, number = tree.root, depth = 1): Generator<Uint8Array> {
    const page = number < 0 || depth > tree.depth ? undefined : this.page(number);
    if (page === undefined || nodeCount(page) < 1) return;
    const flags = u16At(page, 18);
    if (depth === tree.depth && flags === pageFlags.leaf) yield page;
    if (depth === tree.depth || flags !== pageFlags.branch) return;
    for (let i = 0; i < nodeCount(page); i++) {
      const child = childAt(page, i);
      if (child !== undefined) yield* this.#leaves(tree, child.page, depth + 1);
    }
  }

  /**
   * The readable entries of a table, by ascending key. The caller may keep keys and values.
   * @param withLong whether to read values in overflow pages
   */
  *entries(table: string, withLong = true): Generator<RawEntry> {
    const tree = this.tables.get(table);
    if (tree === undefined) return;
    for (const page of this.#leaves(tree)) yield* this.entriesOf(page, withLong);
  }

  /** The readable entries of a leaf. */
  *entriesOf(page: Uint8Array, withLong = true): Generator<RawEntry> {
    for (let i = 0; i < nodeCount(page); i++) {
      const node = leafNode(page, i);
      if (node === undefined || node.flags > nodeFlags.overflow) continue;
      const isLong = node.flags === nodeFlags.overflow;
      yield { key: node.key, stored: isLong && !withLong ? undefined : this.valueOf(node), isLong };
    }
  }

  /** The intact payloads of a table by ascending key, undefined for damaged ones. The caller may keep both. */
  *payloads(table: string): Generator<[key: Uint8Array, payload: Uint8Array | undefined]> {
    for (const { key, stored } of this.entries(table)) yield [key, stored && payloadOf(table, key, stored)];
  }

  /** The payload of a key, which the caller may keep; undefined if it is absent or damaged. */
  get(table: string, key: Uint8Array): Uint8Array | undefined {
    const tree = this.tables.get(table);
    let number = tree?.root ?? -1;
    for (let depth = 1; number >= 0 && depth <= (tree?.depth ?? 0); depth++) {
      const page = this.page(number);
      const count = page === undefined ? -1 : nodeCount(page);
      if (page === undefined || count < 1) return undefined;
      if (u16At(page, 18) === pageFlags.leaf) return this.#getFromLeaf(table, page, count, key);
      let child = 0;
      for (; child + 1 < count; child++) {
        const from = childAt(page, child + 1)?.from;
        if (!from || compareBytes(from, key) > 0) break;
      }
      number = childAt(page, child)?.page ?? -1;
    }
    return undefined;
  }

  #getFromLeaf(table: string, page: Uint8Array, count: number, key: Uint8Array): Uint8Array | undefined {
    for (let i = 0; i < count; i++) {
      const node = leafNode(page, i);
      if (node === undefined || compareBytes(node.key, key) !== 0) continue;
      const stored = this.valueOf(node);
      return stored && payloadOf(table, key, stored);
    }
    return undefined;
  }

  /** A node's value with its checksum trailer; undefined if its overflow pages are unreadable. */
  valueOf(node: LeafNode): Uint8Array | undefined {
    if (node.flags !== nodeFlags.overflow) return node.inline;
    if (this.longProblem(node, Number.POSITIVE_INFINITY) !== undefined) return undefined;
    const { pageBytes } = this.meta as Meta;
    return this.#read(u64At(node.inline, 0) * pageBytes + headerBytes, node.valueBytes);
  }

  /**
   * What is wrong with the overflow pages of a node. The node names their first page, their number and the transaction that wrote them.
   * @param txnMax the transaction that wrote the node's page
   */
  longProblem({ inline, valueBytes }: LeafNode, txnMax: number): string | undefined {
    const { pageBytes, lastPage } = this.meta as Meta;
    const [first, txn, pages] = [u64At(inline, 0), u64At(inline, 8), u64At(inline, 16)];
    const needed = Math.floor((headerBytes - 1 + valueBytes) / pageBytes) + 1;
    // More pages than needed are fine: a value keeps its pages when a shorter one replaces it in the same transaction.
    if (pages < needed) return `a value of ${valueBytes} bytes has ${pages} pages; expected are ${needed}`;
    if (first < 2 || first + pages - 1 > lastPage || (first + pages) * pageBytes > this.sizeBytes)
      return `a value's pages, ${pages} from ${first} on, are not in the file`;
    const head = this.page(first) as Uint8Array;
    if (u64At(head, 0) !== first || u16At(head, 18) !== pageFlags.overflow || u32At(head, 20) !== pages)
      return `page ${first} is not marked as the first of ${pages} overflow pages`;
    if (txn > txnMax || u64At(head, 8) !== txn)
      return `page ${first} was written by transaction ${u64At(head, 8)}; expected is ${txn}`;
    return undefined;
  }
}
