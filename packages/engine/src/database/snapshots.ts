// Which snapshots are there, and how do they come and go?
//
//   create   a collection's current version is written to a file by a thread of its own, while writes and searches go on
//   receive  a file that a caller has is taken in and verified to its end
//   delete   it gets the name of an unfinished one first, durably; whoever is reading the file reads on
//
// At start each file's length and header are compared with what is told of it; the rest is read by a check, a download or a
// restore. A snapshot that is known to be damaged is listed as such, so that nobody counts on it, and can be deleted. One whose entry is
// damaged is listed again when its file has been read (`draw`).
//
// A snapshot outlives its collection: a collection that was deleted by mistake is what many are restored for.
//
// One file: making, receiving and deleting change one list of snapshots, one at a time.

import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, rm } from "node:fs/promises";
import { Readable } from "node:stream";
import { backupMagic } from "@quiver/protocol/backup-format";
import { isQuiverError, QuiverError } from "@quiver/protocol/errors";
import { checkFields } from "@quiver/protocol/fields";
import { limits } from "@quiver/protocol/limits";
import type { CheckReport } from "@quiver/protocol/shapes/check";
import {
  CreateSnapshot,
  type RunningSnapshot,
  type Snapshot,
  type SnapshotList,
} from "@quiver/protocol/shapes/snapshot";
import { invalidSnapshot } from "../backup/block-file.ts";
import { checkDefinitions } from "../backup/definitions.ts";
import { failpoint } from "../base/failpoint.ts";
import { BackupJobs, type BackupReport } from "../runtime/backup-jobs.ts";
import { fileError, SnapshotDirectory } from "../runtime/snapshot-directory.ts";
import { snapshotOf } from "../runtime/snapshot-entry.ts";
import { RunningCheck } from "./check/live.ts";
import type { OpenCollection } from "./collection.ts";
import type { DatabaseLog, SnapshotFile, Snapshots } from "./contract.ts";

export type SnapshotSurroundings = {
  readonly dataDir: string;
  /** Gives a collection by its name. @throws collection_not_found */
  find(name: string): OpenCollection;
  /** Runs a check when no other one runs. @throws overloaded */
  checkAlone<T>(run: () => Promise<T>): Promise<T>;
  readonly log: DatabaseLog;
  readonly clock: () => number;
};

export class KeptSnapshots implements Snapshots {
  readonly #around: SnapshotSurroundings;
  readonly #directory: SnapshotDirectory;
  readonly #snapshots = new Map<string, Snapshot>();
  readonly #running = new Map<string, RunningSnapshot>();
  readonly #closing = new AbortController();
  readonly #works = new Set<Promise<unknown>>();
  readonly jobs = new BackupJobs();
  /** Of files that nothing is told of; until they are drawn. */
  readonly #unlisted: readonly string[];

  constructor(around: SnapshotSurroundings) {
    this.#around = around;
    const { log } = around;
    this.#directory = new SnapshotDirectory(around.dataDir);
    const { listed, unlisted, strays, removed } = this.#directory.open();
    for (const snapshot of listed) {
      this.#snapshots.set(snapshot.id, snapshot);
      this.#look(snapshot);
    }
    for (const file of strays) log.warn({ file }, "a file among the snapshots is of none");
    if (removed > 0) log.info({ removed }, "removed files that interrupted snapshots had left");
    this.#unlisted = unlisted;
  }

