// What exactly does a search request ask for?
//
// Requests are checked completely here, before a view is pinned: dimensions, ranges and forms, each error with its position. The result is
// a plan: one or more legs for each query, and how to fuse and return the results. Requests that can be large are planned in steps.

import { checkFields, refuseUnknownOptions } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import { type Includable, includable } from "@quiverdb/protocol/shapes/include";
import { type IndexKind, kinds } from "@quiverdb/protocol/shapes/index-definition";
import * as search from "@quiverdb/protocol/shapes/search";
import { Deadline } from "../base/deadline.ts";
import type { Steps } from "../base/steps.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import { both, type Filter } from "../filter/filter.ts";
import { readFilter } from "../filter/read-filter.ts";
import type { Leg } from "../index/kind.ts";
import { type Field, fieldNamed } from "../metadata/field.ts";
import { candidatesFor, diverseMax } from "./diversity.ts";
import {
  denseLeg,
  type Examples,
  eachExample,
  eachQuery,
  hybridLegs,
  invalid,
  queriesPerStep,
  sparseLeg,
  syntaxOf,
  textLeg,
} from "./query-legs.ts";

/** How thoroughly a dense leg is searched; the first that is given counts. */
export type Beam = {
  /** By reading every vector. */
  exact: boolean;
  /** With a beam of this length. */
  efSearch: number | null;
  /** Use the beam width that reached this recall in measurements, in (0, 1]. */
  recallTarget: number | null;
};

export type Fusion = {
  /** k of reciprocal rank fusion, greater than 0. */
  constant: number;
  /** How much each kind of leg counts, 0 or more. */
  weights: Readonly<Record<IndexKind, number>>;
};

export type Plan = {
  /** The legs of each query, in order. One without legs has the examples of the plan instead. */
  queries: Leg[][];
  examples?: Examples;
  topK: number;
  /** What of the ranked results is returned. */
  selection: Selection;
  returnRawText: boolean;
  /** Fields that each result has in addition. */
  include: readonly Includable[];
  /** Whether each result is explained. */
  explain: boolean;
  /** Whether the way of the dense leg through the graph is told; absent: no. */
  walk?: boolean;
  /** How dense legs are searched. */
  beam: Beam;
  /** Which records each query may find at all, in the order of the queries; null: every one. */
  filters: readonly (Filter | null)[];
  /** The records that exist for the caller; absent: all. Each query's filter contains it. */
  keyFilter?: Filter;
  /** How legs are fused; null for a search with one leg. */
  fusion: Fusion | null;
  /** The deadline of the request, checked between queries, legs and slices. */
  deadline: Deadline;
};

/**
 * Of the ranked results come those that are not excluded, with this score or a better one, of each group so many, the most diverse of
 * them, without so many of the first.
 */
export type Selection = {
  /** Ordinals that are no results. */
  readonly excluded: ReadonlySet<number>;
  /** Minus infinity: all. */
  scoreMin: number;
  offset: number;
  group: { readonly field: Field; readonly size: number } | null;
  /** How much results differ (diversity.ts), greater than 0, and from how many candidates they are chosen; null: by score alone. */
  diversity: { readonly share: number; readonly candidates: number } | null;
};

/** Kinds of index that a plan needs. */
export function kindsOf(plan: Plan): IndexKind[] {
  const needed = new Set<IndexKind>();
  for (const legs of plan.queries) for (const leg of legs) needed.add(leg.kind);
  return [...needed];
}

/** @throws invalid_request if the response would have more results than one request may ask for */
export function checkSize({ queries, topK, selection }: Plan): void {
  const results = queries.length * (selection.offset + topK);
  if (results > limits.resultsPerRequestMax)
    throw invalid(
      "top_k",
      `is ${topK} for each of ${queries.length} queries, ${results} results; expected ${limits.resultsPerRequestMax} in all at most. Send fewer queries at a time.`,
    );
}

