// How does a plan become results?
//
// All queries of a request, all legs of a query and all fetches run on one pinned view. The event loop gets a turn when the
// request has held it for long: between two queries of a batch, between steps where many vectors are read, while the clauses of a
// text are worked out, and where very many hits tie. There, and before each leg, the plan's deadline is asked: what nobody waits for
// ends.

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { SearchResponse, SearchResult } from "@quiver/protocol/shapes/search";
import { invariant } from "../base/invariant.ts";
import type { Steps } from "../base/steps.ts";
import { ordinalKey } from "../collection/tables.ts";
import type { Candidates } from "../index/contract.ts";
import type { VectorReader } from "../index/hnsw/exact-search.ts";
import type { HnswIndex } from "../index/hnsw/hnsw-index.ts";
import type { Allowed } from "../index/ordinal-bitmap.ts";
import { resolveTextQuery, type TextQuery } from "../index/text/text-query.ts";
import type { View } from "../runtime/view.ts";
import { Explainer } from "./explain.ts";
import { fuse, type Ranking } from "./fusion.ts";
import type { Leg, Plan } from "./plan.ts";
import { type Hit, rankCandidates, rankHits, recordOf } from "./rank.ts";
import { Slices } from "./slices.ts";

/**
 * Answers every query of the plan, in order.
 * @param view pinned by the caller, who unpins it afterwards
 * @param efSearch beam of dense legs; default: the index's own
 */
export async function runPlan(view: View, plan: Plan, efSearch?: number): Promise<SearchResponse[]> {
  const responses: SearchResponse[] = [];
  const explainer = plan.explain ? new Explainer(view, plan.fusion) : null;
  const slices = new Slices(plan.deadline);
  const size = new ResultSize();
  const dense = new DenseLegs(view, plan, slices, efSearch);
  for (const [i, legs] of plan.queries.entries()) {
    await slices.pause();
    const known = { dense: await dense.answer(i), text: await textQueryOf(view, legs, slices) };
    const { hits, rankings } = await runQuery(view, legs, plan, known, slices);
    const explanations =
      explainer && (await slices.finish(explainer.explain(legs, rankings, hits, known.text)));
    const results = await slices.finish(fetchAll(view, hits, plan.returnRawText, size));
    if (explanations) for (const [i, result] of results.entries()) result.explanation = explanations[i];
    responses.push({ results });
  }
  return responses;
}

/** Queries that are answered by one pass over all vectors, at most, and results that they have together: all are put in order at once. */
const exactQueriesMax = 64;
const exactResultsMax = 20_000;

/** Queries for k results each that are answered by one pass over all vectors. */
export function exactQueriesFor(k: number): number {
  return Math.max(1, Math.min(exactQueriesMax, Math.floor(exactResultsMax / k)));
}

/** Finds the candidates of the dense legs of a plan's queries, in steps. */
class DenseLegs {
  readonly #view: View;
  readonly #plan: Plan;
  readonly #slices: Slices;
  readonly #efSearch: number | undefined;
  /** Exact answers that are known, by query. */
  readonly #exact = new Map<number, Candidates>();

  constructor(view: View, plan: Plan, slices: Slices, efSearch: number | undefined) {
    this.#view = view;
    this.#plan = plan;
    this.#slices = slices;
    this.#efSearch = efSearch;
  }

