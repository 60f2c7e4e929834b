// What does a collection give to its searches (query/answer.ts)?
//
// Its definitions, its table of beam widths, and views: at the newest version that any client has seen or is acknowledged.

import { type IndexKind, kinds, type Recall } from "@quiver/protocol/shapes/index-definition";
import type * as search from "@quiver/protocol/shapes/search";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import { type IndexDefinitions, IndexDefinitionsReader } from "../../collection/apply.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import { answer, type Searched } from "../../query/answer.ts";
import * as plan from "../../query/plan.ts";
import { BeamTable, beamWidth, measureRecall } from "../../query/recall.ts";
import { requireIndexes } from "../../query/require-indexes.ts";
import type { View } from "../../runtime/view.ts";
import type { Reader } from "../../storage/store.ts";
import type { Collection } from "../contract.ts";
import type { LoadState } from "./load-state.ts";
import type { CollectionState } from "./state.ts";

type Tail<T extends readonly unknown[]> = T extends [unknown, ...infer Rest] ? Rest : never;

export class Searches implements Searched {
  readonly #state: CollectionState;
  readonly #load: LoadState;
  /** Cached for searches. Other callers get freshly read definitions. */
  readonly #indexDefinitions = new IndexDefinitionsReader();
  /** Beam widths by recall, for the current dense index. */
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

  searchDense(request: search.DenseSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#answerOne((definition) => plan.planDense(definition, request), options);
  }

  searchBatchDense(
    request: search.BatchDenseSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#answer((definition) => plan.planBatchDense(definition, request), options, kinds.dense);
  }

  searchSparse(request: search.SparseSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#answerOne((definition) => plan.planSparse(definition, request), options);
  }

  searchBatchSparse(
    request: search.BatchSparseSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#answer((definition) => plan.planBatchSparse(definition, request), options, kinds.sparse);
  }

  searchText(request: search.TextSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#answerOne((definition) => plan.planText(definition, request), options);
  }

  searchBatchText(
    request: search.BatchTextSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#answer((definition) => plan.planBatchText(definition, request), options, kinds.text);
  }

  searchHybrid(request: search.HybridSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#answerOne((definition) => plan.planHybrid(definition, request), options);
  }

  searchBatchHybrid(
    request: search.BatchHybridSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#answer((definition) => plan.planBatchHybrid(definition, request), options);
  }

  #answer(...how: Tail<Parameters<typeof answer>>): Promise<search.SearchResponse[]> {
    return this.#state.gate.pass(() => answer(this, ...how));
  }

  async #answerOne(...how: Tail<Parameters<typeof answer>>): Promise<search.SearchResponse> {
    return (await this.#answer(...how))[0];
  }

  get definition(): CollectionDefinition {
    return this.#state.definition;
  }

  indexDefinitions(reader: Reader): Readonly<IndexDefinitions> {
    return this.#indexDefinitions.read(reader);
  }

  acquireView(needed: readonly IndexKind[], deadline: Deadline): View | Promise<View> {
    // Usually the current view serves. An index of a view is one that the collection has.
    const view = this.#state.indexer?.viewAt(this.#state.seenVersion);
    if (!view?.serves(view.version, needed)) return this.#loadAndAcquire(needed, deadline);
    this.#load.used();
    return view.pin();
  }

  /** Loads the collection if necessary, also when it is unloaded meanwhile. */
  async #loadAndAcquire(needed: readonly IndexKind[], deadline: Deadline): Promise<View> {
    const version = this.#state.seenVersion;
    const requireNeeded = () =>
      this.#state.read((readTxn) => requireIndexes(this.indexDefinitions(readTxn), needed, this.#state.name));
    for (;;) {
      deadline.check();
      requireNeeded();
      const indexer = await deadline.race(this.#load.ensureLoaded());
      // An index that was deleted while the collection was loading never appears in a view.
      requireNeeded();
      try {
        return await indexer.acquireView(version, needed, deadline);
      } catch (error) {
        this.#state.gate.assertOpen();
        if (!indexer.isStopped) throw error;
      }
    }
  }

  measureRecall(
    options: Parameters<Collection["measureRecall"]>[0] = {},
    call?: CallOptions,
  ): Promise<Recall> {
    return this.#state.gate.pass(() => {
      const deadline = Deadline.of(call);
      const request = plan.planRecall(options);
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
    const view = await this.acquireView([kinds.dense], deadline);
    try {
      const beam = { exact: false, efSearch: efSearch ?? null, recallTarget: null };
      const ef = await beamWidth(beam, topK, view, this.indexDefinitions(view.readTxn), this.beams);
      const measured = await measureRecall(view, sample, topK, ef, deadline);
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
