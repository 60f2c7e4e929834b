// What exactly does a search request ask for?
//
// Requests are checked completely here, before a view is pinned: dimensions, ranges and forms, each error with its position. The result is
// a plan: one or more legs for each query, and how to fuse and return the results. Requests that can be large are planned in steps.

import { QuiverError } from "@quiverdb/protocol/errors";
import { checkFields, refuseUnknownOptions } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import { type Includable, includable } from "@quiverdb/protocol/shapes/include";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { SearchRequests } from "@quiverdb/protocol/shapes/search";
import * as search from "@quiverdb/protocol/shapes/search";
import type { TSchema } from "typebox";
import { Deadline } from "../base/deadline.ts";
import { invariant } from "../base/invariant.ts";
import type { Steps } from "../base/steps.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import { both, type Filter } from "../filter/filter.ts";
import { readFilter } from "../filter/read-filter.ts";
import { invalid } from "../index/definition-checks.ts";
import type { Leg } from "../index/kind.ts";
import { kindSearchedBy, kindsWith, kindWith, type SearchedKind } from "../index/registry.ts";
import { type Field, fieldNamed } from "../metadata/field.ts";
import { candidatesFor, diverseMax } from "./diversity.ts";
import {
  type Examples,
  eachExample,
  eachQuery,
  hybridLegs,
  hybridParts,
  queriesPerStep,
} from "./query-legs.ts";

