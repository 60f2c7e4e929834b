// How are a collection's records and versions read?

import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import type { Version, VersionList } from "@quiverdb/protocol/shapes/version";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import { readIndexDefinitions } from "../../collection/apply.ts";
import { readHead } from "../../collection/head.ts";
import { readableVersions } from "../../collection/history.ts";
import { type KeyFilter, within } from "../../collection/key-filter.ts";
import * as reading from "../../collection/reading.ts";
import { allVectors, vectorsAt } from "../../collection/reading.ts";
import { checkId } from "../../collection/schema.ts";
import { currentVersion, listVersions, versionByHash } from "../../collection/versions.ts";
import { timesOf, withTimes } from "../../filter/filter.ts";
import { Predicate } from "../../filter/predicate.ts";
import { readFilter } from "../../filter/read-filter.ts";
import type { OrdinalBitmap } from "../../index/ordinal-bitmap.ts";
import { visibleMatches } from "../../query/filter/matching.ts";
import type { ReadTransaction } from "../../storage/store.ts";
import type { ExportMatching, LineExport, VectorExport } from "../contract.ts";
import type { CollectionState } from "./state.ts";

export class Records {
  readonly #state: CollectionState;
  readonly #exports = new Set<{ stop(reason: Error): void }>();
  /** Work in other threads that reads the store. */
  readonly #workAside = new Set<AbortController>();

  constructor(state: CollectionState) {
    this.#state = state;
  }

  /** Stops exports and the work in other threads. */
  stop(reason: Error): void {
    for (const exported of [...this.#exports]) exported.stop(reason);
    for (const work of this.#workAside) work.abort(reason);
  }

  get(id: string, keyFilter: KeyFilter | null = null): reading.StoredVector {
    checkId(id, "vector_id");
    const sees = this.#seenBy(keyFilter);
    return this.#state.readServed((readTxn) => reading.vectorById(readTxn, id, sees));
  }

  has(id: string, keyFilter: KeyFilter | null = null): boolean {
    checkId(id, "vector_id");
    const sees = this.#seenBy(keyFilter);
    return this.#state.readServed((readTxn) => reading.vectorExists(readTxn, id, sees));
  }

  #seenBy(keyFilter: KeyFilter | null): reading.Sees {
    return keyFilter && new Predicate(keyFilter.at(this.#state.isTime()));
  }

  async byDocument(documentId: string, options?: CallOptions): Promise<reading.StoredVector[]> {
    const vectors: reading.StoredVector[] = [];
    await this.eachOfDocument(documentId, (vector) => vectors.push(vector), options);
    return vectors;
  }

  eachOfDocument(
    documentId: string,
    take: (vector: reading.StoredVector) => void,
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
  ): Promise<void> {
    return this.#state.gate.pass(async () => {
      checkId(documentId, "document_id");
      const sees = this.#seenBy(keyFilter);
      const { task, atVersion } = Deadline.of(options);
      const { readTxn, release } = this.#state.served(atVersion);
      try {
        await task.finish(reading.eachOfDocument(readTxn, documentId, take, sees));
      } finally {
        release();
      }
    });
  }

  exportVectors(): VectorExport {
    this.#state.gate.assertOpen();
    // Not the read transaction of a view: a slow reader would keep removed records in the indexes.
    const readTxn = this.#state.newest();
    const release = () => readTxn.release();
    try {
      return this.#export({ readTxn, release }, null);
    } catch (error) {
      release();
      throw error;
    }
  }

  exportMatching(
    request: ExportMatching,
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
  ): Promise<VectorExport> {
    return this.#state.gate.pass(async () => {
      refuseUnknownOptions(request, ["filter"]);
      const { task, atVersion } = Deadline.of(options);
      const filter = await task.finish(readFilter(request.filter));
      const readTxn = atVersion === undefined ? this.#state.newest() : this.#state.served(atVersion).readTxn;
      const release = atVersion === undefined ? () => readTxn.release() : this.#state.exact.hold(atVersion);
      try {
        const ordinalEnd = readHead(readTxn).nextOrdinal;
        const isTime = timesOf(readIndexDefinitions(readTxn));
        const wanted = within(keyFilter, filter && withTimes(filter, isTime), isTime);
        const only = wanted && (await task.finish(visibleMatches({ readTxn, ordinalEnd }, wanted)));
        this.#state.gate.assertOpen();
        return this.#export({ readTxn, release }, only);
      } catch (error) {
        release();
        throw error;
      }
    });
  }