type Common = {
  top_k?: number | null;
  return_raw_text?: boolean | null;
  explain?: boolean | null;
  include?: readonly Includable[] | null;
  score_threshold?: number | null;
  offset?: number | null;
  group_by?: string | null;
  group_size?: number | null;
};
type Tuning = { ef_search?: number | null; exact?: boolean | null; recall_target?: number | null };

const untuned: Beam = { exact: false, efSearch: null, recallTarget: null };

function integerIn(value: number | null | undefined, path: string, from: number, to: number): void {
  if (value === null || value === undefined) return;
  if (!Number.isInteger(value) || value < from || value > to)
    throw invalid(path, `is ${value}; expected an integer from ${from} to ${to}.`);
}

type CommonPlan = Pick<Plan, "topK" | "selection" | "include" | "returnRawText" | "explain" | "deadline">;

function common(request: Common): CommonPlan {
  integerIn(request.top_k, "top_k", 1, limits.topKMax);
  checkInclude(request.include);
  return {
    topK: request.top_k ?? limits.topKDefault,
    selection: selectionOf(request),
    include: request.include ?? [],
    returnRawText: request.return_raw_text ?? false,
    explain: request.explain ?? false,
    deadline: Deadline.none,
  };
}

function selectionOf({ top_k, score_threshold, offset, group_by, group_size }: Common): Selection {
  integerIn(offset, "offset", 0, limits.topKMax);
  integerIn(group_size, "group_size", 1, limits.groupSizeMax);
  if (group_size != null && group_by == null)
    throw invalid(
      "group_size",
      'is given without group_by. Add what results are grouped by, such as group_by: "document_id", or leave it out.',
    );
  const last = (offset ?? 0) + (top_k ?? limits.topKDefault);
  if (last > limits.topKMax)
    throw invalid("offset", `and top_k are ${last} together; expected ${limits.topKMax} at most.`);
  if (typeof score_threshold === "number" ? Number.isNaN(score_threshold) : score_threshold != null)
    throw invalid("score_threshold", "must be a number.");
  return {
    scoreMin: score_threshold ?? Number.NEGATIVE_INFINITY,
    offset: offset ?? 0,
    excluded: new Set(),
    diversity: null,
    group: group_by == null ? null : { field: groupField(group_by), size: group_size ?? 1 },
  };
}

function groupField(name: unknown): Field {
  const field =
    typeof name === "string" && name.length <= limits.filterFieldLengthMax ? fieldNamed(name) : null;
  if (field !== null) return field;
  throw invalid("group_by", "must be the name of a field, such as `document_id` or `color`.");
}

/** @throws invalid_request */
export function checkInclude(include: readonly Includable[] | null | undefined): void {
  if (include === null || include === undefined) return;
  if (!Array.isArray(include)) throw invalid("include", `must be an array of ${includable.join(", ")}.`);
  for (const [i, field] of include.entries())
    if (!includable.includes(field))
      throw invalid(`include[${i}]`, `is not known; expected one of ${includable.join(", ")}.`);
}

function beamOf({ ef_search, exact, recall_target }: Tuning): Beam {
  integerIn(ef_search, "ef_search", 1, limits.efMax);
  if (recall_target != null && !(recall_target > 0 && recall_target <= 1))
    throw invalid("recall_target", `is ${recall_target}; expected a number greater than 0, at most 1.`);
  return { exact: exact ?? false, efSearch: ef_search ?? null, recallTarget: recall_target ?? null };
}

/** The common part of the plan of a dense search. */
function commonDense(
  definition: CollectionDefinition,
  request: Common & { diversity?: number | null },
): CommonPlan {
  const plan = common(request);
  const share = request.diversity ?? 0;
  if (!(share >= 0 && share <= 1)) throw invalid("diversity", `is ${share}; expected a number from 0 to 1.`);
  if (share === 0) return plan;
  const results = plan.selection.offset + plan.topK;
  const dimension = definition.dimension ?? 1;
  const most = diverseMax(dimension);
  if (results > most)
    throw invalid(
      "top_k",
      `and offset are ${results} together; with diversity at most ${most} in this collection.`,
    );
  const diversity = { share, candidates: candidatesFor(results, dimension) };
  return { ...plan, selection: { ...plan.selection, diversity } };
}

