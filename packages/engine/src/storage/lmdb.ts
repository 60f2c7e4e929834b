// How does LMDB fulfil the store contract?
//
// One directory is one LMDB environment. One thread of the process opens it for writing, any number of threads open it for reading.
// Each thread has its own handle and its own read transactions on the shared map.
//
// - `overlappingSync` is off: with it on, a commit is visible before it is durable, and a failed fsync leaves
//   it visible (measured on lmdb-js 3.5), which breaks S1.
// - Writes go through `transactionSync`, which commits and syncs before it returns. It also copies the bytes of each `put` at once,
//   so the caller may reuse the buffer (the asynchronous `put` keeps a reference).
// - The write of the meta page makes a commit. If it fails, LMDB cannot know whether the page is on disk, and refuses everything in
//   that environment, reads included, until all handles on it are closed. The store `isBroken` then. If a write or sync of another
//   page fails, only the commit is lost: no version contains the pages that it wrote, and the next commit writes all its pages
//   anew, so stale pages in the system's cache do no harm.
// - lmdb-js formats error messages in a global buffer without a lock. Two threads that get an error at the same moment can crash the
//   process, and so can a few failed renewals, because their messages grow (both seen with lmdb-js 3.5.6). In a store whose commit
//   failed every call fails, so no thread may open it (`#open`) or renew a read transaction in it (`beginRead`).
// - The map grows by itself while other threads hold read transactions (seen up to 3.2 GB in our tests).

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
import { QuiverError } from "@quiverdb/protocol/errors";
import * as lmdb from "lmdb";
import { open, type RootDatabase } from "lmdb";
import { invariant } from "../base/invariant.ts";
import { failureMessages, freeBytes, reserveBytes, storageError } from "./disk-error.ts";
import { CommitMarkerWriter } from "./lmdb-meta.ts";
import { type Bytes, LmdbReadTransaction, LmdbWriter, type OpenReads } from "./lmdb-transactions.ts";
import { SharedMutex } from "./shared-mutex.ts";
import { SpoolFiles } from "./spool-files.ts";
import type { ReadTransaction, Store, Writer } from "./store.ts";

export class LmdbStore implements Store {
  readonly #path: string;
  /** Held while a thread of this process opens the store or commits to it. */
  readonly #mutex: SharedMutex;
  readonly #environment: RootDatabase<Buffer, Uint8Array>;
  readonly #tables = new Map<string, Bytes>();
  #writing = false;
  #isBroken = false;
  /** The data file, open for writing since the first write. */
  #file: number | undefined;
  #marker: CommitMarkerWriter | undefined;
  readonly #spools: SpoolFiles;
  readonly #openReads: OpenReads = { count: 0 };

  /**
   * Opens the environment in a directory, or creates it.
   * @param path the environment's directory
   * @param tables names of all its tables, at most 30
   */
  constructor(path: string, tables: readonly string[]) {
    invariant(tables.length <= 30, `the store ${path} has ${tables.length} tables`);
    this.#path = path;
    this.#spools = new SpoolFiles(path);
    this.#mutex = storeMutex(path);
    this.#environment = this.#mutex.hold(() => this.#open(tables));
  }

