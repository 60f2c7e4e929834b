// How does a request to search become a plan on one view?
//
// The plan is made and checked first. Then the search acquires a view that has all required indexes, at the newest version that any client
// has seen or is acknowledged. The whole request runs on this view.

import { type IndexKind, kinds, type Recall } from "@quiver/protocol/shapes/index-definition";
import type * as search from "@quiver/protocol/shapes/search";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import type { Steps } from "../../base/steps.ts";
import { IndexDefinitionsReader } from "../../collection/apply.ts";
import * as plan from "../../query/plan.ts";
import { BeamTable, measureRecall } from "../../query/recall.ts";
import { legDepth, runPlan } from "../../query/search.ts";
import type { View } from "../../runtime/view.ts";
import type { Collection } from "../contract.ts";
import type { LoadState } from "./load-state.ts";
import { requireIndexes } from "./require-indexes.ts";
import type { CollectionState } from "./state.ts";

export class Searches {
  readonly #state: CollectionState;
  readonly #load: LoadState;
  /** Cached for searches. Other callers get freshly read definitions. */
  readonly #indexDefinitions = new IndexDefinitionsReader();
  /** Beam widths by recall, for the current dense index. */
  #beams = new BeamTable();
  /** The last measurement of recall that was requested. */
  #recalls: Promise<unknown> = Promise.resolve();

  constructor(state: CollectionState, load: LoadState) {
    this.#state = state;
    this.#load = load;
  }

  /** Forgets measurements: the index is another one. */
  forgetRecall(): void {
    this.#beams = new BeamTable();
  }

  searchDense(request: search.DenseSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planDense(this.#state.definition, request), options);
  }

  searchBatchDense(
    request: search.BatchDenseSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchDense(this.#state.definition, request), options, kinds.dense);
  }

  searchSparse(request: search.SparseSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planSparse(this.#state.definition, request), options);
  }

  searchBatchSparse(
    request: search.BatchSparseSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchSparse(this.#state.definition, request), options, kinds.sparse);
  }

  searchText(request: search.TextSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planText(this.#state.definition, request), options);
  }

  searchBatchText(
    request: search.BatchTextSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchText(this.#state.definition, request), options, kinds.text);
  }

  searchHybrid(request: search.HybridSearch, options?: CallOptions): Promise<search.SearchResponse> {
    return this.#searchOne(() => plan.planHybrid(this.#state.definition, request), options);
  }

  searchBatchHybrid(
    request: search.BatchHybridSearch,
    options?: CallOptions,
  ): Promise<search.BatchSearchResponse> {
    return this.#search(() => plan.planBatchHybrid(this.#state.definition, request), options);
  }

  async #searchOne(
    makePlan: () => plan.Plan | Steps<plan.Plan>,
    options: CallOptions | undefined,
  ): Promise<search.SearchResponse> {
    return (await this.#search(makePlan, options))[0];
  }

  /** @param kind of index that the endpoint requires, even for an empty batch */
  #search(
    makePlan: () => plan.Plan | Steps<plan.Plan>,
    options: CallOptions | undefined,
    kind?: IndexKind,
  ): Promise<search.SearchResponse[]> {
    return this.#state.gate.pass(async () => {
      const deadline = Deadline.of(options);
      const made = makePlan();
      const planned = { ...("queries" in made ? made : await deadline.task.finish(made)), deadline };
      plan.checkSize(planned);
      const needed = plan.kindsOf(planned);
      if (kind && needed.length === 0) needed.push(kind);
      const view =
        this.#servingView(needed) ?? (await this.#viewAt(this.#state.toldVersion, needed, deadline));
      try {
        const beam = needed.includes(kinds.dense)
          ? this.#beamOf(planned.beam, legDepth(planned), view)
          : undefined;
        return await runPlan(view, planned, beam instanceof Promise ? await deadline.race(beam) : beam);
      } finally {
        view.unpin();
      }
    });
  }

  /** The current view, pinned, where it serves the search: an index of a view is one that the collection has. Usually it does. */
  #servingView(needed: readonly IndexKind[]): View | null {
    const view = this.#state.indexer?.viewAt(this.#state.toldVersion) ?? null;
    if (view === null || !needed.every((kind) => view.has(kind))) return null;
    this.#load.used();
    return view.pin();
  }

  /**
   * A pinned view at `version` or later. Loads the collection if necessary, also when it is unloaded meanwhile.
   * @throws index_not_found for an index that is deleted meanwhile
   */
  async #viewAt(version: number, needed: readonly IndexKind[], deadline: Deadline): Promise<View> {
    const requireNeeded = () =>
      this.#state.read((snapshot) =>
        requireIndexes(this.#indexDefinitions.read(snapshot), needed, this.#state.name),
      );
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

  /** The beam width of dense legs; undefined for the default of the index. */
  #beamOf(
    { exact, efSearch, recallTarget }: plan.Beam,
    k: number,
    view: View,
  ): number | undefined | Promise<number | undefined> {
    if (exact || efSearch !== null) return efSearch ?? undefined;
    const ofIndex = this.#indexDefinitions.read(view.snapshot).dense?.index.properties.recall_target;
    const target = recallTarget ?? ofIndex ?? null;
    if (target === null) return undefined;
    return this.#beams.efFor(target, k, view, () => view.pin());
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
    const view = await this.#viewAt(this.#state.toldVersion, [kinds.dense], deadline);
    try {
      const beam = { exact: false, efSearch: efSearch ?? null, recallTarget: null };
      const ef = await this.#beamOf(beam, topK, view);
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
