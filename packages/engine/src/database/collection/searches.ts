// What does a collection give to its searches (query/answer.ts)?
//
// Its definitions, its table of beam widths, and views: at the newest version that any client has seen or is acknowledged.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { IndexKind, Recall } from "@quiverdb/protocol/shapes/index-definition";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import { invariant } from "../../base/invariant.ts";
import { turned } from "../../base/scheduler.ts";
import type { Steps } from "../../base/steps.ts";
import {
  type IndexDefinitions,
  IndexDefinitionsReader,
  readIndexDefinitions,
} from "../../collection/apply.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import type { KeyFilter } from "../../collection/key-filter.ts";
import { type IsTime, timesOf, withTimes } from "../../filter/filter.ts";
import { readFilter } from "../../filter/read-filter.ts";
import type { LegBeam } from "../../index/kind.ts";
import type { OrdinalBitmap } from "../../index/ordinal-bitmap.ts";
import { kindWith } from "../../index/registry.ts";
import type { Indexer } from "../../indexing/indexer.ts";
import { answer, type Searched } from "../../query/answer.ts";
import { type FilterLookUp, lookUpIn } from "../../query/filter/look-up.ts";
import { requireIndexes } from "../../query/legs.ts";
import * as plan from "../../query/plan.ts";
import { BeamTable, beamOfLegs, measureRecall } from "../../query/recall.ts";
import type { Reader } from "../../storage/store.ts";
import type { View } from "../../views/view.ts";
import type { Collection } from "../contract.ts";
import { passed } from "./exact-versions.ts";
import type { LoadState } from "./load-state.ts";
import type { CollectionState } from "./state.ts";

/** After a search was rejected because an index lags. */
const retryAfterSeconds = 2;

export class Searches implements Searched<View> {
  readonly #state: CollectionState;
  readonly #load: LoadState;
  /** Cached for searches. Other callers get freshly read definitions. */
  readonly #indexDefinitions = new IndexDefinitionsReader();
  /** Beam widths by recall, for the current index. */
  beams = new BeamTable();
  /** The last measurement of recall that was requested. */
  #recalls: Promise<unknown> = Promise.resolve();

  constructor(state: CollectionState, load: LoadState) {
    this.#state = state;
    this.#load = load;
  }

  /** Forgets measurements: the index is another one. */
  forgetRecall(): void {
    this.beams = new BeamTable();
  }

  async search<K extends plan.SearchKind>(
    kind: K,
    request: plan.SearchRequest<K>,
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
  ): Promise<plan.SearchAnswer<K>> {
    const found = await this.#state.gate.pass(() => answer(this, kind, request, options, keyFilter));
    // A program that searches in a loop; a server's requests come from the event loop, and have accounts.
    if (options === undefined) await turned();
    return found;
  }

  get definition(): CollectionDefinition {
    return this.#state.definition;
  }

  beamOfLegs(beam: plan.Beam, k: number, view: View): LegBeam | Promise<LegBeam> {
    return beamOfLegs(beam, k, view, this.indexDefinitions(view.readTxn), this.beams);
  }

  lookUpIn(view: View): FilterLookUp {
    return lookUpIn(view);
  }

  indexDefinitions(reader: Reader): Readonly<IndexDefinitions> {
    return this.#indexDefinitions.read(reader);
  }

