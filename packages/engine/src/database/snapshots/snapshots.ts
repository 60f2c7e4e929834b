// How are snapshots created, received, read and deleted?
//
//   create   a separate thread writes the current version of a collection to a file, while writes and searches continue
//   receive  an uploaded file is stored and verified completely
//   delete   it is first renamed durably to the name of an unfinished one; running downloads continue
//
// A snapshot whose entry is damaged is listed again after its file has been read (`draw`). Which snapshots there are: known-snapshots.ts.
//
// A snapshot survives the deletion of its collection, because restoring a collection that was deleted by mistake is a common case.

import { randomBytes } from "node:crypto";
import { createReadStream, openSync } from "node:fs";
import { rm } from "node:fs/promises";
import { Readable } from "node:stream";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { checkFields } from "@quiverdb/protocol/fields";
import type { CheckReport } from "@quiverdb/protocol/shapes/check";
import { CreateSnapshot, type Snapshot, type SnapshotList } from "@quiverdb/protocol/shapes/snapshot";
import { failpoint } from "../../base/failpoint.ts";
import { RunningCheck } from "../check/live.ts";
import type { OpenCollection } from "../collection.ts";
import type { DatabaseLog, SnapshotFile, Snapshots } from "../contract.ts";
import { checkDefinitions } from "./backup-definitions.ts";
import { BackupJobs, type BackupReport } from "./backup-jobs.ts";
import { invalidSnapshot } from "./block-file.ts";
import { damaged, KnownSnapshots, notFound } from "./known-snapshots.ts";
import { SnapshotDirectory } from "./snapshot-directory.ts";
import { fileError, snapshotOf } from "./snapshot-entry.ts";
import { provedBytes, writeFile } from "./snapshot-transfer.ts";

export type SnapshotDependencies = {
  readonly dataDir: string;
  /** Returns a collection by its name. @throws collection_not_found */
  find(name: string): SnapshotSource;
  /** Runs a check if no other one is running. @throws overloaded */
  checkAlone<T>(run: () => Promise<T>): Promise<T>;
  readonly log: DatabaseLog;
  readonly clock: () => number;
};

/** A collection of which a snapshot is made: its store, or one in which its shards are gathered. */
export type SnapshotSource = Pick<OpenCollection, "workAside"> & {
  readonly entry: Pick<OpenCollection["entry"], "definition">;
};

export class KeptSnapshots implements Snapshots {
  readonly #dependencies: SnapshotDependencies;
  readonly #directory: SnapshotDirectory;
  readonly #known: KnownSnapshots;
  readonly #closing = new AbortController();
  readonly #works = new Set<Promise<unknown>>();
  readonly jobs = new BackupJobs();
  /** Files without an entry, until their entries are regenerated. */
  readonly #unlisted: readonly string[];

  constructor(dependencies: SnapshotDependencies) {
    this.#dependencies = dependencies;
    const { log } = dependencies;
    this.#directory = new SnapshotDirectory(dependencies.dataDir);
    this.#known = new KnownSnapshots(this.#directory, log);
    const { listed, unlisted, strays, removed } = this.#directory.open();
    for (const snapshot of listed) {
      this.#known.add(snapshot);
      this.#known.look(snapshot);
    }
    for (const file of strays) log.warn({ file }, "a file in the snapshot directory belongs to no snapshot");
    if (removed > 0) log.info({ removed }, "removed files that interrupted snapshots had left");
    this.#unlisted = unlisted;
  }

