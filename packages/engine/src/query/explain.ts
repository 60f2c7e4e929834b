// Why does a result have its score?
//
// Explanations are made after the search, from the same view, and only for the returned results. The rankings give the rank and the score
// in each leg. Each kind of index lists the matches that a score is the sum of, in the order of the addition. So
//
//   the sum of a leg's matches, in their order and beginning with 0, is the leg's score, bit for bit, and
//   the sum of the legs' contributions, in the order of the legs, is the result's score.
//
// Explaining runs in steps. A search without explanations does none of this.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { Explanation, SearchResponse, Walk } from "@quiverdb/protocol/shapes/search";
import type { Steps } from "../base/steps.ts";
import type { Visit } from "../index/kind.ts";
import type { SearchedView } from "../views/view.ts";
import type { SearchedLeg } from "./legs.ts";
import type { Fusion, Plan } from "./plan.ts";
import { contributionOf, type Hit, type Ranking } from "./rank.ts";

/** Rank and score of a result in a leg. */
type Standing = { rank: number; score: number; weight: number; contribution: number };

/** Explains the queries of one request, which share the limit of `explainedMatchesMax`. */
export class Explainer {
  readonly #fusion: Fusion | null;
  #matches = 0;

  /** @param fusion how the legs are fused; null for searches with one leg */
  constructor(fusion: Fusion | null) {
    this.#fusion = fusion;
  }

  /**
   * One explanation for each result of the query that was searched last, in their order.
   * @param legs of the query
   * @param rankings what each leg found, side by side with them
   * @throws invalid_request when the request's results match more terms than can be explained at once
   */
  *explain(
    legs: readonly SearchedLeg[],
    rankings: readonly Ranking[],
    results: readonly Hit[],
  ): Steps<Explanation[]> {
    const standings = rankings.map((ranking) => this.standings(ranking, results));
    const details: (readonly object[])[] = [];
    for (const [i, leg] of legs.entries()) {
      const found = results.filter((_, at) => standings[i][at] !== null).map(({ ordinal }) => ordinal);
      details.push(yield* this.details(leg, found));
    }
    return composed(
      legs.map(({ kind }) => kind),
      standings,
      details,
    );
  }

  /** What a leg that was searched says of records that it found. @throws invalid_request as `explain` */
  details(leg: SearchedLeg, ordinals: readonly number[]): Steps<readonly object[]> {
    return leg.explain(ordinals, () => this.#countMatch());
  }

  /** Rank and score of each result in a leg; null if the leg did not find it. */
  standings({ hits, weight }: Ranking, results: readonly Hit[]): (Standing | null)[] {
    const ranks = new Map(hits.map(({ ordinal }, i) => [ordinal, i + 1]));
    return results.map(({ ordinal }) => {
      const rank = ranks.get(ordinal);
      if (rank === undefined) return null;
      const { score } = hits[rank - 1];
      const contribution =
        this.#fusion === null ? score : contributionOf(weight, this.#fusion.constant, rank);
      return { rank, score, weight, contribution };
    });
  }

  #countMatch(): void {
    if (++this.#matches <= limits.explainedMatchesMax) return;
    throw new QuiverError(
      "invalid_request",
      `With explain, the results match more than ${limits.explainedMatchesMax} terms in total; request fewer results (top_k) or fewer queries at a time.`,
      { path: "explain", maximum: limits.explainedMatchesMax },
    );
  }
}

/**
 * The explanations of some results.
 * @param standings of each leg, for each result
 * @param details of each leg, for each result that it found, in their order
 */
export function composed(
  kinds: readonly IndexKind[],
  standings: readonly (readonly (Standing | null)[])[],
  details: readonly (readonly object[])[],
): Explanation[] {
  const rest = details.map((ofLeg) => ofLeg.values());
  const results = standings[0]?.length ?? 0;
  return Array.from({ length: results }, (_, at) =>
    Object.fromEntries(
      kinds.map((kind, i) => {
        const standing = standings[i][at];
        return [kind, standing && { ...standing, ...rest[i].next().value }];
      }),
    ),
  ) as Explanation[];
}

/**
 * The parts of a response about the work of the query that was searched last. The legs replay what they did, on the same view; a search that
 * is not asked for its work does none of this. The work tells of all records of the collection, so callers who see only some do not get it.
 * @param legs of the query
 */
export function* accountOf(
  view: SearchedView,
  legs: readonly SearchedLeg[],
  { explain, walk }: Pick<Plan, "explain" | "walk">,
): Steps<Pick<SearchResponse, "legs" | "walk">> {
  const told: Record<string, object> = {};
  let visits: readonly Visit[] = [];
  let isCut = false;
  for (const leg of legs) {
    // One more than are listed, to know whether there are more.
    const account = leg.account(walk ? limits.walkVisitsMax + 1 : 0);
    if (account === undefined) continue;
    const { visits: listed = [], ...work } = yield* account;
    told[leg.kind] = work;
    isCut ||= listed.length > limits.walkVisitsMax;
    visits = listed.slice(0, limits.walkVisitsMax);
  }
  return {
    ...(explain && Object.keys(told).length > 0 && { legs: told }),
    ...(walk && { walk: { visits: visits.map((visit) => visitOf(view, visit)), is_cut: isCut } }),
  };
}

function visitOf(view: SearchedView, { record, from }: Visit): Walk["visits"][number] {
  return {
    id: record && view.recordIds.of(view.readTxn, record.ordinal).id,
    from: from < 0 ? null : from,
    score: record?.score ?? null,
  };
}
