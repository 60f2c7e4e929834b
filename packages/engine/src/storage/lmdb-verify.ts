// Is every page of a store's file intact?
//
// Every start asks this before LMDB opens a store, so that a damaged collection is set apart with a reason instead of crashing the server.
//
// `verifyFile` walks every page of every table and proves that
//
//   - each page has the right number and type, is used once, and is not free;
//   - nodes lie without gaps, keys ascend, and the keys of a subtree lie between those of the branch above it;
//   - every table has as many pages of each kind, and as many entries, as its root says.
//
// So the check finds damage that would make LMDB lose data silently or crash, before LMDB opens the file. It does not look at
// values: they have checksum trailers of their own (S5).

import { compareBytes } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { LmdbFile, RawEntry } from "./lmdb-file.ts";
import { type Meta, type Tree, treeBytes } from "./lmdb-meta.ts";
import {
  type Child,
  childAt,
  type LeafNode,
  leafNode,
  nodeCount,
  nodeFlags,
  pageFlags,
  pageProblem,
  u16At,
  u32At,
  u64At,
} from "./lmdb-page.ts";

/** A defect of the file. */
export type PageProblem = {
  /** The table, or "(free pages)", "(tables)", "(file)". */
  readonly table: string;
  readonly page?: number;
  /** A sentence without its full stop. */
  readonly problem: string;
  /** The lost entries lie between these keys, the first inclusive. An absent key means no bound on that side. */
  readonly from?: Uint8Array;
  readonly to?: Uint8Array;
};

type OnProblem = (problem: PageProblem) => void;

/** Bounds for the keys of a page. */
type Bounds = { readonly from?: Uint8Array | undefined; readonly to?: Uint8Array | undefined };

class PageSet {
  readonly #bits: Uint8Array;

  constructor(pages: number) {
    this.#bits = new Uint8Array(Math.floor(pages / 8) + 1);
  }

  has(page: number): boolean {
    return (this.#bits[Math.floor(page / 8)] & (1 << (page % 8))) !== 0;
  }

  /** @returns whether the page was not yet in the set */
  add(page: number): boolean {
    invariant(page >= 0 && page < 8 * this.#bits.length, () => `the set has no page ${page}`);
    if (this.has(page)) return false;
    this.#bits[Math.floor(page / 8)] |= 1 << (page % 8);
    return true;
  }
}

/** Which pages a file's tables use, and which are free. */
export type Pages = { readonly used: PageSet; readonly free: PageSet };

/**
 * Walks all pages of all tables.
 * @param expected the tables that the file must have; any other is a problem
 * @param onEntry called for every entry of an intact leaf; values in overflow pages are not read
 */
export function verifyFile(
  file: LmdbFile,
  expected: readonly string[],
  onProblem: OnProblem,
  onEntry: (table: string, entry: RawEntry) => void = () => {},
): Pages {
  for (const problem of file.problems) onProblem({ table: "(file)", ...problem });
  const { meta } = file;
  const pages: Pages = { used: new PageSet(meta?.lastPage ?? 0), free: new PageSet(meta?.lastPage ?? 0) };
  if (meta === undefined) return pages;
  const walk = (tree: Tree, take: (node: LeafNode) => void) =>
    new Walk(file, meta, tree, pages.used, onProblem, take).run();
  walk(meta.tables, () => {});
  for (const [name, tree] of file.tables) {
    if (!expected.includes(name))
      onProblem({ table: name, problem: "there is a table that is not expected" });
    walk(tree, (node) => {
      const isLong = node.flags === nodeFlags.overflow;
      onEntry(name, { key: node.key, stored: isLong ? undefined : node.inline, isLong });
    });
  }
  for (const name of expected)
    if (!file.tables.has(name)) onProblem({ table: name, problem: "there is no such table" });
  walk(meta.free, (node) => {
    const problem = takeFree(node, file.valueOf(node), meta, pages.free);
    if (problem !== undefined) onProblem({ table: meta.free.name, problem });
  });
  for (let page = 2; page <= meta.lastPage; page++)
    if (pages.free.has(page) && pages.used.has(page))
      onProblem({ table: meta.free.name, page, problem: `page ${page} is in use, and among the free ones` });
  return pages;
}

/**
 * Adds the pages that a transaction freed. The value is a u64 count and as many u64: a page number, 0 for nothing, or a negated
 * length that is followed by the first of that many pages.
 * @returns what is wrong
 */
function takeFree(
  { key }: LeafNode,
  value: Uint8Array | undefined,
  meta: Meta,
  free: PageSet,
): string | undefined {
  const name = `the entry of transaction ${u64At(key, 0)}`;
  if (key.length !== 8 || u64At(key, 0) > meta.txn) return `${name} belongs to no past transaction`;
  if (value === undefined) return `${name} cannot be read`;
  const count = u64At(value, 0);
  if (8 * (count + 1) > value.length) return `${name} has ${count} numbers in ${value.length} bytes`;
  for (let i = 1; i <= count; i++) {
    let length = 1;
    if (u32At(value, 8 * i + 4) === 0xffff_ffff) {
      length = 2 ** 32 - u32At(value, 8 * i);
      if (++i > count) return `${name} ends with a length`;
    }
    const first = u64At(value, 8 * i);
    if (first === 0 && length === 1) continue;
    if (first < 2 || first + length - 1 > meta.lastPage)
      return `${name} names the pages ${first} to ${first + length - 1} of ${meta.lastPage}`;
    for (let page = first; page < first + length; page++)
      if (!free.add(page)) return `${name} names page ${page}, which another one has named`;
  }
  return undefined;
}

/** One walk through one tree. `#take` gets every intact node of its leaves. */
class Walk {
  readonly #file: LmdbFile;
  readonly #tree: Tree;
  readonly #used: PageSet;
  readonly #onProblem: OnProblem;
  readonly #take: (node: LeafNode) => void;
  readonly #compare: (a: Uint8Array, b: Uint8Array) => number;
  readonly #isOfTables: boolean;
  readonly #seen = { branches: 0, leaves: 0, overflows: 0, entries: 0 };
  #isWhole = true;

  constructor(
    file: LmdbFile,
    meta: Meta,
    tree: Tree,
    used: PageSet,
    onProblem: OnProblem,
    take: (node: LeafNode) => void,
  ) {
    this.#file = file;
    this.#tree = tree;
    this.#used = used;
    this.#onProblem = onProblem;
    this.#take = take;
    this.#isOfTables = tree === meta.tables;
    // The tree of free pages has numeric keys.
    this.#compare = tree === meta.free ? (a, b) => u64At(a, 0) - u64At(b, 0) : compareBytes;
  }

  run(): void {
    const { root, txn } = this.#tree;
    if (root >= 0) this.#visit(root, 1, txn, {});
    if (!this.#isWhole) return;
    const words = { branches: "branches", leaves: "leaves", overflows: "overflow pages", entries: "entries" };
    for (const [what, word] of Object.entries(words) as [keyof typeof words, string][])
      if (this.#seen[what] !== this.#tree[what])
        this.#problem(`there are ${this.#seen[what]} ${word}; the table's root records ${this.#tree[what]}`);
  }

  #problem(problem: string, page?: number, { from, to }: Bounds = {}): void {
    this.#isWhole = false;
    this.#onProblem({
      table: this.#tree.name,
      problem,
      ...(page !== undefined && { page }),
      ...(from && { from }),
      ...(to && { to }),
    });
  }

  #visit(number: number, depth: number, txnMax: number, bounds: Bounds): void {
    const page = this.#file.page(number);
    const problem = page === undefined ? "is not in the file" : this.#problemOf(page, number, depth, txnMax);
    if (page === undefined || problem !== undefined)
      this.#problem(`page ${number} ${problem}`, number, bounds);
    else if (u16At(page, 18) === pageFlags.leaf) this.#visitLeaf(page, number, bounds);
    else this.#visitBranch(page, number, depth, bounds);
  }