  /** To be awaited at start: reads files of which nothing is told, one after the other, and lists those that are whole. */
  async draw(): Promise<void> {
    const { log } = this.#around;
    for (const id of this.#unlisted) {
      try {
        const job = { kind: "verify", path: this.#directory.pathOf(id) } as const;
        const snapshot = snapshotOf(id, await this.jobs.run(job, this.#closing.signal));
        this.#directory.rewriteEntry(snapshot);
        this.#snapshots.set(id, snapshot);
        log.warn({ snapshot: id }, "the entry of a snapshot was damaged, and is drawn again from its file");
      } catch (err) {
        log.error({ snapshot: id, err }, "a snapshot is damaged, its entry too; it is not listed");
      }
    }
  }

  /** Marks a snapshot whose file is missing or, by what shows at once, is another. @returns what is wrong with it */
  #look(snapshot: Snapshot): string | undefined {
    const problem = snapshot.damaged ?? this.#directory.problemOf(snapshot);
    if (problem !== undefined && snapshot.damaged === undefined) this.#mark(snapshot.id, problem);
    return problem;
  }

  #mark(id: string, problem: string): void {
    const snapshot = this.#snapshots.get(id);
    if (snapshot === undefined || snapshot.damaged === problem) return;
    this.#snapshots.set(id, { ...snapshot, damaged: problem });
    this.#around.log.error({ snapshot: id, problem }, "a snapshot is damaged");
  }

  /** @throws data_corrupted */
  #requireIntact(snapshot: Snapshot): void {
    const problem = this.#look(snapshot);
    if (problem !== undefined) throw damaged(snapshot.id, problem);
  }

  async check(name?: string): Promise<CheckReport> {
    if (name !== undefined && this.#of(name).snapshots.length === 0) this.#requireKnown(name);
    return this.#around.checkAlone(async () => {
      const before = [...this.#snapshots.keys()];
      const running = new RunningCheck({
        kind: "snapshots",
        dataDir: this.#around.dataDir,
        collection: name,
      });
      const stop = () => running.stop(this.#closing.signal.reason);
      this.#closing.signal.addEventListener("abort", stop, { once: true });
      try {
        if (this.#closing.signal.aborted) stop();
        const report = await running.report;
        this.#believe(report, before, name);
        return report;
      } finally {
        this.#closing.signal.removeEventListener("abort", stop);
      }
    });
  }

  /** @throws collection_not_found; a collection that is damaged, and not served, is there */
  #requireKnown(name: string): void {
    try {
      this.#around.find(name);
    } catch (error) {
      if (!isQuiverError(error, "data_corrupted")) throw error;
    }
  }

  /** Marks what a check has found damaged, and unmarks what is whole again. @param ids of snapshots that were there before it */
  #believe({ findings }: CheckReport, ids: readonly string[], name: string | undefined): void {
    const problems = new Map<string, string>();
    for (const { snapshot_id, kind, derived, message } of findings)
      if (snapshot_id !== undefined && kind !== "snapshot_chain" && !derived)
        problems.set(snapshot_id, message);
    for (const id of ids) {
      const snapshot = this.#snapshots.get(id);
      if (snapshot === undefined || (name !== undefined && snapshot.collection_name !== name)) continue;
      const problem = problems.get(id);
      if (problem !== undefined) this.#mark(id, problem);
      else if (snapshot.damaged !== undefined) {
        const { damaged: _, ...whole } = snapshot;
        this.#snapshots.set(id, whole);
      }
    }
  }

