// What does a term add to the score of a text? The BM25 formula.
//
//     idf * tf / (tf + k1 * (1 - b + b * dl / avgdl))          idf = ln(1 + (N - df + 0.5) / (df + 0.5))
//
// Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, with Lucene's idf, which is
// never negative, and without the constant factor (k1 + 1), as in Lucene since version 8. Unlike Lucene's, dl is the exact length.

import type { Formula } from "../inverted/query.ts";

/** Text statistics of a version: its records with at least one term, and the sum of their lengths. */
export type TextStatistics = {
  readonly documents: number;
  readonly totalLength: number;
  /** How many of these records have a term; absent: as many as the version sees. */
  readonly frequencies?: ReadonlyMap<string, number>;
};

export class Bm25 {
  readonly #k1: number;
  readonly #b: number;

  /** @param k1 saturation of the term frequency, at least 0 @param b normalization by length, 0 to 1 */
  constructor(k1: number, b: number) {
    this.#k1 = k1;
    this.#b = b;
  }

  /** The parameters of the saturation of term frequencies. */
  formula(averageLength: number): Formula {
    // Without an average there are no lengths to compare; a version that sees a posting has one.
    const perTerm = averageLength > 0 ? (this.#k1 * this.#b) / averageLength : 0;
    return { fixed: this.#k1 * (1 - this.#b), perTerm, averageLength };
  }
}

/** The average length of the texts; 0 if there are none. */
export function averageOf({ documents, totalLength }: TextStatistics): number {
  return documents > 0 ? totalLength / documents : 0;
}

/** The weight of a term that `df` of `documents` records have: at least 0. */
export function idf(documents: number, df: number): number {
  return Math.log(1 + (Math.max(documents, df) - df + 0.5) / (df + 0.5));
}
