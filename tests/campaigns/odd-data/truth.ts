// Which results of a search are right?
//
// The formulas of the specification in f64, implemented independently of the engine. Ties count as right: a result is right, whatever its
// id, if its score is at least the k-th best, up to rounding.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { tolerance, topK } from "./marks.ts";

/** The score of a vector, as the interface returns it. */
export function scoreOf(metric: MetricName, query: Float32Array, row: Float32Array): number {
  let [dot, squaredQuery, squaredRow, squaredDistance] = [0, 0, 0, 0];
  for (let i = 0; i < query.length; i++) {
    const [q, x] = [query[i], row[i]];
    dot += q * x;
    squaredQuery += q * q;
    squaredRow += x * x;
    squaredDistance += (q - x) ** 2;
  }
  if (metric === "dot_product") return dot;
  if (metric === "euclidean") return 1 / (1 + Math.sqrt(squaredDistance));
  const norms = squaredQuery * squaredRow;
  return norms === 0 ? 0 : dot / Math.sqrt(norms);
}

/** Whether a score is at least another, up to a relative rounding error. */
export const reaches = (score: number, wanted: number, share = tolerance): boolean =>
  score >= wanted - share * Math.abs(wanted);

/** The lowest score of the k best live rows. */
export function lastOfBest(metric: MetricName, query: Float32Array, living: readonly Float32Array[]): number {
  const scores = Float64Array.from(living, (row) => scoreOf(metric, query, row)).sort();
  return scores[Math.max(0, scores.length - topK)];
}

/** Counts of the results. */
export type Counted = {
  /** Fraction of right results, over all queries. */
  readonly recall: number;
  /** The same with ties that are equal to 12 digits. */
  readonly strictRecall: number;
  /** Queries without any right result. */
  readonly emptyQueries: number;
  readonly queries: number;
  /** Fraction of stored vectors whose first result has their own score or better. */
  readonly itselfFirst: number;
  readonly strictItselfFirst: number;
};

/** The interface of a searched index: rows by the labels in results. */
export type Answering = {
  readonly metric: MetricName;
  readonly living: ReadonlyMap<number, Float32Array>;
  /** Labels, best first; at most k. */
  search(query: Float32Array, k: number): Promise<readonly number[]> | readonly number[];
};

const strictTolerance = 1e-12;

/**
 * Runs all queries, and searches for every `step`-th stored vector itself.
 * @throws if a result has a dead or repeated label, or if there are too few results
 */
export async function count(
  { metric, living, search }: Answering,
  queries: readonly Float32Array[],
  step: number,
): Promise<Counted> {
  const rows = [...living.values()];
  const wanted = Math.min(topK, rows.length);
  const answer = async (query: Float32Array, k: number): Promise<number[]> => {
    const labels = await search(query, k);
    if (new Set(labels).size !== labels.length) throw new Error(`an answer names a record twice: ${labels}`);
    return labels.map((label) => {
      const row = living.get(label);
      if (row === undefined) throw new Error(`record ${label} was found, which was removed or never there`);
      return scoreOf(metric, query, row);
    });
  };
  let [right, strictlyRight, emptyQueries] = [0, 0, 0];
  for (const query of queries) {
    const last = lastOfBest(metric, query, rows);
    const scores = await answer(query, topK);
    const met = scores.filter((score) => reaches(score, last)).length;
    right += met;
    strictlyRight += scores.filter((score) => reaches(score, last, strictTolerance)).length;
    if (met === 0) emptyQueries++;
  }
  let [asked, first, strictlyFirst] = [0, 0, 0];
  for (let i = 0; i < rows.length; i += step) {
    const own = scoreOf(metric, rows[i], rows[i]);
    const [best = Number.NEGATIVE_INFINITY] = await answer(rows[i], topK);
    asked++;
    if (reaches(best, own)) first++;
    if (reaches(best, own, strictTolerance)) strictlyFirst++;
  }
  return {
    recall: right / (wanted * queries.length),
    strictRecall: strictlyRight / (wanted * queries.length),
    emptyQueries,
    queries: queries.length,
    itselfFirst: first / asked,
    strictItselfFirst: strictlyFirst / asked,
  };
}
