// Which snapshots are there, and how do they come and go?
//
//   create   a collection's current version is written to a file by a thread of its own, while writes and searches go on
//   receive  a file that a caller has is taken in and verified to its end
//   delete   its entry goes first, durably; whoever is reading the file reads on
//
// A snapshot outlives its collection: a collection that was deleted by mistake is what many are restored for.

import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, rm } from "node:fs/promises";
import type { Readable } from "node:stream";
import { backupMagic } from "@quiver/protocol/backup-format";
import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type {
  CreateSnapshot,
  RunningSnapshot,
  Snapshot,
  SnapshotList,
} from "@quiver/protocol/shapes/snapshot";
import { invalidSnapshot } from "../backup/block-file.ts";
import { checkDefinitions } from "../backup/definitions.ts";
import { failpoint } from "../base/failpoint.ts";
import { BackupJobs, type BackupReport } from "../runtime/backup-jobs.ts";
import { fileError, SnapshotDirectory } from "../runtime/snapshot-directory.ts";
import type { OpenCollection } from "./collection.ts";
import type { DatabaseLog, SnapshotFile, Snapshots } from "./contract.ts";

export class KeptSnapshots implements Snapshots {
  readonly #directory: SnapshotDirectory;
  readonly #find: (name: string) => OpenCollection;
  readonly #clock: () => number;
  readonly #snapshots = new Map<string, Snapshot>();
  readonly #running = new Map<string, RunningSnapshot>();
  readonly #closing = new AbortController();
  readonly #works = new Set<Promise<unknown>>();
  readonly jobs = new BackupJobs();

