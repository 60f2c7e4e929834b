// How does a plan become results?
//
// All queries of a request, all legs of a query and all fetches run on one pinned view. A long request yields to the event loop: between
// two queries of a batch, between steps of a search, and where very many hits tie. At these points, and before each leg, it checks the
// deadline.

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { SearchResponse, SearchResult } from "@quiver/protocol/shapes/search";
import type { Steps } from "../base/steps.ts";
import { recordOf } from "../collection/identities.ts";
import type { View } from "../runtime/view.ts";
import { Explainer } from "./explain.ts";
import { fuse, type Ranking } from "./fusion.ts";
import { Legs, type SearchedLeg } from "./legs.ts";
import type { Plan } from "./plan.ts";
import { type Hit, rankCandidates, rankHits } from "./rank.ts";
import { Slices } from "./slices.ts";

/**
 * Executes every query of the plan, in order.
 * @param view pinned by the caller, who unpins it afterwards
 * @param ef beam width of legs that search a graph; default: the index's own
 */
export async function runPlan(view: View, plan: Plan, ef?: number): Promise<SearchResponse[]> {
  const responses: SearchResponse[] = [];
  const legs = new Legs(view, plan.queries, { allowed: plan.allowed, isExact: plan.beam.exact, ef });
  const explainer = plan.explain ? new Explainer(legs, plan.fusion) : null;
  const slices = new Slices(plan.deadline);
  const size = new ResultSize();
  for (let query = 0; query < plan.queries.length; query++) {
    await slices.pause();
    const { hits, rankings } = await runQuery(view, legs.of(query), plan, slices);
    const explanations = explainer && (await slices.finish(explainer.explain(query, rankings, hits)));
    const results = await slices.finish(fetchAll(view, hits, plan.returnRawText, size));
    if (explanations) for (const [i, result] of results.entries()) result.explanation = explanations[i];
    responses.push({ results });
  }
  return responses;
}

/** Results that each leg of a plan's queries fetches. */
export function legDepth({ topK, fusion }: Plan): number {
  return fusion === null ? topK : Math.max(limits.legFactor * topK, limits.legMin);
}

/** The results of a query, best first, and the rankings of its legs. */
type Found = { hits: Hit[]; rankings: Ranking[] };

async function runQuery(
  view: View,
  legs: readonly SearchedLeg[],
  plan: Plan,
  slices: Slices,
): Promise<Found> {
  const { topK, fusion } = plan;
  const runLeg = (leg: SearchedLeg, k: number): Promise<Hit[]> => {
    plan.deadline.check();
    return slices.finish(hitsOf(view, leg, k));
  };
  if (fusion === null) {
    const hits = await runLeg(legs[0], topK);
    return { hits, rankings: [{ hits, weight: 1 }] };
  }
  const depth = legDepth(plan);
  const rankings: Ranking[] = [];
  for (const leg of legs) rankings.push({ hits: await runLeg(leg, depth), weight: fusion.weights[leg.kind] });
  const hits = await slices.finish(rankHits(idsOf(view), fuse(rankings, fusion.constant), topK));
  return { hits, rankings };
}

const idsOf = (view: View) => (ordinal: number) => view.identities.of(view.readTxn, ordinal).id;

function* hitsOf(view: View, leg: SearchedLeg, k: number): Steps<Hit[]> {
  return yield* rankCandidates(idsOf(view), yield* leg.search(k), k);
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
  const { id, documentId } = view.identities.of(view.readTxn, ordinal);
  const text = returnRawText ? recordOf(view.readTxn, ordinal).rawText : null;
  return { id, document_id: documentId, score, text };
}

/** Approximate memory of the results of one request. */
class ResultSize {
  #bytes = 0;

  /** @throws invalid_request if it is more than one response may have */
  add(result: SearchResult): SearchResult {
    this.#bytes += result.id.length + (result.document_id?.length ?? 0) + (result.text?.length ?? 0);
    if (this.#bytes <= limits.resultBytesMax) return result;
    throw new QuiverError(
      "invalid_request",
      `The results have more than ${limits.resultBytesMax} bytes of ids and texts. Reduce top_k, or leave out return_raw_text.`,
      { path: "top_k", limit: limits.resultBytesMax },
    );
  }
}
