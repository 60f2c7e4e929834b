// Does a graph find what it should, and what does it lose the rest by?
//
// A sample of the index's own vectors is asked, each as if it were not there; what exact search answers is the measure. What is
// missed is lost *by the codes* where the code of the missed vector compares as farther than the last of the beam, or than the last
// that was scored exactly: with better codes it would have been found. All else the graph has lost: no way led there.
// Each vector is asked for itself, too.

import type { MetricName } from "@quiver/protocol/shapes/index-definition";
import { squaredNorm } from "../../vector/exact.ts";
import type { Candidates } from "../contract.ts";

export type Quality = {
  /** Mean share of the ten exact answers that were found, 0 to 1. */
  readonly recall: number;
  /** Share of vectors that a search for themselves finds, 0 to 1. */
  readonly itself: number;
  /** Share of the exact answers that were lost by the codes, 0 to 1. */
  readonly codeLoss: number;
  readonly queries: number;
  /** The beam. */
  readonly ef: number;
  /** A query that finds nothing as good is from elsewhere, see `farScore`; for products by the length of the query. */
  readonly farScore?: number | undefined;
  /** Vectors in the graphs, and what had been linked or removed, when it was measured. */
  readonly count: number;
  readonly work: number;
};

/** Results of one query. */
export type Measured = {
  /** Exact answers that are wanted, that were found, and that were lost by the codes. */
  readonly wanted: number;
  readonly met: number;
  readonly lostByCode: number;
  readonly isItselfFound: boolean;
};

/** Exact answers by which recall is measured. */
export const qualityDepth = 10;

/** Vectors that are compared for one measurement: a third of a second of work or less, but for the least sample. */
const valuesMax = 2e8;
const queriesMin = 16;
const queriesMax = 200;

/** Share of the vectors that are asked which count as lonely. */
const lonelyShare = 0.02;

/** How many vectors are asked of an index of so many. @param share of the usual number */
export const sampleSize = (count: number, dimension: number, share = 1): number =>
  Math.min(
    count,
    Math.max(queriesMin, Math.floor(share * Math.min(queriesMax, valuesMax / (count * dimension)))),
  );

export type Question = { readonly name: number; readonly vector: Float32Array; readonly truth: Candidates };

/** A measurement that goes on in steps. */
export class QualityCheck {
  readonly ef: number;
  readonly #metric: MetricName;
  readonly #questions: readonly Question[];
  #at = 0;
  #wanted = 0;
  #met = 0;
  #lostByCode = 0;
  #itself = 0;

  constructor(metric: MetricName, questions: readonly Question[], ef: number) {
    this.#metric = metric;
    this.#questions = questions;
    this.ef = ef;
  }

  /** The same questions with another beam. */
  withBeam(ef: number): QualityCheck {
    return new QualityCheck(this.#metric, this.#questions, ef);
  }

  /** Asks some questions; returns whether there are more. */
  step(ask: (question: Question, ef: number) => Measured, count: number): boolean {
    for (const end = this.#at + count; this.#at < Math.min(end, this.#questions.length); this.#at++) {
      const { wanted, met, lostByCode, isItselfFound } = ask(this.#questions[this.#at], this.ef);
      this.#wanted += wanted;
      this.#met += met;
      this.#lostByCode += lostByCode;
      if (isItselfFound) this.#itself++;
    }
    return this.#at < this.#questions.length;
  }

  result(count: number, work: number): Quality {
    const queries = this.#questions.length;
    const wanted = Math.max(1, this.#wanted);
    return {
      recall: this.#wanted === 0 ? 1 : this.#met / wanted,
      itself: queries === 0 ? 1 : this.#itself / queries,
      codeLoss: this.#lostByCode / wanted,
      queries,
      ef: this.ef,
      farScore: this.#farScore(),
      count,
      work,
    };
  }

  #farScore(): number | undefined {
    const nearest = this.#questions
      .map(({ name, vector, truth: { ordinals, scores, count } }) => {
        let best = Number.NEGATIVE_INFINITY;
        for (let i = 0; i < count; i++) if (ordinals[i] !== name) best = Math.max(best, scores[i]);
        return best / lengthThatCounts(this.#metric, vector);
      })
      .filter(Number.isFinite)
      .sort((a, b) => a - b);
    const near = nearest[Math.floor(lonelyShare * nearest.length)];
    return near === undefined ? undefined : farScore(this.#metric, near);
  }
}

/** What scores grow with, of who asks. */
export function lengthThatCounts(metric: MetricName, vector: Float32Array): number {
  return metric === "dot_product" ? Math.sqrt(squaredNorm(vector, 0, vector.length)) : 1;
}

/** Ordinary queries of ordinary data, also those of rarer things, are no farther than so many times the distance. */
const farTimes = 1.5;

/** The score at a distance of `farTimes` that of a score; of products the share. */
function farScore(metric: MetricName, near: number): number {
  if (metric === "cosine") return 1 - farTimes * (1 - near);
  if (metric === "euclidean") return near / (near + farTimes * (1 - near));
  return near > 0 ? near / farTimes : Number.NEGATIVE_INFINITY;
}