  /** @param find gives a collection by its name, or throws collection_not_found */
  constructor(
    dataDir: string,
    find: (name: string) => OpenCollection,
    log: DatabaseLog,
    clock: () => number,
  ) {
    this.#directory = new SnapshotDirectory(dataDir);
    this.#find = find;
    this.#clock = clock;
    const { snapshots, removed } = this.#directory.open((id, err) =>
      log.error({ snapshot: id, err }, "the entry of a snapshot cannot be read; the snapshot is not listed"),
    );
    for (const snapshot of snapshots) this.#snapshots.set(snapshot.id, snapshot);
    if (removed > 0) log.info({ removed }, "removed files that interrupted snapshots had left");
  }

  async create(name: string, request: CreateSnapshot = {}): Promise<Snapshot> {
    const { since_version, since_hash } = request;
    if (since_version == null && since_hash != null)
      throw new QuiverError(
        "invalid_request",
        "since_hash is given without since_version; give the version whose hash it is.",
        { path: "since_hash" },
      );
    const since = since_version == null ? null : { version: since_version, hash: since_hash ?? null };
    const collection = this.#find(name);
    this.#requireRoom(name);
    const id = randomBytes(12).toString("hex");
    const path = this.#directory.pathOf(id);
    return this.#work(async () => {
      const running = { id, collection_name: name, percentage_complete: 0 };
      this.#running.set(id, running);
      try {
        const report = await collection.workAside((directory, signal) => {
          const wanted = { collection: collection.entry.definition, since, createdMs: this.#clock() };
          const ending = AbortSignal.any([signal, this.#closing.signal]);
          return this.jobs.run({ kind: "write", directory, path, request: wanted }, ending, (share) => {
            running.percentage_complete = Math.floor(share * 1000) / 10;
          });
        });
        failpoint("snapshot:written");
        return this.#keep(id, report);
      } finally {
        this.#running.delete(id);
      }
    });
  }

  /** Runs work that takes a place among the jobs, and that closing waits for. */
  async #work<T>(act: () => Promise<T>): Promise<T> {
    this.#closing.signal.throwIfAborted();
    const leave = this.jobs.enter();
    const work = act();
    this.#works.add(work);
    try {
      return await work;
    } finally {
      this.#works.delete(work);
      leave();
    }
  }

  async #keep(id: string, { header, records, bytes, sha256 }: BackupReport): Promise<Snapshot> {
    const snapshot: Snapshot = {
      id,
      collection_name: header.collection.name,
      version_number: header.version,
      hash: header.hash,
      vector_count: header.live,
      since_version: header.since?.version ?? null,
      since_hash: header.since?.hash ?? null,
      records_stored: records,
      size_bytes: bytes,
      sha256,
      timestamp: Math.floor(header.created_ms / 1000),
    };
    try {
      this.#directory.publish(snapshot);
    } catch (error) {
      await rm(this.#directory.pathOf(id), { force: true });
      throw error;
    }
    this.#snapshots.set(id, snapshot);
    return snapshot;
  }

  #requireRoom(name: string): void {
    const { snapshots, running } = this.#of(name);
    if (snapshots.length + running.length < limits.snapshotsPerCollectionMax) return;
    throw new QuiverError(
      "invalid_request",
      `The collection '${name}' has ${snapshots.length} snapshots, as many as are kept. Delete some first.`,
      { path: "collection_id", limit: limits.snapshotsPerCollectionMax },
    );
  }

  #of(name: string): SnapshotList {
    const isOfIt = (snapshot: { collection_name: string }) => snapshot.collection_name === name;
    const { snapshots, running } = this.listAll();
    return { snapshots: snapshots.filter(isOfIt), running: running.filter(isOfIt) };
  }

  list(name: string): SnapshotList {
    const list = this.#of(name);
    // A collection that is not there, and has left nothing, is told as one that is not there.
    if (list.snapshots.length === 0) this.#find(name);
    return list;
  }

  listAll(): SnapshotList {
    const snapshots = [...this.#snapshots.values()].sort(
      (a, b) => a.timestamp - b.timestamp || a.version_number - b.version_number || (a.id < b.id ? -1 : 1),
    );
    return { snapshots, running: [...this.#running.values()].map((running) => ({ ...running })) };
  }

  get(name: string, id: string): Snapshot {
    const snapshot = this.#snapshots.get(id);
    if (snapshot?.collection_name === name) return snapshot;
    this.list(name);
    throw notFound(id);
  }

  /** The files of a chain, in its order. @throws snapshot_not_found */
  pathsOf(ids: readonly string[]): string[] {
    return ids.map((id, i) => {
      if (!this.#snapshots.has(id)) throw notFound(id, `snapshots[${i}]`);
      return this.#directory.pathOf(id);
    });
  }

  read(name: string, id: string): SnapshotFile {
    const snapshot = this.get(name, id);
    const path = this.#directory.pathOf(id);
    return { snapshot, stream: (start, end): Readable => createReadStream(path, { start, end: end - 1 }) };
  }

  delete(name: string, id: string): void {
    this.get(name, id);
    try {
      this.#directory.remove(id);
    } catch (error) {
      throw fileError(error);
    }
    this.#snapshots.delete(id);
  }

  receive(source: AsyncIterable<Uint8Array>): Promise<Snapshot> {
    const id = randomBytes(12).toString("hex");
    const path = this.#directory.pathOf(id);
    const { signal } = this.#closing;
    return this.#work(async () => {
      try {
        const sha256 = await writeFile(path, source, signal);
        const report = await this.jobs.run({ kind: "verify", path }, signal);
        if (report.sha256 !== sha256)
          throw invalidSnapshot("damaged", 0, "is not on the disk what was received");
        checkDefinitions(report.header);
        this.#requireRoom(report.header.collection.name);
        return this.#keep(id, report);
      } catch (error) {
        await rm(path, { force: true });
        throw fileError(error);
      }
    });
  }

  /** Refuses new work, ends what runs, and waits for its end. */
  async close(reason: QuiverError): Promise<void> {
    this.#closing.abort(reason);
    await Promise.allSettled(this.#works);
  }
}

function notFound(id: string, path = "snapshot_id"): QuiverError {
  return new QuiverError(
    "snapshot_not_found",
    `There is no snapshot '${id.slice(0, 80)}' (${path}). GET /vectordb/snapshots lists all.`,
    { path, snapshot_id: id.slice(0, 80) },
  );
}

/** Writes what comes to a new file and makes it durable. @returns its SHA-256 in hex */
async function writeFile(
  path: string,
  source: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<string> {
  const hash = createHash("sha256");
  const file = await open(path, "wx", 0o600);
  let begin = Buffer.alloc(0);
  try {
    for await (const chunk of until(signal, source)) {
      if (begin.length < backupMagic.length) {
        // What is no backup is refused before all of it has come.
        begin = Buffer.concat([begin, chunk]);
        if (!isBackup(begin))
          throw invalidSnapshot("foreign", 0, "is no backup of Quiver: it does not begin with its mark");
      }
      hash.update(chunk);
      for (let at = 0; at < chunk.length; ) {
        const { bytesWritten } = await file.write(chunk, at, chunk.length - at);
        at += bytesWritten;
      }
    }
    signal.throwIfAborted();
    await file.sync();
  } finally {
    await file.close();
  }
  return hash.digest("hex");
}

/** What a source gives, until the signal says that nobody waits for it any more. */
async function* until<T>(signal: AbortSignal, source: AsyncIterable<T>): AsyncGenerator<T> {
  const iterator = source[Symbol.asyncIterator]();
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
  });
  // Nobody listens while a chunk is being written; the next turn of the loop does.
  aborted.catch(() => undefined);
  try {
    for (;;) {
      signal.throwIfAborted();
      const { done, value } = await Promise.race([iterator.next(), aborted]);
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener("abort", stop);
    // A source that hangs would never answer this.
    void iterator.return?.()?.catch(() => undefined);
  }
}

/** Whether bytes are those that a backup begins with, as far as they go. */
function isBackup(begin: Buffer): boolean {
  const length = Math.min(begin.length, backupMagic.length);
  return begin.toString("latin1", 0, length) === backupMagic.slice(0, length);
}