  /** @param state what is exported; the export takes it over */
  #export({ readTxn, release }: HeldState, only: OrdinalBitmap | null): VectorExport {
    const { version, live } = readHead(readTxn);
    return this.export(release, {
      version,
      count: only?.count ?? live,
      lines: only === null ? allVectors(readTxn) : vectorsAt(readTxn, only.toOrdinals()),
    });
  }

  /** @param release of what `lines` read; the export calls it, unless it throws */
  export<Line extends { toJson(): string }>(
    release: () => void,
    source: ExportSource<Line>,
  ): LineExport<Line> {
    const { dependencies, definition } = this.#state;
    const end = dependencies.beginExport(1 / (definition.shard?.of ?? 1));
    const exported = new RunningExport(release, source, () => {
      this.#exports.delete(exported);
      end();
    });
    this.#exports.add(exported);
    return exported;
  }

  /** Whether anybody reads an export, or differences. */
  get isExporting(): boolean {
    return this.#exports.size > 0;
  }

  /** Runs work that reads the store in another thread. Closing the collection aborts the signal, and waits for the work. */
  workAside<T>(work: (directory: string, signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#state.gate.pass(async () => {
      const controller = new AbortController();
      this.#workAside.add(controller);
      try {
        return await work(this.#state.dependencies.directory, controller.signal);
      } finally {
        this.#workAside.delete(controller);
        if (this.#state.isOpen) this.#state.newest().release();
      }
    });
  }

  versions(page?: { limit?: number; before?: number }): VersionList {
    refuseUnknownOptions(page, ["limit", "before"]);
    const nowMs = this.#state.dependencies.clock();
    const listed = this.#state.readServed((readTxn) => listVersions(readTxn, page));
    return { ...listed, ...this.#state.read((readTxn) => readableVersions(readTxn, nowMs)) };
  }

  currentVersion(): Version {
    return this.#state.readServed((readTxn) => currentVersion(readTxn));
  }

  version(hash: string): Version {
    return this.#state.readServed((readTxn) => versionByHash(readTxn, hash));
  }
}

// ---- How does a slow reader export a whole version?
//
// An export holds a snapshot of the store and a cursor between two reads. Both must be released before the store closes (LMDB crashes on
// a cursor that outlives its environment). So a closing collection stops its exports. The reader gets the error and does not take the
// truncated export for a complete one.

type HeldState = { readonly readTxn: ReadTransaction; release(): void };

type ExportSource<Line> = {
  readonly version: number;
  readonly count: number;
  readonly lines: Generator<Line>;
};

class RunningExport<Line extends { toJson(): string }> implements LineExport<Line>, Iterator<Line> {
  readonly version: number;
  readonly count: number;
  readonly #release: () => void;
  readonly #lines: Generator<Line>;
  readonly #onEnd: () => void;
  #stoppedBy: Error | null = null;
  #isOver = false;

  /** Takes ownership of the snapshot. */
  constructor(release: () => void, { version, count, lines }: ExportSource<Line>, onEnd: () => void) {
    this.version = version;
    this.count = count;
    this.#release = release;
    this.#lines = lines;
    this.#onEnd = onEnd;
  }

  [Symbol.iterator](): this {
    return this;
  }

  next(): IteratorResult<Line> {
    if (this.#stoppedBy) throw this.#stoppedBy;
    if (this.#isOver) return { done: true, value: undefined };
    try {
      const result = this.#lines.next();
      if (result.done) this.release();
      return result;
    } catch (error) {
      this.release();
      throw error;
    }
  }

  return(): IteratorResult<Line> {
    this.release();
    return { done: true, value: undefined };
  }

  /** Releases the snapshot and the cursor. Idempotent. */
  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#lines.return(undefined);
    this.#release();
    this.#onEnd();
  }

  /** Stops the export; the next read throws `reason`. */
  stop(reason: Error): void {
    if (this.#isOver) return;
    this.#stoppedBy = reason;
    this.release();
  }
}