  #open(tables: readonly string[]): RootDatabase<Buffer, Uint8Array> {
    const files = [join(this.#path, "data.mdb"), join(this.#path, "lock.mdb")];
    const isNew = !files.every(existsSync);
    requireDiskForNew(this.#path);
    const options = { path: this.#path, noSubdir: false, maxDbs: 32, maxReaders: 2048 };
    if (!isNew) requireWorking(options);
    const environment = open<Buffer, Uint8Array>({
      ...options,
      overlappingSync: false,
      encoding: "binary",
      keyEncoding: "binary",
    });
    // LMDB creates files that other users may read, and lmdb-js has no option for the mode.
    if (isNew) for (const file of files) chmodSync(file, 0o600);
    try {
      for (const name of tables)
        this.#tables.set(
          name,
          environment.openDB<Buffer, Uint8Array>({ name, encoding: "binary", keyEncoding: "binary" }),
        );
    } catch (error) {
      endIfOverrun(error);
      // Creating a table is a commit, which may fail. Close the environment, or the next attempt to open would reuse the open one.
      // The error already says what is wrong; a failure to close would add nothing.
      environment.close().catch(() => {});
      throw error;
    }
    return environment;
  }

  write<T>(action: (writer: Writer) => T): T {
    invariant(!this.#writing, "a write is inside another write");
    return this.#mutex.hold(() => this.#write(action));
  }

  #write<T>(action: (writer: Writer) => T): T {
    this.#writing = true;
    let thrown: unknown;
    const writer = new LmdbWriter(this.#tables, this.#spools);
    try {
      const written = this.#environment.transactionSync(() => {
        try {
          const result = action(writer);
          this.#requireDisk(2 * writer.bytes + reserveBytes);
          this.#spools.sync();
          return result;
        } catch (error) {
          // lmdb-js aborts when the callback throws. Keep the error, to tell it from that of a failed commit.
          thrown = error;
          throw error;
        }
      });
      this.#spools.kept();
      this.writeCommitMarker();
      for (const spool of writer.removedSpools) this.#spools.remove(spool);
      return written;
    } catch (error) {
      endIfOverrun(error);
      // A commit that failed may be durable all the same, and then it needs what it wrote.
      if (thrown === error) this.#spools.undo();
      else this.#spools.kept();
      if (thrown !== undefined && thrown === error && error instanceof QuiverError) throw error;
      this.#isBroken ||= !this.#canRead();
      throw storageError(error, { path: this.#path, isInDoubt: this.#isBroken });
    } finally {
      writer.isOver = true;
      this.#writing = false;
    }
  }

  /** Writes the commit marker for the newest state, which must be durable. Only the store's one writer calls this. */
  writeCommitMarker(): void {
    try {
      this.#marker ??= new CommitMarkerWriter(this.#path);
      this.#marker.write();
    } catch {
      // The commit is durable all the same. The marker still names an older transaction, as after a power loss, until the next
      // successful write.
    }
  }

  /**
   * Probes whether the disk accepts writes, before LMDB finds out. A write of zero bytes changes nothing, but fails if the disk has
   * become read-only or is gone.
   * @throws storage_full, storage_failed
   */
  #requireDisk(neededBytes: number): void {
    invariant(neededBytes >= reserveBytes, `a write needs ${neededBytes} bytes of the disk`);
    try {
      this.#file ??= openSync(join(this.#path, "data.mdb"), "r+");
      writeSync(this.#file, nothing, 0, 0, firstDataPage);
    } catch (error) {
      throw storageError(error, { path: this.#path });
    }
    requireFreeBytes(this.#path, neededBytes);
  }

  /** Whether the environment refuses every read and write until all handles on it are closed. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  #canRead(): boolean {
    try {
      this.beginRead().release();
      return true;
    } catch {
      // Whatever the error is: a store that cannot start a read transaction must be reopened.
      return false;
    }
  }

  beginRead(): ReadTransaction {
    try {
      // lmdb-js shares a read transaction among all reads in one iteration of the event loop, so it may be older than the last
      // commit. After a reset, it would be renewed. A new one costs 2.5 µs more, and fails safely.
      this.#environment.resetReadTxn();
      (this.#environment as unknown as { _commitReadTxn(): void })._commitReadTxn();
      return new LmdbReadTransaction(this.#tables, this.#environment.useReadTransaction(), this.#openReads);
    } catch (error) {
      // A commit failed in another thread, and this thread has not been notified yet.
      if (error instanceof Error && refusesAll.test(error.message)) throw reopening(error);
      throw error;
    }
  }

  removeSpoolsBut(kept: number | null): void {
    for (const spool of this.#spools.list()) if (spool !== kept) this.#spools.remove(spool);
  }

  sizeBytes(): number {
    return statSync(join(this.#path, "data.mdb")).blocks * 512;
  }

  async close(): Promise<void> {
    invariant(!this.#writing, `the store ${this.#path} is closed in the middle of a write`);
    invariant(
      this.#openReads.count === 0,
      () => `the store ${this.#path} is closed with ${this.#openReads.count} read transactions`,
    );
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
    this.#marker?.close();
    this.#marker = undefined;
    this.#spools.close();
    await this.#environment.close();
    forget(new Set<unknown>([this.#environment, ...this.#tables.values()]));
  }
}

/**
 * Ends the process at once, as a crash does, if lmdb-js has just written behind the end of its memory. When a write of pages fails,
 * `mdb_page_flush` (lmdb-js 3.5.6) prints a message into 100 bytes, of which glibc makes 104. Up to two of its numbers are whatever was
 * on the stack, so it has 83 to 120 characters. A longer one overwrites the size of the block behind it: seconds later, malloc aborts
 * ("corrupted size vs. prev_size"), or hands out memory that is in use, and wrong bytes are stored. What is committed is safe.
 */
function endIfOverrun(error: unknown): void {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const [printed = ""] = /Attempting to write page at .*/.exec(cause.message) ?? [];
    if (printed.length < usableBytes) continue;
    writeSync(
      2,
      "\nquiver: a write to the disk failed, and LMDB has damaged the memory of the process: it ends here\n",
    );
    // A worker has no process.abort().
    process.kill(process.pid, "SIGABRT");
  }
}
const usableBytes = 104;

/** LMDB's error messages in an environment whose meta page it could not write. */
const refusesAll = /MDB_PANIC|fatal error/;

/** The error that callers get while a broken store is being reopened. */
export const reopening = (cause?: Error): QuiverError =>
  new QuiverError(
    "not_ready",
    "The store is being reopened after a disk failure. Send the request again.",
    {},
    { cause },
  );

/** A generous estimate of the size of an empty store's files. */
const emptyBytes = 256 * 1024;

/**
 * Makes sure that the disk can take the files of a new store. lmdb-js 3.5.6 crashes the process (SIGSEGV) if the first writes of a
 * new environment fail, for example on a full disk.
 * @throws the system's error
 */
function requireDiskForNew(path: string): void {
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

/** What lmdb-js has and does not declare: its native part. */
const { Env, Txn } = (lmdb as unknown as { nativeAddon: NativePart }).nativeAddon;
type NativePart = {
  Env: new () => { open(options: object, flags: number, jsFlags: number): number; close(): void };
  Txn: new (environment: object, flags: number) => { abort(): void };
};
const readOnly = 0x20000;

/**
 * Makes sure that a store can be opened. All handles of a process share one environment. lmdb-js does not notice that the write
 * transaction in which it opens a table has not begun, and never closes the handle. A read transaction tells the same safely.
 * @throws not_ready if another handle is open on an environment whose commit failed
 */
function requireWorking(options: { path: string; maxDbs: number; maxReaders: number }): void {
  const environment = new Env();
  environment.open({ ...options, keyBytes: Buffer.alloc(64) }, 0, 0);
  try {
    new Txn(environment, readOnly).abort();
  } catch (error) {
    throw error instanceof Error && refusesAll.test(error.message) ? reopening(error) : error;
  } finally {
    environment.close();
  }
}

/**
 * lmdb-js registers every database that it opens in a process-wide map and never removes it, so a closed store would keep its
 * buffers, 64 KiB each, for ever. Only diagnostics read the map. Its type is not declared.
 */
const openDatabases = (lmdb as unknown as { allDbs: Map<string, unknown> }).allDbs;

function forget(closed: ReadonlySet<unknown>): void {
  for (const [name, database] of openDatabases) if (closed.has(database)) openDatabases.delete(name);
}

/** The mutexes of stores, which all threads of the process share. */
const mutexes = SharedMutex.ofProcess("quiver:stores", 1024);
const storeMutex = (path: string): SharedMutex =>
  mutexes[
    Buffer.from(path).reduce((hash, byte) => (Math.imul(hash, 31) + byte) >>> 0, 7) % mutexes.length
  ] as SharedMutex;

const nothing = new Uint8Array(0);
/** Byte offset behind the two meta pages. */
const firstDataPage = 2 * 4096;

/** @throws storage_full */
function requireFreeBytes(path: string, neededBytes: number): void {
  const free = freeBytes(path);
  if (free === undefined || free >= neededBytes) return;
  throw new QuiverError("storage_full", failureMessages.full, {
    free_bytes: free,
    needed_bytes: neededBytes,
  });
}
