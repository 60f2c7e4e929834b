// How does LMDB keep the store contract?
//
// One directory is one LMDB environment. One thread of the process opens it for writing, any number of
// threads open it for reading; each thread has its own handle and its own read transactions on the shared
// map.
//
// - `overlappingSync` is off: with it on, a commit is visible before it is durable, and a failed fsync leaves
//   it visible (measured on lmdb-js 3.5), which breaks S1.
// - Writes go through `transactionSync`, which commits and syncs before it returns, and which writes each
//   `put` at once, so that its buffer is free again (the asynchronous `put` keeps a reference).
// - `getBinaryFast` gives a buffer that the next read overwrites, and whose `length` is a property of its own
//   beside the typed array's; `subarray` with an explicit end is the way to take it (S4).
// - When the write of the meta page fails, which is what makes a commit, LMDB refuses everything in that environment, reading
//   too, until all handles on it are closed: whether the page is on disk it cannot know. The store `isBroken` then. A write or
//   sync of other pages that fails costs nothing but its commit: no page that it wrote is part of any version, and the next
//   commit writes all its pages anew, so that it does not matter what the system still believes of the old ones.
// - The map grows by itself while other threads hold read transactions; seen up to 3.2 GB in tests of ours.

import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { QuiverError } from "@quiver/protocol/errors";
import * as lmdb from "lmdb";
import { type Database, open, type RootDatabase, type Transaction } from "lmdb";
import { invariant } from "../base/invariant.ts";
import { failureMessages, freeBytes, reserveBytes, storageError } from "./disk-error.ts";
import { TipWriter } from "./lmdb-tip.ts";
import { type Range, type Reader, type Snapshot, type Store, seal, unseal, type Writer } from "./store.ts";

type Bytes = Database<Buffer, Uint8Array>;

class LmdbReader implements Reader {
  readonly #tables: ReadonlyMap<string, Bytes>;
  /** Undefined inside a write, where lmdb-js reads through the write transaction by itself. */
  protected transaction: Transaction | undefined;

  constructor(tables: ReadonlyMap<string, Bytes>, transaction?: Transaction) {
    this.#tables = tables;
    this.transaction = transaction;
  }

  protected table(name: string): Bytes {
    const table = this.#tables.get(name);
    invariant(table !== undefined, `the store has no table '${name}'`);
    return table;
  }

  protected options(): { transaction?: Transaction } {
    return this.transaction ? { transaction: this.transaction } : {};
  }

  get(name: string, key: Uint8Array): Uint8Array | undefined {
    // The type of getBinaryFast leaves out its second parameter.
    const table = this.table(name) as Bytes & {
      getBinaryFast(key: Uint8Array, options: { transaction?: Transaction }): Buffer | undefined;
    };
    const found = table.getBinaryFast(key, this.options());
    return found && unseal(name, key, found, found.length);
  }

  *entries(name: string, range: Range = {}): Generator<[Uint8Array, Uint8Array]> {
    for (const { key, value } of this.table(name).getRange({ ...lmdbRange(range), ...this.options() }))
      yield [plain(key), unseal(name, key, value, value.length)];
  }

  *keys(name: string, range: Range = {}): Generator<Uint8Array> {
    for (const key of this.table(name).getKeys({ ...lmdbRange(range), ...this.options() })) yield plain(key);
  }
}