function thresholdOf(value: number | null | undefined, path: string): number {
  const threshold = value ?? 0;
  if (!(threshold >= 0 && threshold <= 1))
    throw invalid(path, `is ${threshold}; expected a number from 0 to 1.`);
  return threshold;
}

/** A request, or a query of a batch, with a filter. */
type Filtered = { filter?: unknown };

/** The plan of one query with its filter, which is read in steps; at once if there is none. */
function withFilter({ filter }: Filtered, plan: Plan): Plan | Steps<Plan> {
  return filter === null || filter === undefined ? plan : readPlanFilter(plan, filter);
}

function* readPlanFilter(plan: Plan, filter: unknown): Steps<Plan> {
  return { ...plan, filters: [yield* readFilter(filter)] };
}

/** The filters of a batch: of each query its own and that of the request. */
function* batchFilters(
  { filter }: Filtered,
  queries: readonly unknown[],
  path: string,
): Steps<(Filter | null)[]> {
  const ofAll = yield* readFilter(filter);
  const filters: (Filter | null)[] = [];
  for (const [i, query] of queries.entries()) {
    // An array has a method of this name.
    const own = Array.isArray(query) ? null : (query as Filtered | null)?.filter;
    filters.push(both(ofAll, yield* readFilter(own, `${path}[${i}].filter`)));
    if (i % queriesPerStep === queriesPerStep - 1) yield;
  }
  return filters;
}

function planDense(definition: CollectionDefinition, request: search.DenseSearch): Plan | Steps<Plan> {
  checkFields(search.DenseSearch, request);
  const beam = beamOf(request);
  const leg = denseLeg(definition, request.query_vector, "query_vector");
  const rest = commonDense(definition, request);
  const walk = request.walk ?? false;
  return withFilter(request, { queries: [[leg]], filters: [], ...rest, walk, beam, fusion: null });
}

function planNeighbors(
  definition: CollectionDefinition,
  { vector_id, ...request }: NeighborsOfRecord,
): Steps<Plan> {
  checkFields(search.Neighbors, request);
  return planExamples(definition, { ...request, positive: [vector_id] }, "vector_id");
}

function planRecommend(definition: CollectionDefinition, request: search.Recommend): Steps<Plan> {
  checkFields(search.Recommend, request);
  return planExamples(definition, request);
}

/** @param path of an id, for messages; default: that of the example */
function* planExamples(
  definition: CollectionDefinition,
  request: search.Recommend,
  path?: string,
): Steps<Plan> {
  const beam = beamOf(request);
  const strategy = request.strategy ?? "average_vector";
  if (!search.strategies.includes(strategy))
    throw invalid("strategy", `is not known; expected ${search.strategies.join(" or ")}.`);
  const positive = yield* eachExample(definition, request.positive, "positive", path);
  if (positive.length === 0)
    throw invalid("positive", "is empty; expected at least one id or vector that results should be like.");
  const negative = yield* eachExample(definition, request.negative ?? [], "negative", path);
  const filters = [yield* readFilter(request.filter)];
  const rest = commonDense(definition, request);
  const walk = request.walk ?? false;
  return { queries: [[]], examples: { positive, negative }, filters, ...rest, walk, beam, fusion: null };
}