  /** To be awaited at start: reads the files without entries, one after the other, and lists the intact ones. */
  async draw(): Promise<void> {
    const { log } = this.#dependencies;
    for (const id of this.#unlisted) {
      try {
        const job = { kind: "verify", path: this.#directory.pathOf(id) } as const;
        const snapshot = snapshotOf(id, await this.jobs.run(job, this.#closing.signal));
        this.#directory.rewriteEntry(snapshot);
        this.#known.add(snapshot);
        log.warn({ snapshot: id }, "the entry of a snapshot was damaged, and is drawn again from its file");
      } catch (err) {
        log.error({ snapshot: id, err }, "a snapshot is damaged, its entry too; it is not listed");
      }
    }
  }

  async check(name?: string): Promise<CheckReport> {
    if (name !== undefined && this.#known.of(name).snapshots.length === 0) this.#requireKnown(name);
    return this.#dependencies.checkAlone(async () => {
      const before = this.#known.ids;
      const running = new RunningCheck({
        kind: "snapshots",
        dataDir: this.#dependencies.dataDir,
        collection: name,
      });
      const stop = () => running.stop(this.#closing.signal.reason);
      this.#closing.signal.addEventListener("abort", stop, { once: true });
      try {
        if (this.#closing.signal.aborted) stop();
        const report = await running.report;
        this.#known.believe(report, before, name);
        return report;
      } finally {
        this.#closing.signal.removeEventListener("abort", stop);
      }
    });
  }

  /** @throws collection_not_found; a damaged collection, which is not served, counts as existing */
  #requireKnown(name: string): void {
    try {
      this.#dependencies.find(name);
    } catch (error) {
      if (!isQuiverError(error, "data_corrupted")) throw error;
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
    const collection = this.#dependencies.find(name);
    this.#known.requireRoom(name);
    const id = randomBytes(12).toString("hex");
    const path = this.#directory.unfinishedPathOf(id);
    return this.#work(async () => {
      const running = { id, collection_name: name, percentage_complete: 0 };
      this.#known.running.set(id, running);
      try {
        const report = await collection.workAside((directory, signal) => {
          const wanted = {
            collection: collection.entry.definition,
            since,
            createdMs: this.#dependencies.clock(),
          };
          const ending = AbortSignal.any([signal, this.#closing.signal]);
          return this.jobs.run({ kind: "write", directory, path, request: wanted }, ending, (share) => {
            running.percentage_complete = Math.floor(share * 1000) / 10;
          });
        });
        failpoint("snapshot:written");
        return this.#known.publish(snapshotOf(id, report));
      } finally {
        this.#known.running.delete(id);
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

  list(name: string): SnapshotList {
    const list = this.#known.of(name);
    // A collection that does not exist and has no snapshots is reported as missing.
    if (list.snapshots.length === 0) this.#dependencies.find(name);
    return list;
  }

  listAll(): SnapshotList {
    return this.#known.all();
  }

  get(name: string, id: string): Snapshot {
    const snapshot = this.#known.get(id);
    if (snapshot?.collection_name === name) return snapshot;
    this.list(name);
    throw notFound(id);
  }

  /** The files of a chain, in its order. @throws snapshot_not_found, data_corrupted */
  pathsOf(ids: readonly string[], reaches?: (snapshot: Snapshot) => boolean): string[] {
    return this.#known.pathsOf(ids, reaches);
  }

  read(name: string, id: string): SnapshotFile {
    const snapshot = this.get(name, id);
    this.#known.requireIntact(snapshot);
    const path = this.#directory.pathOf(id);
    const { size_bytes: size, sha256 } = snapshot;
    const onWrong = () => {
      this.#known.mark(id, "Its file does not match its SHA-256.");
      return damaged(id, "Its file does not match its SHA-256.");
    };
    return {
      snapshot,
      stream: (start, end): Readable => {
        const file = this.#open(id, path, start, end);
        if (start !== 0 || end !== size) return file;
        const proved = Readable.from(provedBytes(file, sha256, onWrong), { objectMode: false });
        return proved.once("close", () => file.destroy());
      },
    };
  }

  /** Opens the file at once, so that it stays readable if the snapshot is deleted. @throws snapshot_not_found if it was deleted meanwhile */
  #open(id: string, path: string, start: number, end: number): Readable {
    try {
      return createReadStream(path, { fd: openSync(path, "r"), start, end: end - 1 });
    } catch (error) {
      throw this.#known.get(id) === undefined ? notFound(id) : error;
    }
  }

  delete(name: string, id: string): void {
    this.get(name, id);
    this.#directory.retire(id);
    this.#known.delete(id);
    failpoint("snapshot:retired");
    try {
      this.#directory.clear(id);
    } catch (err) {
      // It is durably deleted; the next start removes leftovers.
      this.#dependencies.log.warn(
        { snapshot: id, err },
        "the file of a deleted snapshot could not be removed",
      );
    }
  }

  receive(source: AsyncIterable<Uint8Array>): Promise<Snapshot> {
    const id = randomBytes(12).toString("hex");
    const path = this.#directory.unfinishedPathOf(id);
    const { signal } = this.#closing;
    return this.#work(async () => {
      const report = await this.#take(path, source, signal);
      return this.#known.publish(snapshotOf(id, report));
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
      this.#known.requireRoom(report.header.collection.name);
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
