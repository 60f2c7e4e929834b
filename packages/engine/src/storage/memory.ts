// How does a store without a disk work?
//
// This is the reference implementation of the store contract, in its simplest form, for tests. A table is an immutable sorted array.
// A write copies the tables that it changes and swaps them in at once, so a read transaction is just a reference to the
// state before. A write costs time linear in the size of the tables that it changes.

import { compareBytes, concatenated, emptyBytes } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import {
  assertKey,
  assertRange,
  type Range,
  type Reader,
  type ReadTransaction,
  type Store,
  verifiedPayload,
  type Writer,
  withChecksum,
} from "./store.ts";

type Entry = readonly [key: Uint8Array, stored: Uint8Array];
type Table = readonly Entry[];

function lowerBound(table: Table, key: Uint8Array): number {
  let low = 0;
  let high = table.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compareBytes(table[middle][0], key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

class MemoryReader implements Reader {
  protected tables: Map<string, Table> | null;

  constructor(tables: Map<string, Table>) {
    this.tables = tables;
  }

  protected table(name: string): Table {
    invariant(
      this.tables !== null,
      () => `table '${name}' of a released read transaction, or of a write that is over, is used`,
    );
    const table = this.tables.get(name);
    invariant(table !== undefined, `the store has no table '${name}'`);
    return table;
  }

  get(name: string, key: Uint8Array): Uint8Array | undefined {
    const table = this.table(name);
    const at = lowerBound(table, key);
    if (at === table.length || compareBytes(table[at][0], key) !== 0) return undefined;
    return verifiedPayload(name, key, table[at][1], table[at][1].length);
  }

  *#range(name: string, range: Range = {}): Generator<Entry> {
    const table = this.table(name);
    assertRange(name, range);
    const from = range.start ? lowerBound(table, range.start) : 0;
    const to = range.end ? lowerBound(table, range.end) : table.length;
    const count = Math.min(Math.max(0, to - from), range.limit ?? Number.POSITIVE_INFINITY);
    for (let i = 0; i < count; i++) yield range.reverse ? table[to - 1 - i] : table[from + i];
  }

  *entries(name: string, range?: Range): Generator<[Uint8Array, Uint8Array]> {
    for (const [key, stored] of this.#range(name, range))
      yield [key.slice(), verifiedPayload(name, key, stored, stored.length).slice()];
  }

  *keys(name: string, range?: Range): Generator<Uint8Array> {
    for (const [key] of this.#range(name, range)) yield key.slice();
  }
}

class MemoryReadTransaction extends MemoryReader implements ReadTransaction {
  release(): void {
    this.tables = null;
  }
}

/** The bytes of each spool. They are never shortened: their owner knows how many of them count (S6). */
type Spools = Map<number, Uint8Array>;

class MemoryWriter extends MemoryReader implements Writer {
  readonly #spools: Spools;
  /** Spools to remove when the write has succeeded. */
  readonly removedSpools: number[] = [];

  constructor(tables: Map<string, Table>, spools: Spools) {
    super(tables);
    this.#spools = spools;
  }

  /** The write has ended: its tables may belong to a read transaction. */
  end(): void {
    this.tables = null;
  }

  readonly #copied = new Set<string>();

  #own(name: string): Entry[] {
    const table = this.table(name);
    if (this.#copied.has(name)) return table as Entry[];
    const copy = table.slice();
    this.tables?.set(name, copy);
    this.#copied.add(name);
    return copy;
  }

  put(name: string, key: Uint8Array, value: Uint8Array): void {
    assertKey(name, key);
    const table = this.#own(name);
    const entry: Entry = [key.slice(), withChecksum(name, key, value)];
    const at = lowerBound(table, key);
    const replaces = at < table.length && compareBytes(table[at][0], key) === 0;
    table.splice(at, replaces ? 1 : 0, entry);
    invariant(
      at === 0 || compareBytes(table[at - 1][0], key) < 0,
      () => `entry ${at} of table '${name}' is out of order`,
    );
    invariant(
      at + 1 === table.length || compareBytes(key, table[at + 1][0]) < 0,
      () => `entry ${at + 1} of table '${name}' is out of order`,
    );
  }

  append(name: string, key: Uint8Array, value: Uint8Array): void {
    const last = this.table(name).at(-1);
    const isLast = last === undefined || compareBytes(last[0], key) < 0;
    invariant(isLast, () => `a key that is not the greatest is appended to table '${name}'`);
    this.put(name, key, value);
  }

  delete(name: string, key: Uint8Array): boolean {
    const table = this.#own(name);
    const at = lowerBound(table, key);
    if (at === table.length || compareBytes(table[at][0], key) !== 0) return false;
    const [[removed]] = table.splice(at, 1);
    invariant(
      compareBytes(removed, key) === 0,
      () => `the entry beside entry ${at} of table '${name}' is removed`,
    );
    return true;
  }

  clear(name: string): void {
    this.table(name);
    this.tables?.set(name, []);
    this.#copied.add(name);
  }

  writeSpool(spool: number, at: number, parts: readonly Uint8Array[]): void {
    const before = this.#spools.get(spool) ?? emptyBytes;
    invariant(before.length >= at, () => `spool ${spool} of ${before.length} bytes is written at ${at}`);
    this.#spools.set(spool, concatenated([before.subarray(0, at), ...parts]));
  }

  readSpool(spool: number, at: number, into: Uint8Array): boolean {
    const bytes = this.#spools.get(spool)?.subarray(at, at + into.length);
    if (bytes?.length !== into.length) return false;
    into.set(bytes);
    return true;
  }

  removeSpool(spool: number): void {
    this.removedSpools.push(spool);
  }
}

export class MemoryStore implements Store {
  #tables: Map<string, Table>;
  readonly #spools: Spools = new Map();

  constructor(tables: readonly string[]) {
    this.#tables = new Map(tables.map((name) => [name, []]));
  }

  #isWriting = false;

  write<T>(action: (writer: Writer) => T): T {
    invariant(!this.#isWriting, "a write is inside another write");
    this.#isWriting = true;
    const tables = new Map(this.#tables);
    const writer = new MemoryWriter(tables, this.#spools);
    try {
      const result = action(writer);
      invariant(
        tables.size === this.#tables.size,
        `a write leaves ${tables.size} of ${this.#tables.size} tables`,
      );
      this.#tables = tables;
      for (const spool of writer.removedSpools) this.#spools.delete(spool);
      return result;
    } finally {
      writer.end();
      this.#isWriting = false;
    }
  }

  beginRead(): ReadTransaction {
    return new MemoryReadTransaction(this.#tables);
  }

  removeSpoolsBut(kept: number | null): void {
    for (const spool of this.#spools.keys()) if (spool !== kept) this.#spools.delete(spool);
  }

  sizeBytes(): number {
    let bytes = 0;
    for (const table of this.#tables.values())
      for (const [key, stored] of table) bytes += key.length + stored.length;
    return bytes;
  }

  async close(): Promise<void> {
    this.#tables = new Map();
  }
}