  /** What the dense leg of a query finds; null without one. Queries are asked about in their order. */
  async answer(query: number): Promise<Candidates | null> {
    const leg = this.#denseLeg(query);
    if (leg === null) return null;
    if (this.#plan.effort.exact) return this.#exactly(query);
    const k = legDepth(this.#plan);
    const options = { ef: this.#efSearch, vectorOf: vectorsOf(this.#view), allowed: this.#plan.allowed };
    const search = denseOf(this.#view).begin(leg.vector, k, () => this.#view.visible, options);
    return (await this.#slices.run(search))[0];
  }

  #denseLeg(query: number): Extract<Leg, { kind: "dense" }> | null {
    return this.#plan.queries[query].find((leg) => leg.kind === "dense") ?? null;
  }

  /** Queries are answered some at a time, so that a vector that has to be read is read once for them. */
  async #exactly(query: number): Promise<Candidates> {
    if (!this.#exact.has(query)) {
      const queries: number[] = [];
      const vectors: Float32Array[] = [];
      for (
        let i = query;
        i < this.#plan.queries.length && vectors.length < exactQueriesFor(legDepth(this.#plan));
        i++
      ) {
        const leg = this.#denseLeg(i);
        if (leg === null) continue;
        queries.push(i);
        vectors.push(leg.vector);
      }
      const { allowed } = this.#plan;
      const answers = await searchExactly(this.#view, vectors, legDepth(this.#plan), this.#slices, allowed);
      for (const [i, answer] of answers.entries()) this.#exact.set(queries[i], answer);
    }
    const answer = this.#exact.get(query);
    invariant(answer !== undefined, `the exact answer to query ${query} is missing`);
    this.#exact.delete(query);
    return answer;
  }
}

/** The k nearest records to each of up to `exactQueriesFor(k)` queries by reading all of a view's vectors that are allowed, in steps. */
export function searchExactly(
  view: View,
  queries: readonly Float32Array[],
  k: number,
  slices: Slices,
  allowed: Allowed = null,
): Promise<Candidates[]> {
  return slices.run(denseOf(view).beginExactly(queries, k, () => view.visible, vectorsOf(view), allowed));
}

/** What the text leg of a query asks for, worked out in steps; null where there is none. */
function textQueryOf(view: View, legs: readonly Leg[], slices: Slices): Promise<TextQuery> | null {
  const leg = legs.find((each) => each.kind === "tf-idf");
  if (leg === undefined) return null;
  const index = view.indexes["tf-idf"];
  invariant(index !== undefined, "the view has no text index");
  return slices.finish(resolveTextQuery(index, leg, () => view.visible));
}

/** The dense index of a view that must have one. */
export function denseOf(view: View): HnswIndex {
  const index = view.indexes.dense;
  invariant(index !== undefined, "the view has no dense index");
  return index;
}

/** Results that each leg of a plan's queries fetches. */
export function legDepth({ topK, fusion }: Plan): number {
  return fusion === null ? topK : Math.max(limits.legFactor * topK, limits.legMin);
}

/** What a query found, best first, and what each of its legs did. */
type Found = { hits: Hit[]; rankings: Ranking[] };

/** What was worked out in steps before: what the dense leg found, and what the text leg asks for; null where there is none. */
type Known = { readonly dense: Candidates | null; readonly text: TextQuery | null };

async function runQuery(
  view: View,
  legs: readonly Leg[],
  plan: Plan,
  known: Known,
  slices: Slices,
): Promise<Found> {
  const { topK, fusion } = plan;
  const runLeg = (leg: Leg, k: number): Promise<Hit[]> => {
    plan.deadline.check();
    return slices.finish(runLegInSteps(view, leg, k, known, plan.allowed));
  };
  if (fusion === null) {
    const hits = await runLeg(legs[0], topK);
    return { hits, rankings: [{ hits, weight: 1 }] };
  }
  const depth = legDepth(plan);
  const rankings: Ranking[] = [];
  for (const leg of legs) rankings.push({ hits: await runLeg(leg, depth), weight: fusion.weights[leg.kind] });
  const hits = await slices.finish(rankHits(view.snapshot, fuse(rankings, fusion.constant), topK));
  return { hits, rankings };
}

function* runLegInSteps(view: View, leg: Leg, k: number, known: Known, allowed: Allowed): Steps<Hit[]> {
  const candidates = yield* candidatesOf(view, leg, k, known, allowed);
  return yield* rankCandidates(view.snapshot, candidates, k);
}

function* candidatesOf(view: View, leg: Leg, k: number, known: Known, allowed: Allowed): Steps<Candidates> {
  const { sparse, "tf-idf": text } = view.indexes;
  switch (leg.kind) {
    case "dense":
      invariant(known.dense !== null, "a dense leg was not searched");
      return known.dense;
    case "sparse":
      invariant(sparse !== undefined, "the view has no sparse index");
      return yield* sparse.searchInSteps(leg, k, leg.threshold, () => view.visible, allowed);
    case "tf-idf": {
      invariant(text !== undefined && known.text !== null, "a text leg was not worked out");
      const { terms, accepts } = known.text;
      return yield* text.searchTermsInSteps(
        terms,
        k,
        view.textStatistics,
        () => view.visible,
        accepts,
        allowed,
      );
    }
  }
}

/** Reads full-precision vectors from the view's snapshot. */
export function vectorsOf(view: View): VectorReader {
  return (ordinal) => {
    const bytes = view.snapshot.get("dense", ordinalKey(ordinal));
    invariant(
      bytes !== undefined,
      `the index found ordinal ${ordinal}, whose vector the version does not have`,
    );
    return bytes;
  };
}

/** Records that are fetched at a step. */
const fetchedPerStep = 128;

function* fetchAll(
  view: View,
  hits: readonly Hit[],
  returnRawText: boolean,
  size: ResultSize,
): Steps<SearchResult[]> {
  const results: SearchResult[] = [];
  for (const hit of hits)
    if (results.push(size.add(fetch(view, hit, returnRawText))) % fetchedPerStep === 0) yield;
  return results;
}

function fetch(view: View, { ordinal, score }: Hit, returnRawText: boolean): SearchResult {
  const record = recordOf(view.snapshot, ordinal);
  return {
    id: record.id,
    document_id: record.documentId,
    score,
    text: returnRawText ? record.rawText : null,
  };
}

/** What the results of one request take in memory, about. */
class ResultSize {
  #bytes = 0;

  /** @throws invalid_request when it is more than one answer may have */
  add(result: SearchResult): SearchResult {
    this.#bytes += result.id.length + (result.document_id?.length ?? 0) + (result.text?.length ?? 0);
    if (this.#bytes <= limits.resultBytesMax) return result;
    throw new QuiverError(
      "invalid_request",
      `return_raw_text, or top_k, asks for more than ${limits.resultBytesMax} bytes of ids and texts. Ask for fewer results, or without their texts.`,
      { path: "top_k", limit: limits.resultBytesMax },
    );
  }
}