  #problemOf(page: Uint8Array, number: number, depth: number, txnMax: number): string | undefined {
    const problem = pageProblem(page, number, txnMax);
    if (problem !== undefined) return problem;
    if (!this.#used.add(number)) return "is used twice";
    const isLeaf = u16At(page, 18) === pageFlags.leaf;
    if (isLeaf === (depth === this.#tree.depth)) return undefined;
    return `is a ${isLeaf ? "leaf" : "branch"} at depth ${depth} of ${this.#tree.depth}`;
  }

  #visitBranch(page: Uint8Array, number: number, depth: number, bounds: Bounds): void {
    this.#seen.branches++;
    const children = Array.from({ length: nodeCount(page) }, (_, i) => childAt(page, i) as Child);
    let last = bounds.from;
    for (const [i, { page: child, from }] of children.entries()) {
      const to = children[i + 1]?.from ?? bounds.to;
      if (from !== null) this.#requireOrder(from, { from: last, to: bounds.to }, i, number, bounds, i > 1);
      last = from ?? last;
      this.#visit(child, depth + 1, u64At(page, 8), { from: last, to });
    }
  }

  #visitLeaf(page: Uint8Array, number: number, bounds: Bounds): void {
    this.#seen.leaves++;
    let last = bounds.from;
    for (let i = 0; i < nodeCount(page); i++) {
      const node = leafNode(page, i) as LeafNode;
      this.#requireOrder(node.key, { from: last, to: bounds.to }, i, number, bounds, i > 0);
      last = node.key;
      this.#seen.entries++;
      const problem = this.#nodeProblem(node, u64At(page, 8));
      if (problem === undefined) this.#take(node);
      else this.#problem(problem, number, { from: node.key, to: node.key });
    }
  }

  /** @param isStrict whether the key must be greater than the one before; the first may be the lower bound itself */
  #requireOrder(
    key: Uint8Array,
    { from, to }: Bounds,
    i: number,
    page: number,
    lost: Bounds,
    isStrict: boolean,
  ) {
    const below = from === undefined ? -1 : this.#compare(from, key);
    const isAbove = isStrict ? below < 0 : below <= 0;
    if (!isAbove || (to !== undefined && this.#compare(key, to) >= 0))
      this.#problem(`the key in place ${i} of page ${page} is out of order`, page, lost);
  }

  #nodeProblem(node: LeafNode, txnMax: number): string | undefined {
    if (this.#isOfTables)
      return node.flags === nodeFlags.tree && node.inline.length === treeBytes
        ? undefined
        : `a table's entry has flags ${node.flags} and ${node.inline.length} bytes`;
    if (node.flags > nodeFlags.overflow) return `a value has the flags ${node.flags}`;
    if (node.flags !== nodeFlags.overflow) return undefined;
    const problem = this.#file.longProblem(node, txnMax);
    if (problem !== undefined) return problem;
    const [first, pages] = [u64At(node.inline, 0), u64At(node.inline, 16)];
    this.#seen.overflows += pages;
    for (let page = first; page < first + pages; page++)
      if (!this.#used.add(page)) return `page ${page} of a long value is used twice`;
    return undefined;
  }
}
