// What is in a store's file, when LMDB itself is not to be trusted with it?
//
// `LmdbFile` reads the newest state of a data.mdb by itself, as it was when the file was opened. It changes nothing and cannot be
// misled: no number in the file is used before it was found possible. It gives what can be read and leaves out what cannot;
// lmdb-verify.ts tells what that is.
//
// A file of a running server is read like any other, while a snapshot of the reader's own keeps its pages from being used again.

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { compareBytes } from "../base/bytes.ts";
import {
  findPageBytes,
  type Meta,
  type ReadBytes,
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
import { readTip } from "./lmdb-tip.ts";

/** A stored value. */
export type RawEntry = {
  readonly key: Uint8Array;
  /** With its seal; undefined where its overflow pages are damaged, or were not asked for. */
  readonly sealed: Uint8Array | undefined;
  /** It lies in overflow pages. */
  readonly isLong: boolean;
};

/** A beginning may be read while a running server writes it. */
const attemptsMax = 3;

export class LmdbFile {
  readonly #file: number;
  readonly sizeBytes: number;
  readonly pageBytes: number;
  /** The state that is read, the newest; undefined where nothing can be read. */
  meta: Meta | undefined;
  /** What is wrong with the beginnings of the file. */
  problems: readonly { readonly problem: string; readonly page?: number }[] = [];
  /** What is wrong with the file that tells which state is the newest; nothing of the store is lost by that. */
  tipProblem: string | undefined;
  #trees: Map<string, Tree> | undefined;

  /** @param directory of the store. @throws where the file cannot be opened */
  constructor(directory: string) {
    this.#file = openSync(join(directory, "data.mdb"), "r");
    try {
      this.sizeBytes = fstatSync(this.#file).size;
      const read = (at: number, length: number) => this.#read(at, length);
      this.pageBytes = findPageBytes(read);
      for (let attempt = 0; attempt < attemptsMax; attempt++) {
        this.#readBeginnings(directory, read);
        if (this.problems.length === 0) break;
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #readBeginnings(directory: string, read: ReadBytes): void {
    const problems: { problem: string; page?: number }[] = [];
    // Before the beginnings: these may be newer then, but never older.
    const tip = readTip(directory);
    this.tipProblem = typeof tip === "string" ? tip : undefined;
    this.meta = readMeta(
      read,
      fstatSync(this.#file).size,
      typeof tip === "string" ? undefined : tip,
      (problem, page) => problems.push({ problem, ...(page !== undefined && { page }) }),
    );
    this.problems = problems;
  }

  close(): void {
    closeSync(this.#file);
  }

  #read(at: number, length: number): Uint8Array | undefined {
    if (at + length > this.sizeBytes) return undefined;
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const read = readSync(this.#file, bytes, done, length - done, at + done);
      if (read === 0) return undefined;
      done += read;
    }
    return bytes;
  }

  /** A page, its bytes the caller's to keep; undefined where the file has none of this number. */
  page(number: number): Uint8Array | undefined {
    return this.meta !== undefined && number <= this.meta.lastPage ? this.rawPage(number) : undefined;
  }

  /** The same without a state: any page of the file but its beginnings. */
  rawPage(number: number): Uint8Array | undefined {
    return number < 2 ? undefined : this.#read(number * this.pageBytes, this.pageBytes);
  }

  /** The tables that can be found, in order. */
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
        // LMDB keeps the zero byte behind a name.
        const name = Buffer.from(node.key.subarray(0, -1)).toString("latin1");
        trees.push(readTree(node.inline, 0, name, meta.txn));
      }
    return trees;
  }

  /** The leaves of a tree that can be reached and read, in order. */
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
   * The entries of a table that can be read, by ascending key; keys and values are the caller's to keep.
   * @param withLong whether long values are read
   */
  *entries(table: string, withLong = true): Generator<RawEntry> {
    const tree = this.tables.get(table);
    if (tree === undefined) return;
    for (const page of this.#leaves(tree)) yield* this.entriesOf(page, withLong);
  }

  /** The entries of a leaf that can be read. */
  *entriesOf(page: Uint8Array, withLong = true): Generator<RawEntry> {
    for (let i = 0; i < nodeCount(page); i++) {
      const node = leafNode(page, i);
      if (node === undefined || node.flags > nodeFlags.overflow) continue;
      const isLong = node.flags === nodeFlags.overflow;
      yield { key: node.key, sealed: isLong && !withLong ? undefined : this.valueOf(node), isLong };
    }
  }

  /** The sealed value under a key, the caller's to keep; undefined where there is none, or it cannot be read. */
  get(table: string, key: Uint8Array): Uint8Array | undefined {
    const tree = this.tables.get(table);
    let number = tree?.root ?? -1;
    for (let depth = 1; number >= 0 && depth <= (tree?.depth ?? 0); depth++) {
      const page = this.page(number);
      const count = page === undefined ? -1 : nodeCount(page);
      if (page === undefined || count < 1) return undefined;
      if (u16At(page, 18) === pageFlags.leaf) return this.#getFromLeaf(page, count, key);
      let child = 0;
      for (; child + 1 < count; child++) {
        const from = childAt(page, child + 1)?.from;
        if (!from || compareBytes(from, key) > 0) break;
      }
      number = childAt(page, child)?.page ?? -1;
    }
    return undefined;
  }

  #getFromLeaf(page: Uint8Array, count: number, key: Uint8Array): Uint8Array | undefined {
    for (let i = 0; i < count; i++) {
      const node = leafNode(page, i);
      if (node !== undefined && compareBytes(node.key, key) === 0) return this.valueOf(node);
    }
    return undefined;
  }

  /** A node's sealed value; undefined where its overflow pages cannot be read. */
  valueOf(node: LeafNode): Uint8Array | undefined {
    if (node.flags !== nodeFlags.overflow) return node.inline;
    if (this.longProblem(node, Number.POSITIVE_INFINITY) !== undefined) return undefined;
    const { pageBytes } = this.meta as Meta;
    return this.#read(u64At(node.inline, 0) * pageBytes + headerBytes, node.valueBytes);
  }

  /**
   * What is wrong with the overflow pages of a node, of which it names the first, their writer and their number.
   * @param txnMax the transaction that wrote the node's page
   */
  longProblem({ inline, valueBytes }: LeafNode, txnMax: number): string | undefined {
    const { pageBytes, lastPage } = this.meta as Meta;
    const [first, txn, pages] = [u64At(inline, 0), u64At(inline, 8), u64At(inline, 16)];
    const needed = Math.floor((headerBytes - 1 + valueBytes) / pageBytes) + 1;
    // A value that was replaced in the same transaction by a shorter one keeps its pages.
    if (pages < needed) return `a value of ${valueBytes} bytes has ${pages} pages; expected are ${needed}`;
    if (first < 2 || first + pages - 1 > lastPage || (first + pages) * pageBytes > this.sizeBytes)
      return `a value's pages, ${pages} from ${first} on, are not in the file`;
    const head = this.page(first) as Uint8Array;
    if (u64At(head, 0) !== first || u16At(head, 18) !== pageFlags.overflow || u32At(head, 20) !== pages)
      return `page ${first} does not say that it is the long value that it must be`;
    if (txn > txnMax || u64At(head, 8) !== txn)
      return `page ${first} was written by transaction ${u64At(head, 8)}; expected is ${txn}`;
    return undefined;
  }
}
