// Which snapshots exist, and how are they created and deleted?
//
//   create   a separate thread writes the current version of a collection to a file, while writes and searches continue
//   receive  an uploaded file is stored and verified completely
//   delete   it is first renamed durably to the name of an unfinished one; running downloads continue
//
// At start each file's length and header are compared with its entry; a check, a download or a restore reads the rest. A snapshot that is
// known to be damaged is listed as such, so that users do not rely on it, and can be deleted. One with a damaged entry is listed again
// after its file has been read (`draw`).
//
// A snapshot survives the deletion of its collection, because restoring a collection that was deleted by mistake is a common case.
//
// Creating, receiving and deleting change one list of snapshots, one at a time, so this is one file.

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
  /** Returns a collection by its name. @throws collection_not_found */
  find(name: string): OpenCollection;
  /** Runs a check if no other one is running. @throws overloaded */
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
  /** Files without an entry, until their entries are regenerated. */
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
    for (const file of strays) log.warn({ file }, "a file in the snapshot directory belongs to no snapshot");
    if (removed > 0) log.info({ removed }, "removed files that interrupted snapshots had left");
    this.#unlisted = unlisted;
  }

  /** To be awaited at start: reads the files without entries, one after the other, and lists the intact ones. */
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

  /** Marks a snapshot whose file is missing or obviously a different one. @returns the problem */
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

  /** @throws collection_not_found; a damaged collection, which is not served, counts as existing */
  #requireKnown(name: string): void {
    try {
      this.#around.find(name);
    } catch (error) {
      if (!isQuiverError(error, "data_corrupted")) throw error;
    }
  }

  /** Marks snapshots that a check has found damaged, and unmarks intact ones. @param ids of the snapshots that existed before the check */
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
        "since_hash is given without since_version; give the version that has this hash.",
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

  /** Runs work that takes a job slot and that closing waits for. */
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
      `The collection '${name}' has ${snapshots.length} snapshots, which is the limit. Delete some first.`,
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
    // A collection that does not exist and has no snapshots is reported as missing.
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
      this.#mark(id, "Its file does not match its SHA-256.");
      return damaged(id, "Its file does not match its SHA-256.");
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
      // It is durably deleted; the next start removes leftovers.
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

  /** Writes an uploaded file and verifies the result on disk; a failure leaves nothing. */
  async #take(path: string, source: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<BackupReport> {
    try {
      const sha256 = await writeFile(path, source, signal);
      const report = await this.jobs.run({ kind: "verify", path }, signal);
      if (report.sha256 !== sha256)
        throw invalidSnapshot("damaged", 0, "differs on the disk from what was received");
      checkDefinitions(report.header);
      this.#requireRoom(report.header.collection.name);
      return report;
    } catch (error) {
      await rm(path, { force: true });
      throw fileError(error);
    }
  }

  /** Rejects new work, stops running work, and waits for its end. */
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

/** The bytes of a file; the last ones are sent only if the SHA-256 of all bytes is right. */
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

/** Writes a stream durably to a new file. @returns its SHA-256 in hex */
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
        // A file that is not a backup is rejected before all of it has arrived.
        begin = Buffer.concat([begin, chunk]);
        if (!isBackup(begin))
          throw invalidSnapshot(
            "foreign",
            0,
            "is not a Quiver backup: it does not start with the magic bytes",
          );
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

/** The chunks of a source, until the signal aborts. */
async function* until<T>(signal: AbortSignal, source: AsyncIterable<T>): AsyncGenerator<T> {
  const iterator = source[Symbol.asyncIterator]();
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
  });
  // There is no listener while a chunk is being written; the next iteration of the loop adds one.
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
    // A source that hangs would never resolve this.
    iterator.return?.()?.catch(() => undefined);
  }
}

/** Whether bytes are those that a backup begins with, as far as they go. */
function isBackup(begin: Buffer): boolean {
  const length = Math.min(begin.length, backupMagic.length);
  return begin.toString("latin1", 0, length) === backupMagic.slice(0, length);
}
