// How does a plan become results?
//
// All queries of a request, all legs of a query and all fetches run on one pinned view. Between two queries of
// a batch the event loop gets a turn when the request has held it for long.

import { setImmediate as nextTurn } from "node:timers/promises";
import { limits } from "@quiver/protocol/limits";
import type { SearchResponse, SearchResult } from "@quiver/protocol/shapes/search";
import { invariant } from "../base/invariant.ts";
import { ordinalKey } from "../collection/tables.ts";
import type { Candidates } from "../index/contract.ts";
import type { VectorReader } from "../index/hnsw/hnsw-index.ts";
import { resolveTextQuery } from "../index/text/text-query.ts";
import type { View } from "../runtime/view.ts";
import { Explainer } from "./explain.ts";
import { fuse, type Ranking } from "./fusion.ts";
import type { Leg, Plan } from "./plan.ts";
import { type Hit, rankCandidates, rankHits, recordOf } from "./rank.ts";

/**
 * Answers every query of the plan, in order.
 * @param view pinned by the caller, who unpins it afterwards
 * @param efSearch beam of dense legs; default: the index's own
 */
export async function runPlan(view: View, plan: Plan, efSearch?: number): Promise<SearchResponse[]> {
  const responses: SearchResponse[] = [];
  const explainer = plan.explain ? new Explainer(view, plan.fusion) : null;
  let sliceEnd = performance.now() + limits.searchSliceMs;
  for (const legs of plan.queries) {
    if (performance.now() > sliceEnd) {
      await nextTurn();
      sliceEnd = performance.now() + limits.searchSliceMs;
    }
    const { hits, rankings } = runQuery(view, legs, plan, efSearch);
    const explanations = explainer?.explain(legs, rankings, hits);
    const results = hits.map((hit) => fetch(view, hit, plan.returnRawText));
    if (explanations) for (const [i, result] of results.entries()) result.explanation = explanations[i];
    responses.push({ results });
  }
  return responses;
}

/** Results that each leg of a plan's queries fetches. */
export function legDepth({ topK, fusion }: Plan): number {
  return fusion === null ? topK : Math.max(limits.legFactor * topK, limits.legMin);
}

/** What a query found, best first, and what each of its legs did. */
type Found = { hits: Hit[]; rankings: Ranking[] };

function runQuery(view: View, legs: readonly Leg[], plan: Plan, efSearch?: number): Found {
  const { topK, fusion } = plan;
  const runLeg = (leg: Leg, k: number): Hit[] =>
    rankCandidates(view.snapshot, candidatesOf(view, leg, k, plan, efSearch), k);
  if (fusion === null) {
    const hits = runLeg(legs[0], topK);
    return { hits, rankings: [{ hits, weight: 1 }] };
  }
  const depth = legDepth(plan);
  const rankings = legs.map((leg) => ({ hits: runLeg(leg, depth), weight: fusion.weights[leg.kind] }));
  return { hits: rankHits(view.snapshot, fuse(rankings, fusion.constant), topK), rankings };
}

function candidatesOf(view: View, leg: Leg, k: number, plan: Plan, efSearch?: number): Candidates {
  const { dense, sparse, "tf-idf": text } = view.indexes;
  switch (leg.kind) {
    case "dense":
      invariant(dense !== undefined, "the view has no dense index");
      return plan.effort.exact
        ? dense.searchExactly(leg.vector, k, view.visible, vectorsOf(view))
        : dense.search(leg.vector, k, { ef: efSearch, visible: view.visible, vectorOf: vectorsOf(view) });
    case "sparse":
      invariant(sparse !== undefined, "the view has no sparse index");
      return sparse.search({ indices: leg.indices, values: leg.values }, k, leg.threshold, view.visible);
    case "tf-idf": {
      invariant(text !== undefined, "the view has no text index");
      const { visible } = view;
      const { terms, accepts } = resolveTextQuery(text, leg, visible);
      return text.searchTerms(terms, k, view.textStatistics, visible, accepts);
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

function fetch(view: View, { ordinal, score }: Hit, returnRawText: boolean): SearchResult {
  const record = recordOf(view.snapshot, ordinal);
  return {
    id: record.id,
    document_id: record.documentId,
    score,
    text: returnRawText ? record.rawText : null,
  };
}