/** Validates a request to measure recall. */
export function planRecall(request: {
  sample?: number | null;
  top_k?: number | null;
  ef_search?: number | null;
}): { sample: number; topK: number; efSearch: number | undefined } {
  refuseUnknownOptions(request, ["sample", "top_k", "ef_search"]);
  integerIn(request.sample, "sample", 1, limits.recallSampleMax);
  integerIn(request.ef_search, "ef_search", 1, limits.efMax);
  const { topK } = common({ top_k: request.top_k ?? null });
  return {
    sample: request.sample ?? limits.recallSampleDefault,
    topK,
    efSearch: request.ef_search ?? undefined,
  };
}

function* planBatchDense(definition: CollectionDefinition, request: search.BatchDenseSearch): Steps<Plan> {
  checkFields(search.BatchDenseSearch, request);
  const beam = beamOf(request);
  const queries = yield* eachQuery(request.queries, "queries", (query, path) => [
    denseLeg(definition, query?.vector, `${path}.vector`),
  ]);
  const filters = yield* batchFilters(request, request.queries, "queries");
  return { queries, filters, ...commonDense(definition, request), beam, fusion: null };
}

function planSparse(definition: CollectionDefinition, request: search.SparseSearch): Plan | Steps<Plan> {
  checkFields(search.SparseSearch, request);
  const threshold = thresholdOf(request.early_terminate_threshold, "early_terminate_threshold");
  const leg = sparseLeg(definition, request.query_terms, threshold, "query_terms");
  return withFilter(request, {
    queries: [[leg]],
    filters: [],
    ...common(request),
    beam: untuned,
    fusion: null,
  });
}

function* planBatchSparse(definition: CollectionDefinition, request: search.BatchSparseSearch): Steps<Plan> {
  checkFields(search.BatchSparseSearch, request);
  const threshold = thresholdOf(request.early_terminate_threshold, "early_terminate_threshold");
  const queries = yield* eachQuery(request.query_terms_list, "query_terms_list", (query, path) => [
    Array.isArray(query)
      ? sparseLeg(definition, query, threshold, path)
      : sparseLeg(definition, query?.query_terms, threshold, `${path}.query_terms`),
  ]);
  const filters = yield* batchFilters(request, request.query_terms_list, "query_terms_list");
  return { queries, filters, ...common(request), beam: untuned, fusion: null };
}

function* planText(definition: CollectionDefinition, request: search.TextSearch): Steps<Plan> {
  checkFields(search.TextSearch, request);
  const text = request.query ?? request.query_text;
  if (text === null || text === undefined)
    throw invalid("query", "is missing; expected the text to search for, a string.");
  const leg = yield* textLeg(definition, text, syntaxOf(request), "query");
  const filters = [yield* readFilter(request.filter)];
  return { queries: [[leg]], filters, ...common(request), beam: untuned, fusion: null };
}

function* planBatchText(definition: CollectionDefinition, request: search.BatchTextSearch): Steps<Plan> {
  checkFields(search.BatchTextSearch, request);
  const syntax = syntaxOf(request);
  const queries = yield* eachQuery(request.queries, "queries", function* (query, path) {
    const leg =
      typeof query === "object" && query !== null
        ? textLeg(definition, query.query, syntax, `${path}.query`)
        : textLeg(definition, query, syntax, path);
    return [yield* leg];
  });
  const filters = yield* batchFilters(request, request.queries, "queries");
  return { queries, filters, ...common(request), beam: untuned, fusion: null };
}

type FusionOptions = Pick<search.HybridSearch, "fusion_constant_k" | "fusion_weights">;

function fusionOf({ fusion_constant_k, fusion_weights }: FusionOptions): Fusion {
  const constant = fusion_constant_k ?? limits.fusionConstantDefault;
  if (!(constant > 0) || !Number.isFinite(constant))
    throw invalid("fusion_constant_k", `is ${constant}; expected a finite number greater than 0.`);
  const weight = (name: "dense" | "sparse" | "text") => {
    const value = fusion_weights?.[name] ?? 1;
    if (!(value >= 0) || !Number.isFinite(value))
      throw invalid(`fusion_weights.${name}`, `is ${value}; expected a finite number, 0 or greater.`);
    return value;
  };
  return {
    constant,
    weights: {
      [kinds.dense]: weight("dense"),
      [kinds.sparse]: weight("sparse"),
      [kinds.text]: weight("text"),
    },
  };
}

