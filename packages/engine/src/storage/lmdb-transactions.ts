// How does a read or write transaction of LMDB use its tables?
//
// - `getBinaryFast` returns a buffer that the next read overwrites. Its `length` is a property of its own, which differs from the
//   typed array's, so the code takes the bytes with an explicit end (S4).

import type { Database, Transaction } from "lmdb";
import { invariant } from "../base/invariant.ts";
import type { SpoolFiles } from "./spool-files.ts";
import {
  assertKey,
  assertRange,
  checksumBytes,
  type Range,
  type Reader,
  type ReadTransaction,
  verifiedPayload,
  type Writer,
  writeWithChecksum,
} from "./store.ts";

/** A table, as lmdb-js has it. */
export type Bytes = Database<Buffer, Uint8Array>;

class LmdbReader implements Reader {
  readonly #tables: ReadonlyMap<string, Bytes>;
  /** Undefined inside a write: there lmdb-js reads through the write transaction by itself. */
  protected transaction: Transaction | undefined;

  constructor(tables: ReadonlyMap<string, Bytes>, transaction?: Transaction) {
    this.#tables = tables;
    this.transaction = transaction;
  }

  protected table(name: string): Bytes {
    const table = this.#tables.get(name);
    invariant(table !== undefined, () => `the store has no table '${name}'`);
    return table;
  }

  protected options(): { transaction?: Transaction } {
    return this.transaction ? { transaction: this.transaction } : {};
  }

  get(name: string, key: Uint8Array): Uint8Array | undefined {
    // The declared type of getBinaryFast lacks its second parameter.
    const table = this.table(name) as Bytes & {
      getBinaryFast(key: Uint8Array, options: { transaction?: Transaction }): Buffer | undefined;
    };
    const found = table.getBinaryFast(key, this.options());
    return found && verifiedPayload(name, key, found, found.length);
  }

  *entries(name: string, range: Range = {}): Generator<[Uint8Array, Uint8Array]> {
    assertRange(name, range);
    for (const { key, value } of this.table(name).getRange({ ...lmdbRange(range), ...this.options() }))
      yield [plain(key), verifiedPayload(name, key, value, value.length)];
  }

  *keys(name: string, range: Range = {}): Generator<Uint8Array> {
    assertRange(name, range);
    for (const key of this.table(name).getKeys({ ...lmdbRange(range), ...this.options() })) yield plain(key);
  }
}

/** lmdb-js returns Buffers, whose `slice` is a view. The contract promises plain arrays, whose `slice` is a copy. */
function plain(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * A descending range of LMDB starts at `start`, inclusive, and stops before `end`. Ours name the same interval in both directions.
 * `exclusiveStart` and `inclusiveEnd` convert one into the other.
 */
function lmdbRange(range: Range): Record<string, unknown> {
  const limit = range.limit === undefined ? {} : { limit: range.limit };
  if (!range.reverse) {
    return { ...limit, ...(range.start && { start: range.start }), ...(range.end && { end: range.end }) };
  }
  return {
    ...limit,
    reverse: true,
    ...(range.end && { start: range.end, exclusiveStart: true }),
    ...(range.start && { end: range.start, inclusiveEnd: true }),
  };
}

/** Read transactions of a store that are not released. */
export type OpenReads = { count: number };

/** A read transaction. */
export class LmdbReadTransaction extends LmdbReader implements ReadTransaction {
  readonly #open: OpenReads;
  #released = false;

  constructor(tables: ReadonlyMap<string, Bytes>, transaction: Transaction, open: OpenReads) {
    super(tables, transaction);
    this.#open = open;
    open.count++;
  }

  protected override options(): { transaction?: Transaction } {
    invariant(!this.#released, "a released read transaction is used");
    return super.options();
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#open.count--;
    this.transaction?.done();
  }
}

/** lmdb-js takes the bytes of a value from `start` to `end`, and copies them at once. */
type Scratch = Buffer & { start: number; end: number };

const appending = { append: true } as const;

const newScratch = (bytes: number): Scratch =>
  Object.assign(Buffer.allocUnsafeSlow(bytes), { start: 0, end: bytes });

/** Where a value gets its checksum trailer. An array for each value would be memory outside of the heap, which costs more than the copy. */
const scratch = newScratch(64 * 1024);

/** A write transaction. */
export class LmdbWriter extends LmdbReader implements Writer {
  /** Bytes of the keys and values written so far, checksum trailers included. */
  bytes = 0;
  /** Whether the write has ended: what is written afterwards would be a commit of its own. */
  isOver = false;
  /** Spools to remove when the write is durable. */
  readonly removedSpools: number[] = [];
  readonly #spools: SpoolFiles;

  constructor(tables: ReadonlyMap<string, Bytes>, spools: SpoolFiles) {
    super(tables);
    this.#spools = spools;
  }

  protected override table(name: string): Bytes {
    invariant(!this.isOver, () => `table '${name}' is used after its write has ended`);
    return super.table(name);
  }

  put(name: string, key: Uint8Array, value: Uint8Array): void {
    this.#table(name, key).putSync(key, this.#stored(name, key, value));
  }

  append(name: string, key: Uint8Array, value: Uint8Array): void {
    // The declared type of putSync with options has no result.
    const table = this.#table(name, key) as {
      putSync(key: Uint8Array, value: Buffer, options: { append: true }): boolean;
    } & Bytes;
    const isLast = table.putSync(key, this.#stored(name, key, value), appending);
    invariant(isLast, () => `a key that is not the greatest is appended to table '${name}'`);
  }

  #table(name: string, key: Uint8Array): Bytes {
    assertKey(name, key);
    return this.table(name);
  }

  /** The value with its checksum trailer, valid until the next one. */
  #stored(name: string, key: Uint8Array, value: Uint8Array): Scratch {
    const length = value.length + checksumBytes;
    const stored = length <= scratch.length ? scratch : newScratch(length);
    writeWithChecksum(stored, name, key, value);
    stored.end = length;
    this.bytes += key.length + length;
    return stored;
  }

  delete(name: string, key: Uint8Array): boolean {
    return this.table(name).removeSync(key);
  }

  clear(name: string): void {
    this.table(name).clearSync();
  }

  writeSpool(spool: number, at: number, parts: readonly Uint8Array[]): void {
    invariant(!this.isOver, () => `spool ${spool} is written after its write has ended`);
    this.#spools.write(spool, at, parts);
  }

  readSpool(spool: number, at: number, into: Uint8Array): boolean {
    return this.#spools.read(spool, at, into);
  }

  removeSpool(spool: number): void {
    this.removedSpools.push(spool);
  }
}