/** How thoroughly vectors are searched; the first that is given counts. */
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
  /** How much each kind of leg counts, by its name, 0 or more. */
  weights: Readonly<Record<string, number>>;
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
  /** The index that it needs also without a leg; absent: none. */
  index?: IndexKind;
  /** Whether the way of a leg through a graph is told; absent: no. */
  walk?: boolean;
  /** How legs with vectors are searched. */
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
export function kindsOf({ queries, index }: Plan): IndexKind[] {
  const needed = new Set<IndexKind>();
  for (const legs of queries) for (const leg of legs) needed.add(leg.kind);
  if (needed.size === 0 && index !== undefined) needed.add(index);
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

/** The options that searches share, as far as their shapes have them, which are checked before. */
type Common = {
  diversity?: number | null;
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
type Walked = { walk?: boolean | null };
/** A request, or a query of a batch, with a filter. */
type Filtered = { filter?: unknown };
type Request = Common & Tuning & Walked & Filtered;

const untuned: Beam = { exact: false, efSearch: null, recallTarget: null };

function integerIn(value: number | null | undefined, path: string, from: number, to: number): void {
  if (value === null || value === undefined) return;
  if (!Number.isInteger(value) || value < from || value > to)
    throw invalid(path, `is ${value}; expected an integer from ${from} to ${to}.`);
}

type CommonPlan = Pick<Plan, "topK" | "selection" | "include" | "returnRawText" | "explain" | "deadline">;

function common(definition: CollectionDefinition, request: Common): CommonPlan {
  integerIn(request.top_k, "top_k", 1, limits.topKMax);
  checkInclude(request.include);
  return {
    topK: request.top_k ?? limits.topKDefault,
    selection: selectionOf(definition, request),
    include: request.include ?? [],
    returnRawText: request.return_raw_text ?? false,
    explain: request.explain ?? false,
    deadline: Deadline.none,
  };
}

function selectionOf(
  definition: CollectionDefinition,
  { top_k, score_threshold, offset, group_by, group_size, diversity }: Common,
): Selection {
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
    group: group_by == null ? null : { field: groupField(group_by), size: group_size ?? 1 },
    diversity: diversityOf(definition, diversity, last),
  };
}

function groupField(name: unknown): Field {
  const field =
    typeof name === "string" && name.length <= limits.filterFieldLengthMax ? fieldNamed(name) : null;
  if (field !== null) return field;
  throw invalid("group_by", "must be the name of a field, such as `document_id` or `color`.");
}

/** @throws forbidden: numbers of versions tell a caller that sees only some records of the writes of others */
export function requireNoVersion(include: readonly Includable[] | null | undefined): void {
  if (!include?.includes("version")) return;
  throw new QuiverError(
    "forbidden",
    "A key with a filter cannot read versions. Leave `version` out of include.",
    { path: "include" },
  );
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
  if (exact == null && ef_search == null && recall_target == null) return untuned;
  return { exact: exact ?? false, efSearch: ef_search ?? null, recallTarget: recall_target ?? null };
}

/** @param results that are returned and left out */
function diversityOf(
  { dimension }: CollectionDefinition,
  diversity: number | null | undefined,
  results: number,
): Selection["diversity"] {
  const share = diversity ?? 0;
  if (!(share >= 0 && share <= 1)) throw invalid("diversity", `is ${share}; expected a number from 0 to 1.`);
  if (share === 0) return null;
  const most = diverseMax(dimension ?? 1);
  if (results > most)
    throw invalid(
      "top_k",
      `and offset are ${results} together; with diversity at most ${most} in this collection.`,
    );
  return { share, candidates: candidatesFor(results, dimension ?? 1) };
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

/** A search for one thing, of one kind of index; at once, if nothing of it takes long. */
function planSingle(
  { searching }: SearchedKind,
  definition: CollectionDefinition,
  request: Request,
): Plan | Steps<Plan> {
  const beam = beamOf(request);
  const leg = searching.single.leg(definition, request, searching.options?.(request));
  if (!("kind" in leg)) return planSteps(leg, definition, request, beam);
  const rest = common(definition, request);
  const walk = request.walk ?? false;
  const plan: Plan = { queries: [[leg]], filters: [], ...rest, walk, beam, fusion: null };
  return request.filter == null ? plan : withFilter(plan, request.filter);
}

function* withFilter(plan: Plan, filter: unknown): Steps<Plan> {
  return { ...plan, filters: [yield* readFilter(filter)] };
}

function* planSteps(
  making: Steps<Leg>,
  definition: CollectionDefinition,
  request: Request,
  beam: Beam,
): Steps<Plan> {
  const leg = yield* making;
  const filters = [yield* readFilter(request.filter)];
  const walk = request.walk ?? false;
  return { queries: [[leg]], filters, ...common(definition, request), walk, beam, fusion: null };
}

function* alone(making: Steps<Leg>): Steps<Leg[]> {
  return [yield* making];
}

/** The same for many things. */
function* planBatch(
  { name, searching: { batch, options: optionsOf } }: SearchedKind,
  definition: CollectionDefinition,
  request: Request,
): Steps<Plan> {
  invariant(batch !== undefined, `there is no batch of searches of the ${name} index`);
  const beam = beamOf(request);
  const options = optionsOf?.(request);
  const given = (request as Readonly<Record<string, readonly unknown[]>>)[batch.queries];
  const queries = yield* eachQuery(given, batch.queries, (query, path) => {
    const leg = batch.leg(definition, query, path, options);
    return "kind" in leg ? [leg] : alone(leg);
  });
  const filters = yield* batchFilters(request, given, batch.queries);
  return { queries, filters, index: name, ...common(definition, request), beam, fusion: null };
}

function planNeighbors(
  definition: CollectionDefinition,
  { vector_id, ...request }: SearchRequests["neighbors"],
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
  const rest = common(definition, request);
  const walk = request.walk ?? false;
  const examples = { positive, negative };
  const index = kindWith("vectors").name;
  return { queries: [[]], examples, index, filters, ...rest, walk, beam, fusion: null };
}

/** Validates a request to measure recall. */
export function planRecall(
  definition: CollectionDefinition,
  request: { sample?: number | null; top_k?: number | null; ef_search?: number | null },
): { sample: number; topK: number; efSearch: number | undefined } {
  refuseUnknownOptions(request, ["sample", "top_k", "ef_search"]);
  integerIn(request.sample, "sample", 1, limits.recallSampleMax);
  integerIn(request.ef_search, "ef_search", 1, limits.efMax);
  const { topK } = common(definition, { top_k: request.top_k ?? null });
  return {
    sample: request.sample ?? limits.recallSampleDefault,
    topK,
    efSearch: request.ef_search ?? undefined,
  };
}

type FusionOptions = Pick<search.HybridSearch, "fusion_constant_k" | "fusion_weights">;

function fusionOf({ fusion_constant_k, fusion_weights }: FusionOptions): Fusion {
  const constant = fusion_constant_k ?? limits.fusionConstantDefault;
  if (!(constant > 0) || !Number.isFinite(constant))
    throw invalid("fusion_constant_k", `is ${constant}; expected a finite number greater than 0.`);
  const given = fusion_weights as Readonly<Record<string, number | null>> | null | undefined;
  const weights: Record<string, number> = {};
  for (const { name, searching } of kindsWith("searching")) {
    if (searching.hybrid === undefined) continue;
    const { weight } = searching.hybrid;
    const value = given?.[weight] ?? 1;
    if (!(value >= 0) || !Number.isFinite(value))
      throw invalid(`fusion_weights.${weight}`, `is ${value}; expected a finite number, 0 or greater.`);
    weights[name] = value;
  }
  return { constant, weights };
}

export function* planHybrid(definition: CollectionDefinition, request: search.HybridSearch): Steps<Plan> {
  checkFields(search.HybridSearch, request);
  const beam = beamOf(request);
  const legs = yield* hybridLegs(definition, request, hybridParts(request), (name) => name);
  const filters = [yield* readFilter(request.filter)];
  return { queries: [legs], filters, ...common(definition, request), beam, fusion: fusionOf(request) };
}

function* planBatchHybrid(definition: CollectionDefinition, request: search.BatchHybridSearch): Steps<Plan> {
  checkFields(search.BatchHybridSearch, request);
  const beam = beamOf(request);
  const parts = hybridParts(request);
  const queries = yield* eachQuery(request.queries, "queries", (query, path) =>
    hybridLegs(definition, query ?? {}, parts, (name) => `${path}.${name}`),
  );
  const filters = yield* batchFilters(request, request.queries, "queries");
  return { queries, filters, ...common(definition, request), beam, fusion: fusionOf(request) };
}

/** Ways to search a collection. */
export type SearchKind = keyof SearchRequests;
export type SearchRequest<K extends SearchKind> = SearchRequests[K];
export type SearchAnswer<K extends SearchKind> = K extends `batch${string}`
  ? search.BatchSearchResponse
  : search.SearchResponse;

/** The searches that ask for no single kind. */
const joint: Readonly<
  Record<string, (definition: CollectionDefinition, request: never) => Plan | Steps<Plan>>
> = {
  hybrid: planHybrid,
  batchHybrid: planBatchHybrid,
  recommend: planRecommend,
  neighbors: planNeighbors,
};

/** Checks a request and plans it; in steps where that may take long. @throws invalid_request and others, with the position */
export function planSearch<K extends SearchKind>(
  definition: CollectionDefinition,
  name: K,
  request: SearchRequest<K>,
): Plan | Steps<Plan> {
  if (name in joint) return joint[name](definition, request as never);
  const kind = kindSearchedBy(name);
  const { single, batch } = kind.searching;
  const isSingle = single.name === name;
  checkFields(isSingle ? single.shape : (batch?.shape as TSchema), request);
  return isSingle ? planSingle(kind, definition, request) : planBatch(kind, definition, request);
}

/** The answer to a request from the answers to its queries. */
export const answerOf = <K extends SearchKind>(name: K, answers: search.SearchResponse[]): SearchAnswer<K> =>
  (name.startsWith("batch") ? answers : answers[0]) as SearchAnswer<K>;