  isTime(): IsTime {
    this.#state.definitions ??= this.#state.read((readTxn) => readIndexDefinitions(readTxn));
    return timesOf(this.#state.definitions);
  }

  /** The records of a view that match the filter of a request, and whether there are none and warnings say why. */
  *matching(view: View, given: unknown): Steps<{ set: OrdinalBitmap; isWarned: boolean }> {
    const read = yield* readFilter(given);
    invariant(read !== null, "the matches of no filter are looked up");
    const filter = withTimes(read, this.isTime());
    const lookUp = this.lookUpIn(view);
    const found = yield* lookUp.matching(filter);
    const isWarned = found.set.count === 0 && (yield* lookUp.warnings(filter, found)).length > 0;
    return { set: found.set, isWarned };
  }

  acquireView(needed: readonly IndexKind[], deadline: Deadline): View | Promise<View> {
    const { atVersion } = deadline;
    if (atVersion !== undefined) return this.#acquireExactly(atVersion, needed, deadline);
    // Usually the current view serves. An index of a view is one that the collection has.
    const view = this.#state.indexer?.viewAt(this.#state.seenVersion);
    if (!view?.serves(view.version, needed)) return this.#loadAndAcquire(needed, deadline);
    this.#load.used();
    return view.pin();
  }

  /** @param version that is in use. @throws passed, if an index that is needed has joined at a later one */
  async #acquireExactly(version: number, needed: readonly IndexKind[], deadline: Deadline): Promise<View> {
    const kept = this.#state.exact.get(version)?.view;
    if (kept?.serves(version, needed)) {
      this.#load.used();
      return kept.pin();
    }
    const view = await this.#loadAndAcquire(needed, deadline);
    if (view.version === version) return view;
    view.unpin();
    throw passed(version, this.#state.exact.boundary);
  }

  /** Loads the collection if necessary, also when it is unloaded meanwhile. @throws not_ready if the indexes lag for too long */
  async #loadAndAcquire(needed: readonly IndexKind[], deadline: Deadline): Promise<View> {
    const version = this.#state.seenVersion;
    const { indexWaitMs } = this.#state.dependencies;
    const patience = deadline.leftMs > indexWaitMs ? deadline.within(indexWaitMs) : deadline;
    const requireNeeded = () =>
      this.#state.read((readTxn) => requireIndexes(this.indexDefinitions(readTxn), needed, this.#state.name));
    for (;;) {
      deadline.check();
      requireNeeded();
      const indexer = await deadline.race(this.#load.ensureLoaded());
      // An index that was deleted while the collection was loading never appears in a view.
      requireNeeded();
      try {
        return await indexer.acquireView(version, needed, patience);
      } catch (error) {
        this.#state.gate.assertOpen();
        if (indexer.isStopped) continue;
        throw patience.isOver && !deadline.isOver ? this.#lagging(indexer, needed) : error;
      }
    }
  }

  /** What a search is told that has waited long enough for the indexes that it needs. */
  #lagging(indexer: Indexer, needed: readonly IndexKind[]): QuiverError {
    const end = this.#state.read((_, head) => head.nextOrdinal);
    const progress = Math.min(...needed.map((kind) => indexer.updater(kind)?.progress(0, end) ?? 0));
    const percent = Math.floor(1_000 * progress) / 10;
    return new QuiverError(
      "not_ready",
      `The ${needed.join(" or ")} index of the collection '${this.#state.name}' does not have all acknowledged records yet: ` +
        `it is at ${percent} %, and the search has waited for ${this.#state.dependencies.indexWaitMs} ms. Search again in a few seconds.`,
      { index_types: [...needed], progress, retry_after_seconds: retryAfterSeconds },
    );
  }

  measureRecall(
    options: Parameters<Collection["measureRecall"]>[0] = {},
    call?: CallOptions,
  ): Promise<Recall> {
    return this.#state.gate.pass(() => {
      const deadline = Deadline.of(call);
      const request = plan.planRecall(this.definition, options);
      // One at a time: each may run thousands of exact searches.
      const measured = this.#recalls.then(() => this.#measureRecall(request, deadline));
      this.#recalls = measured.catch(() => undefined);
      return measured;
    });
  }

  async #measureRecall(
    { sample, topK, efSearch }: ReturnType<typeof plan.planRecall>,
    deadline: Deadline,
  ): Promise<Recall> {
    deadline.check();
    const view = await this.acquireView([kindWith("measuring").name], deadline);
    try {
      const asked = { exact: false, efSearch: efSearch ?? null, recallTarget: null };
      const beam = await this.beamOfLegs(asked, topK, view);
      const measured = await deadline.task.finish(measureRecall(view, sample, topK, beam));
      return {
        recall: measured.recall,
        worst_recall: measured.worst,
        queries: measured.queries,
        top_k: topK,
        ef_search: measured.ef,
        version: view.version,
        search_ms: measured.searchMs,
        exact_ms: measured.exactMs,
      };
    } finally {
      view.unpin();
    }
  }
}