/** lmdb-js gives Buffers, whose `slice` is a view; the contract gives plain arrays, whose `slice` is a copy. */
function plain(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * LMDB's descending ranges begin at `start`, inclusive, and end before `end`; ours name the same interval in
 * both directions. `exclusiveStart` and `inclusiveEnd` turn one into the other.
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

class LmdbSnapshot extends LmdbReader implements Snapshot {
  #released = false;

  protected override options(): { transaction?: Transaction } {
    invariant(!this.#released, "a released snapshot is used");
    return super.options();
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.transaction?.done();
  }
}

class LmdbWriter extends LmdbReader implements Writer {
  /** Bytes of keys and values that were put. */
  bytes = 0;

  put(name: string, key: Uint8Array, value: Uint8Array): void {
    const table = this.table(name);
    const sealed = seal(name, key, value);
    this.bytes += key.length + sealed.length;
    table.putSync(key, sealed as Buffer);
  }

  delete(name: string, key: Uint8Array): boolean {
    return this.table(name).removeSync(key);
  }

  clear(name: string): void {
    this.table(name).clearSync();
  }
}

export class LmdbStore implements Store {
  readonly #path: string;
  readonly #environment: RootDatabase<Buffer, Uint8Array>;
  readonly #tables = new Map<string, Bytes>();
  #writing = false;
  #isBroken = false;
  /** The data file, open for writing since the first write. */
  #file: number | undefined;
  #tip: TipWriter | undefined;

  /**
   * Opens, or makes, the environment in a directory.
   * @param path the environment's directory
   * @param tables names of all its tables, at most 30
   */
  constructor(path: string, tables: readonly string[]) {
    this.#path = path;
    const files = [join(path, "data.mdb"), join(path, "lock.mdb")];
    const isNew = !files.every(existsSync);
    makeRoom(path);
    this.#environment = open<Buffer, Uint8Array>({
      path,
      noSubdir: false,
      maxDbs: 32,
      maxReaders: 2048,
      overlappingSync: false,
      encoding: "binary",
      keyEncoding: "binary",
    });
    // LMDB makes files that others may read; there is no option of lmdb-js for it.
    if (isNew) for (const file of files) chmodSync(file, 0o600);
    try {
      for (const name of tables)
        this.#tables.set(
          name,
          this.#environment.openDB<Buffer, Uint8Array>({ name, encoding: "binary", keyEncoding: "binary" }),
        );
    } catch (error) {
      // A table that is new is a commit. What is left open would be found again by the next attempt to open. What is wrong says the
      // error, and a failure to close would add nothing.
      this.#environment.close().catch(() => {});
      throw error;
    }
  }

  write<T>(action: (writer: Writer) => T): T {
    invariant(!this.#writing, "a write is inside another write");
    this.#writing = true;
    let thrown: unknown;
    try {
      const written = this.#environment.transactionSync(() => {
        try {
          const writer = new LmdbWriter(this.#tables);
          const result = action(writer);
          this.#requireDisk(2 * writer.bytes + reserveBytes);
          return result;
        } catch (error) {
          // lmdb-js aborts when the callback throws; the error is kept to tell it from a failed commit.
          thrown = error;
          throw error;
        }
      });
      this.writeTip();
      return written;
    } catch (error) {
      if (thrown !== undefined && thrown === error && error instanceof QuiverError) throw error;
      this.#isBroken ||= !this.#canRead();
      throw storageError(error, { path: this.#path, isInDoubt: this.#isBroken });
    } finally {
      this.#writing = false;
    }
  }

  /** Notes beside the file which state is its newest, which is durable. Of the store's only writer. */
  writeTip(): void {
    try {
      this.#tip ??= new TipWriter(this.#path);
      this.#tip.write();
    } catch {
      // What was written is durable all the same. The tip stays of an older transaction, as after a power loss, and is right again
      // with the next write that the disk takes.
    }
  }

  /**
   * Asks the disk whether it takes writes before LMDB finds out: a write of no bytes fails on one that has become read-only or is
   * gone, and changes nothing.
   * @throws storage_full, storage_failed
   */
  #requireDisk(neededBytes: number): void {
    try {
      this.#file ??= openSync(join(this.#path, "data.mdb"), "r+");
      writeSync(this.#file, nothing, 0, 0, firstDataPage);
    } catch (error) {
      throw storageError(error, { path: this.#path });
    }
    requireRoom(this.#path, neededBytes);
  }

  /** Whether nothing can be asked any more until every handle on the environment was closed. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  #canRead(): boolean {
    try {
      this.snapshot().release();
      return true;
    } catch {
      // Whatever it is: a store that gives no snapshot is to be opened anew.
      return false;
    }
  }

  snapshot(): Snapshot {
    try {
      // A read transaction is shared by all reads of one turn of the event loop and may be older than the last
      // commit; the reset makes the next one new.
      this.#environment.resetReadTxn();
      return new LmdbSnapshot(this.#tables, this.#environment.useReadTransaction());
    } catch (error) {
      // Another thread's commit has failed, and this one has not been told yet.
      if (error instanceof Error && refusesAll.test(error.message)) throw reopening(error);
      throw error;
    }
  }

  sizeBytes(): number {
    return statSync(join(this.#path, "data.mdb")).blocks * 512;
  }

  async close(): Promise<void> {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
    this.#tip?.close();
    this.#tip = undefined;
    await this.#environment.close();
    forget(new Set<unknown>([this.#environment, ...this.#tables.values()]));
  }
}

/** What LMDB says in an environment whose meta page it could not write. */
const refusesAll = /MDB_PANIC|fatal error/;

/** What whoever asks a broken store is told until it is open again. */
export const reopening = (cause?: Error): QuiverError =>
  new QuiverError(
    "not_ready",
    "The store is being opened again after a failure of the disk. Send the request again.",
    {},
    { cause },
  );

/** What the files of a new store take before anything is in them, generously. */
const emptyBytes = 256 * 1024;

/**
 * Makes sure that a new store's files can be made: lmdb-js 3.5.6 ends the process (SIGSEGV) when the disk fails the first writes
 * of a new environment, as a full one does.
 * @throws what the system says
 */
function makeRoom(path: string): void {
  const data = join(path, "data.mdb");
  if (existsSync(data) && statSync(data).size > 0) return;
  mkdirSync(path, { recursive: true, mode: 0o700 });
  for (const name of ["data.mdb", "lock.mdb"]) closeSync(openSync(join(path, name), "a", 0o600));
  const probe = join(path, "probe");
  try {
    writeFileSync(probe, new Uint8Array(emptyBytes), { flush: true });
  } finally {
    rmSync(probe, { force: true });
  }
}

/**
 * lmdb-js notes every database that it opens in a map of the process and takes none out, so that a closed store would keep
 * its buffers, 64 KiB each, for ever. Nothing but diagnosis reads the map, and its type is not declared.
 */
const openDatabases = (lmdb as unknown as { allDbs: Map<string, unknown> }).allDbs;

function forget(closed: ReadonlySet<unknown>): void {
  for (const [name, database] of openDatabases) if (closed.has(database)) openDatabases.delete(name);
}

const nothing = new Uint8Array(0);
/** Behind the meta pages, whose writes are commits. */
const firstDataPage = 2 * 4096;

/** @throws storage_full */
function requireRoom(path: string, neededBytes: number): void {
  const free = freeBytes(path);
  if (free === undefined || free >= neededBytes) return;
  throw new QuiverError("storage_full", failureMessages.full, {
    free_bytes: free,
    needed_bytes: neededBytes,
  });
}
