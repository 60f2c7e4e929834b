// Why does a result have its score?
//
// Made after the search and only for the results that are answered, from the same view: the rankings tell each leg's
// rank and score, and the inverted indexes give the terms that a score was added up from, in the order in which it
// was added up, so that
//
//   the sum of a leg's matches, in their order and beginning with 0, is the leg's score, bit for bit, and
//   the sum of the legs' contributions, in the order dense, sparse, tf-idf, is the result's.
//
// It takes steps, between which others may take their turn. A search that asks for no explanation does nothing of this.

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { Explanation } from "@quiver/protocol/shapes/search";
import { invariant } from "../base/invariant.ts";
import type { Steps } from "../base/steps.ts";
import type { TextQuery } from "../index/text/text-query.ts";
import type { View } from "../runtime/view.ts";
import { contributionOf, type Ranking } from "./fusion.ts";
import type { Fusion, Leg } from "./plan.ts";
import type { Hit } from "./rank.ts";

/** Explains the queries of one request, which share the limit of `explainedMatchesMax`. */
export class Explainer {
  readonly #view: View;
  readonly #fusion: Fusion | null;
  #matches = 0;

  /**
   * @param view the one that is searched, pinned
   * @param fusion how the legs are fused; null for searches with one leg
   */
  constructor(view: View, fusion: Fusion | null) {
    this.#view = view;
    this.#fusion = fusion;
  }

  /**
   * One explanation for each result, in their order.
   * @param rankings what each of `legs` found, side by side with them
   * @param query what the text leg asked for; null where there is none
   * @throws invalid_request when the request's results match more terms than can be explained at once
   */
  *explain(
    legs: readonly Leg[],
    rankings: readonly Ranking[],
    results: readonly Hit[],
    query: TextQuery | null,
  ): Steps<Explanation[]> {
    const explanations = results.map((): Explanation => ({}));
    for (const [i, leg] of legs.entries()) {
      const found = this.#standings(rankings[i], results);
      switch (leg.kind) {
        case "dense":
          for (const [at, standing] of found.entries()) explanations[at].dense = standing;
          break;
        case "sparse":
          yield* this.#explainSparse(leg, results, found, explanations);
          break;
        case "tf-idf":
          invariant(query !== null, "a text leg was not worked out");
          yield* this.#explainText(query, results, found, explanations);
          break;
      }
    }
    return explanations;
  }

  /** Where each result stands in a leg; null where the leg does not have it. */
  #standings({ hits, weight }: Ranking, results: readonly Hit[]): (Standing | null)[] {
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

  *#explainSparse(
    leg: Leg & { kind: "sparse" },
    results: readonly Hit[],
    found: readonly (Standing | null)[],
    explanations: readonly Explanation[],
  ): Steps<void> {
    const { sparse } = this.#view.indexes;
    invariant(sparse !== undefined, "the view has no sparse index");
    const legs = found.map((standing) => standing && { ...standing, matches: [] as SparseMatches });
    for (const [at, explained] of legs.entries()) explanations[at].sparse = explained;
    const inLeg = legs.flatMap((explained, at) => (explained ? { at, matches: explained.matches } : []));
    const ordinals = inLeg.map(({ at }) => results[at].ordinal);
    yield* sparse.explain(ordinals, leg, (i, { dimension, queryWeight, weight, product }) => {
      this.#countMatch();
      inLeg[i].matches.push({ index: dimension, query_value: queryWeight, stored_value: weight, product });
    });
  }

  *#explainText(
    { terms }: TextQuery,
    results: readonly Hit[],
    found: readonly (Standing | null)[],
    explanations: readonly Explanation[],
  ): Steps<void> {
    const { textStatistics: statistics, indexes } = this.#view;
    const text = indexes["tf-idf"];
    invariant(text !== undefined, "the view has no text index");
    const { documents, totalLength } = statistics;
    const averageLength = documents > 0 ? totalLength / documents : 0;
    const legs = found.map(
      (standing, at) =>
        standing && {
          ...standing,
          documents,
          document_length: text.lengthOf(results[at].ordinal),
          average_length: averageLength,
          matches: [] as TextMatches,
        },
    );
    for (const [at, explained] of legs.entries()) explanations[at]["tf-idf"] = explained;
    const inLeg = legs.flatMap((explained, at) => (explained ? { at, matches: explained.matches } : []));
    const ordinals = inLeg.map(({ at }) => results[at].ordinal);
    yield* text.explain(
      ordinals,
      terms,
      statistics,
      () => this.#view.visible,
      (i, { term, weight, ...match }) => {
        this.#countMatch();
        inLeg[i].matches.push({ term, query_tf: weight, ...match });
      },
    );
  }

  #countMatch(): void {
    if (++this.#matches <= limits.explainedMatchesMax) return;
    throw new QuiverError(
      "invalid_request",
      `explain is asked for, and the results match more than ${limits.explainedMatchesMax} terms in all; ask for fewer results (top_k) or fewer queries at a time.`,
      { path: "explain", maximum: limits.explainedMatchesMax },
    );
  }
}

type Standing = { rank: number; score: number; weight: number; contribution: number };
type SparseMatches = NonNullable<Explanation["sparse"]>["matches"];
type TextMatches = NonNullable<Explanation["tf-idf"]>["matches"];
