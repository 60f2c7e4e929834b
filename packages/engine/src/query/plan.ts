// What exactly does a search request ask for?
//
// Requests are checked completely here, before a view is pinned: dimensions, ranges and forms, each error with its position. The result is
// a plan: one or more legs for each query, and how to fuse and return the results. Requests that can be large are planned in steps.

import { checkFields, refuseUnknownOptions } from "@quiver/protocol/fields";
import { limits } from "@quiver/protocol/limits";
import { type IndexKind, kinds } from "@quiver/protocol/shapes/index-definition";
import * as search from "@quiver/protocol/shapes/search";
import { Deadline } from "../base/deadline.ts";
import type { Steps } from "../base/steps.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import type { Leg } from "../index/kind.ts";
import type { Allowed } from "../index/ordinal-bitmap.ts";
import { denseLeg, eachQuery, hybridLegs, invalid, sparseLeg, syntaxOf, textLeg } from "./query-legs.ts";

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
  /** The legs of each query, in order. */
  queries: Leg[][];
  topK: number;
  returnRawText: boolean;
  /** Whether each result is explained. */
  explain: boolean;
  /** How dense legs are searched. */
  beam: Beam;
  /** The ordinals that the legs may find at all; null: every one. */
  allowed: Allowed;
  /** How legs are fused; null for a search with one leg. */
  fusion: Fusion | null;
  /** The deadline of the request, checked between queries, legs and slices. */
  deadline: Deadline;
};

/** Kinds of index that a plan needs. */
export function kindsOf(plan: Plan): IndexKind[] {
  const needed = new Set<IndexKind>();
  for (const legs of plan.queries) for (const leg of legs) needed.add(leg.kind);
  return [...needed];
}

/** @throws invalid_request if the response would have more results than one request may ask for */
export function checkSize({ queries, topK }: Plan): void {
  const results = queries.length * topK;
  if (results > limits.resultsPerRequestMax)
    throw invalid(
      "top_k",
      `is ${topK} for each of ${queries.length} queries, ${results} results; expected ${limits.resultsPerRequestMax} in all at most. Send fewer queries at a time.`,
    );
}

type Common = { top_k?: number | null; return_raw_text?: boolean | null; explain?: boolean | null };
type Tuning = { ef_search?: number | null; exact?: boolean | null; recall_target?: number | null };

const untuned: Beam = { exact: false, efSearch: null, recallTarget: null };

function integerIn(value: number | null | undefined, path: string, from: number, to: number): void {
  if (value === null || value === undefined) return;
  if (!Number.isInteger(value) || value < from || value > to)
    throw invalid(path, `is ${value}; expected an integer from ${from} to ${to}.`);
}

function common(request: Common): Pick<Plan, "topK" | "returnRawText" | "explain" | "allowed" | "deadline"> {
  integerIn(request.top_k, "top_k", 1, limits.topKMax);
  return {
    topK: request.top_k ?? limits.topKDefault,
    returnRawText: request.return_raw_text ?? false,
    explain: request.explain ?? false,
    allowed: null,
    deadline: Deadline.none,
  };
}

function beamOf({ ef_search, exact, recall_target }: Tuning): Beam {
  integerIn(ef_search, "ef_search", 1, limits.efMax);
  if (recall_target != null && !(recall_target > 0 && recall_target <= 1))
    throw invalid("recall_target", `is ${recall_target}; expected a number greater than 0, at most 1.`);
  return { exact: exact ?? false, efSearch: ef_search ?? null, recallTarget: recall_target ?? null };
}

function thresholdOf(value: number | null | undefined, path: string): number {
  const threshold = value ?? 0;
  if (!(threshold >= 0 && threshold <= 1))
    throw invalid(path, `is ${threshold}; expected a number from 0 to 1.`);
  return threshold;
}

export function planDense(definition: CollectionDefinition, request: search.DenseSearch): Plan {
  checkFields(search.DenseSearch, request);
  const beam = beamOf(request);
  const leg = denseLeg(definition, request.query_vector, "query_vector");
  return { queries: [[leg]], ...common(request), beam, fusion: null };
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
  const { topK } = common(request);
  return {
    sample: request.sample ?? limits.recallSampleDefault,
    topK,
    efSearch: request.ef_search ?? undefined,
  };
}

export function* planBatchDense(
  definition: CollectionDefinition,
  request: search.BatchDenseSearch,
): Steps<Plan> {
  checkFields(search.BatchDenseSearch, request);
  const beam = beamOf(request);
  const queries = yield* eachQuery(request.queries, "queries", (query, path) => [
    denseLeg(definition, query?.vector, `${path}.vector`),
  ]);
  return { queries, ...common(request), beam, fusion: null };
}

export function planSparse(definition: CollectionDefinition, request: search.SparseSearch): Plan {
  checkFields(search.SparseSearch, request);
  const threshold = thresholdOf(request.early_terminate_threshold, "early_terminate_threshold");
  const leg = sparseLeg(definition, request.query_terms, threshold, "query_terms");
  return { queries: [[leg]], ...common(request), beam: untuned, fusion: null };
}

export function* planBatchSparse(
  definition: CollectionDefinition,
  request: search.BatchSparseSearch,
): Steps<Plan> {
  checkFields(search.BatchSparseSearch, request);
  const threshold = thresholdOf(request.early_terminate_threshold, "early_terminate_threshold");
  const queries = yield* eachQuery(request.query_terms_list, "query_terms_list", (terms, path) => [
    sparseLeg(definition, terms, threshold, path),
  ]);
  return { queries, ...common(request), beam: untuned, fusion: null };
}

export function* planText(definition: CollectionDefinition, request: search.TextSearch): Steps<Plan> {
  checkFields(search.TextSearch, request);
  const text = request.query ?? request.query_text;
  if (text === null || text === undefined)
    throw invalid("query", "is missing; expected the text to search for, a string.");
  const leg = yield* textLeg(definition, text, syntaxOf(request), "query");
  return { queries: [[leg]], ...common(request), beam: untuned, fusion: null };
}

export function* planBatchText(
  definition: CollectionDefinition,
  request: search.BatchTextSearch,
): Steps<Plan> {
  checkFields(search.BatchTextSearch, request);
  const syntax = syntaxOf(request);
  const queries = yield* eachQuery(request.queries, "queries", function* (text, path) {
    return [yield* textLeg(definition, text, syntax, path)];
  });
  return { queries, ...common(request), beam: untuned, fusion: null };
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
  return { queries: [legs], ...common(request), beam, fusion: fusionOf(request) };
}

export function* planBatchHybrid(
  definition: CollectionDefinition,
  request: search.BatchHybridSearch,
): Steps<Plan> {
  checkFields(search.BatchHybridSearch, request);
  const beam = beamOf(request);
  const options = hybridOptions(request);
  const queries = yield* eachQuery(request.queries, "queries", (query, path) =>
    hybridLegs(definition, query ?? {}, options, (name) => `${path}.${name}`),
  );
  return { queries, ...common(request), beam, fusion: fusionOf(request) };
}
