// How does a read or write transaction of LMDB use its tables?
//
// - `getBinaryFast` returns a buffer that the next read overwrites. Its `length` is a property of its own, which differs from the
//   typed array's, so the code takes the bytes with an explicit end (S4).

import type { Database, Transaction } from "lmdb";
import { invariant } from "../base/invariant.ts";
import {
  assertKey,
  assertRange,
  type Range,
  type Reader,
  type ReadTransaction,
  verifiedPayload,
  type Writer,
  withChecksum,
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

/** A read transaction. */
export class LmdbReadTransaction extends LmdbReader implements ReadTransaction {
  #released = false;

  protected override options(): { transaction?: Transaction } {
    invariant(!this.#released, "a released read transaction is used");
    return super.options();
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.transaction?.done();
  }
}

/** A write transaction. */
export class LmdbWriter extends LmdbReader implements Writer {
  /** Bytes of the keys and values written so far, checksum trailers included. */
  bytes = 0;
  /** Whether the write has ended: what is written afterwards would be a commit of its own. */
  isOver = false;

  protected override table(name: string): Bytes {
    invariant(!this.isOver, () => `table '${name}' is used after its write has ended`);
    return super.table(name);
  }

  put(name: string, key: Uint8Array, value: Uint8Array): void {
    assertKey(name, key);
    const table = this.table(name);
    const stored = withChecksum(name, key, value);
    this.bytes += key.length + stored.length;
    table.putSync(key, stored as Buffer);
  }

  delete(name: string, key: Uint8Array): boolean {
    return this.table(name).removeSync(key);
  }

  clear(name: string): void {
    this.table(name).clearSync();
  }
}