  async create(name: string, request: CreateSnapshot = {}): Promise<Snapshot> {
    checkFields(CreateSnapshot, request);
    const { since_version, since_hash } = request;
    if (since_version == null && since_hash != null)
      throw new QuiverError(
        "invalid_request",
        "since_hash is given without since_version; give the version whose hash it is.",
        { path: "since_hash" },
      );
    const since = since_version == null ? null : { version: since_version, hash: since_hash ?? null };
    const collection = this.#around.find(name);
    this.#requireRoom(name);
    const id = randomBytes(12).toString("hex");
    const path = this.#directory.unfinishedPathOf(id);
    return this.#work(async () => {
      const running = { id, collection_name: name, percentage_complete: 0 };
      this.#running.set(id, running);
      try {
        const report = await collection.workAside((directory, signal) => {
          const wanted = { collection: collection.entry.definition, since, createdMs: this.#around.clock() };
          const ending = AbortSignal.any([signal, this.#closing.signal]);
          return this.jobs.run({ kind: "write", directory, path, request: wanted }, ending, (share) => {
            running.percentage_complete = Math.floor(share * 1000) / 10;
          });
        });
        failpoint("snapshot:written");
        return this.#keep(snapshotOf(id, report));
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

  #keep(snapshot: Snapshot): Snapshot {
    this.#directory.publish(snapshot);
    this.#snapshots.set(snapshot.id, snapshot);
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
    if (list.snapshots.length === 0) this.#around.find(name);
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

  /** The files of a chain, in its order. @throws snapshot_not_found, data_corrupted */
  pathsOf(ids: readonly string[], reaches: (snapshot: Snapshot) => boolean = () => true): string[] {
    return ids.map((id, i) => {
      const snapshot = this.#snapshots.get(id);
      if (snapshot === undefined || !reaches(snapshot)) throw notFound(id, `snapshots[${i}]`);
      this.#requireIntact(snapshot);
      return this.#directory.pathOf(id);
    });
  }

  read(name: string, id: string): SnapshotFile {
    const snapshot = this.get(name, id);
    this.#requireIntact(snapshot);
    const path = this.#directory.pathOf(id);
    const { size_bytes: size, sha256 } = snapshot;
    const onWrong = () => {
      this.#mark(id, "Its file fails its SHA-256.");
      return damaged(id, "Its file fails its SHA-256.");
    };
    return {
      snapshot,
      stream: (start, end): Readable =>
        start === 0 && end === size
          ? Readable.from(provedBytes(path, sha256, onWrong), { objectMode: false })
          : createReadStream(path, { start, end: end - 1 }),
    };
  }

  delete(name: string, id: string): void {
    this.get(name, id);
    this.#directory.retire(id);
    this.#snapshots.delete(id);
    failpoint("snapshot:retired");
    try {
      this.#directory.clear(id);
    } catch (err) {
      // It is deleted, durably; what is left goes at the next start.
      this.#around.log.warn({ snapshot: id, err }, "the file of a deleted snapshot could not be removed");
    }
  }

  receive(source: AsyncIterable<Uint8Array>): Promise<Snapshot> {
    const id = randomBytes(12).toString("hex");
    const path = this.#directory.unfinishedPathOf(id);
    const { signal } = this.#closing;
    return this.#work(async () => {
      const report = await this.#take(path, source, signal);
      return this.#keep(snapshotOf(id, report));
    });
  }

  /** Writes a file that comes, and verifies what is then on the disk; a failure leaves nothing. */
  async #take(path: string, source: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<BackupReport> {
    try {
      const sha256 = await writeFile(path, source, signal);
      const report = await this.jobs.run({ kind: "verify", path }, signal);
      if (report.sha256 !== sha256)
        throw invalidSnapshot("damaged", 0, "is not on the disk what was received");
      checkDefinitions(report.header);
      this.#requireRoom(report.header.collection.name);
      return report;
    } catch (error) {
      await rm(path, { force: true });
      throw fileError(error);
    }
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

function damaged(id: string, problem: string): QuiverError {
  return new QuiverError(
    "data_corrupted",
    `The snapshot '${id}' is damaged: ${problem} Delete it, and make or upload another one.`,
    { snapshot_id: id },
  );
}

/** The bytes of a file, of which the last come only when all of them have the SHA-256 that they must have. */
async function* provedBytes(path: string, sha256: string, onWrong: () => Error): AsyncGenerator<Buffer> {
  const hash = createHash("sha256");
  let held: Buffer | undefined;
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    if (held !== undefined) yield held;
    held = chunk;
  }
  if (hash.digest("hex") !== sha256) throw onWrong();
  if (held !== undefined) yield held;
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
    iterator.return?.()?.catch(() => undefined);
  }
}

/** Whether bytes are those that a backup begins with, as far as they go. */
function isBackup(begin: Buffer): boolean {
  const length = Math.min(begin.length, backupMagic.length);
  return begin.toString("latin1", 0, length) === backupMagic.slice(0, length);
}