function hybridOptions(request: Pick<search.HybridSearch, "sparse_early_terminate_threshold" | "syntax">): {
  threshold: number;
  syntax: search.TextSyntax;
} {
  const path = "sparse_early_terminate_threshold";
  return { threshold: thresholdOf(request[path], path), syntax: syntaxOf(request) };
}

export function* planHybrid(definition: CollectionDefinition, request: search.HybridSearch): Steps<Plan> {
  checkFields(search.HybridSearch, request);
  const beam = beamOf(request);
  const options = hybridOptions(request);
  const legs = yield* hybridLegs(definition, request, options, (name) => name);
  const filters = [yield* readFilter(request.filter)];
  return { queries: [legs], filters, ...common(request), beam, fusion: fusionOf(request) };
}

function* planBatchHybrid(definition: CollectionDefinition, request: search.BatchHybridSearch): Steps<Plan> {
  checkFields(search.BatchHybridSearch, request);
  const beam = beamOf(request);
  const options = hybridOptions(request);
  const queries = yield* eachQuery(request.queries, "queries", (query, path) =>
    hybridLegs(definition, query ?? {}, options, (name) => `${path}.${name}`),
  );
  const filters = yield* batchFilters(request, request.queries, "queries");
  return { queries, filters, ...common(request), beam, fusion: fusionOf(request) };
}

export type NeighborsOfRecord = search.Neighbors & { readonly vector_id: string };

type Requests = {
  dense: search.DenseSearch;
  batchDense: search.BatchDenseSearch;
  sparse: search.SparseSearch;
  batchSparse: search.BatchSparseSearch;
  text: search.TextSearch;
  batchText: search.BatchTextSearch;
  hybrid: search.HybridSearch;
  batchHybrid: search.BatchHybridSearch;
  /** Records that are like the positive examples and unlike the negative ones; the examples themselves are not among them. */
  recommend: search.Recommend;
  /** The records whose dense vectors are nearest to that of a record, without itself. */
  neighbors: NeighborsOfRecord;
};

/** Ways to search a collection. */
export type SearchKind = keyof Requests;
export type SearchRequest<K extends SearchKind> = Requests[K];
export type SearchAnswer<K extends SearchKind> = K extends `batch${string}`
  ? search.BatchSearchResponse
  : search.SearchResponse;

export type Planner<Request> = {
  /** Checks the request; in steps where that may take long. */
  plan(definition: CollectionDefinition, request: Request): Plan | Steps<Plan>;
  /** Has many queries. */
  readonly isBatch?: true;
  /** The index that is required even without a query. */
  readonly index?: IndexKind;
};

/** How each kind of search is planned. */
export const planners: { readonly [K in SearchKind]: Planner<Requests[K]> } = {
  dense: { plan: planDense },
  batchDense: { plan: planBatchDense, isBatch: true, index: kinds.dense },
  sparse: { plan: planSparse },
  batchSparse: { plan: planBatchSparse, isBatch: true, index: kinds.sparse },
  text: { plan: planText },
  batchText: { plan: planBatchText, isBatch: true, index: kinds.text },
  hybrid: { plan: planHybrid },
  batchHybrid: { plan: planBatchHybrid, isBatch: true },
  recommend: { plan: planRecommend, index: kinds.dense },
  neighbors: { plan: planNeighbors, index: kinds.dense },
};

/** The answer to a request from the answers to its queries. */
export const answerOf = <K extends SearchKind>(kind: K, answers: search.SearchResponse[]): SearchAnswer<K> =>
  (planners[kind].isBatch ? answers : answers[0]) as SearchAnswer<K>;
