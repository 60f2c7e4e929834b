// A collection in memory, of the modules that run without Node.js: store, log, indexer and searches in one thread.

import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { Background } from "../../src/base/background.ts";
import type { Deadline } from "../../src/base/deadline.ts";
import { type IndexDefinitions, readIndexDefinitions } from "../../src/collection/apply.ts";
import { type CollectionDefinition, defineCollection } from "../../src/collection/definition.ts";
import { prepareCollection } from "../../src/collection/format.ts";
import { readHead } from "../../src/collection/head.ts";
import { encodeDelete, encodeUpserts } from "../../src/collection/schema.ts";
import { collectionTables, ordinalKey } from "../../src/collection/tables.ts";
import { type IsTime, timesOf } from "../../src/filter/filter.ts";
import { InPlaceBuilders } from "../../src/index/builders.ts";
import type { KindStatus, LegBeam, NewIndex } from "../../src/index/kind.ts";
import { kindNamed } from "../../src/index/registry.ts";
import { IndexUpdater } from "../../src/indexing/index-updater.ts";
import { Indexer } from "../../src/indexing/indexer.ts";
import { LocalSequencer, randomOpId } from "../../src/log/sequencer.ts";
import { answer, type Searched } from "../../src/query/answer.ts";
import { type FilterLookUp, lookUpIn } from "../../src/query/filter/look-up.ts";
import { requireIndexes } from "../../src/query/legs.ts";
import type * as plan from "../../src/query/plan.ts";
import { BeamTable, beamOfLegs } from "../../src/query/recall.ts";
import { MemoryStore } from "../../src/storage/memory.ts";
import type { Reader, ReadTransaction } from "../../src/storage/store.ts";
import type { View } from "../../src/views/view.ts";
import type { SteppedCollection } from "./plain-steps.ts";

export class PlainCollection implements Searched<View>, SteppedCollection {
  readonly definition: CollectionDefinition;
  readonly #beams = new BeamTable();
  readonly #store = new MemoryStore(collectionTables);
  readonly #log: LocalSequencer;
  readonly #indexer: Indexer;
  /** The first failure of background work. */
  failure: unknown;

  constructor(request: Parameters<typeof defineCollection>[0]) {
    this.definition = defineCollection(request);
    prepareCollection(this.#store, 0, this.definition);
    this.#log = new LocalSequencer(this.#store, {
      versionsKept: 10,
      maxVectors: null,
      clock: () => 1_000,
      newOpId: randomOpId,
    });
    const background = new Background({
      onFailed: ({ error }) => {
        this.failure ??= error;
      },
      onRecovered: () => {},
    });
    this.#indexer = new Indexer(this.#store, { onComplete: () => {} }, background);
  }

  async createIndex(index: IndexKind, given: NewIndex): Promise<void> {
    const kind = kindNamed(index);
    const definition = kind.define(this.definition, given);
    this.#write({ kind: "createIndex", index, definition });
    const blueprint = kind.blueprint(this.definition, definition, {
      builders: new InPlaceBuilders(),
      memoryBudgetBytes: undefined,
      readVector: (ordinal) => this.#read((readTxn) => readTxn.get("dense", ordinalKey(ordinal))?.slice()),
      mayTake: () => false,
      onProgress: () => this.#indexer.progressed(),
      wake: () => this.#indexer.wake(),
      onNotice: () => {},
    });
    this.#indexer.add(new IndexUpdater(kind, () => blueprint.make()));
  }

  async upsert(vectors: Parameters<SteppedCollection["upsert"]>[0]): Promise<void> {
    this.#write({ kind: "upsert", batch: encodeUpserts(this.definition, vectors, "vectors") });
  }

  async delete(id: string): Promise<void> {
    this.#write({ kind: "delete", batch: encodeDelete(id) });
  }

  /** Writes one request as an entry of its own. */
  #write(request: Parameters<LocalSequencer["write"]>[0][number]): void {
    for (const outcomes of this.#log.write([request]))
      for (const outcome of outcomes) if (!outcome.ok) throw outcome.error;
    this.#indexer.wake();
  }

  search<K extends plan.SearchKind>(kind: K, request: plan.SearchRequest<K>): Promise<plan.SearchAnswer<K>> {
    return answer(this, kind, request, {});
  }

  lookUpIn(view: View): FilterLookUp {
    return lookUpIn(view);
  }

  beamOfLegs(beam: plan.Beam, k: number, view: View): LegBeam | Promise<LegBeam> {
    return beamOfLegs(beam, k, view, this.indexDefinitions(view.readTxn), this.#beams);
  }

  indexDefinitions(reader: Reader): Readonly<IndexDefinitions> {
    return readIndexDefinitions(reader);
  }

  isTime(): IsTime {
    return timesOf(this.#read((readTxn) => readIndexDefinitions(readTxn)));
  }

  async acquireView(needed: readonly IndexKind[], deadline: Deadline): Promise<View> {
    this.#read((readTxn) => requireIndexes(readIndexDefinitions(readTxn), needed, this.definition.name));
    return this.#indexer.acquireView(
      this.#read((readTxn) => readHead(readTxn).version),
      needed,
      deadline,
    );
  }

  async built(): Promise<void> {
    const { nextOrdinal } = this.#read((readTxn) => readHead(readTxn));
    while (this.#indexer.progress(0, nextOrdinal) < 1) await new Promise<void>((done) => setTimeout(done, 5));
  }

  status(kind: IndexKind): KindStatus | undefined {
    return this.#indexer.updater(kind)?.status;
  }

  /** The hash of the current version. */
  get hash(): Uint8Array {
    return this.#read((readTxn) => readHead(readTxn).hash);
  }

  #read<T>(read: (readTxn: ReadTransaction) => T): T {
    const readTxn = this.#store.beginRead();
    try {
      return read(readTxn);
    } finally {
      readTxn.release();
    }
  }
}
