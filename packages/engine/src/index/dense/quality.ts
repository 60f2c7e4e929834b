// What is the recall of a graph, and what causes the losses?
//
// A sample of the index's own vectors is used as queries, each ignoring itself, and compared with exact search. A missing result is lost
// *by the codes* if its code compares as farther than the last entry of the beam, or than the last one that was scored exactly: better
// codes would have found it. All other losses are due to the graph: no path led there. Each vector is also searched for itself.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { squaredNorm } from "../../vector/exact.ts";
import type { Candidates } from "../contract.ts";
import { type Beam, type CutBeam, lengthOf } from "./beam.ts";

export type Quality = {
  /** Mean fraction of the ten exact results that were found, 0 to 1. */
  readonly recall: number;
  /** Share of vectors that a search for themselves finds, 0 to 1. */
  readonly itself: number;
  /** Fraction of the exact results that were lost by the codes, 0 to 1. */
  readonly codeLoss: number;
  readonly queries: number;
  /** The beam. */
  readonly ef: number;
  /** The one with a cutoff that finds as much for fewer comparisons; null: there is none; undefined: that was not measured. */
  readonly cut?: CutBeam | null | undefined;
  /** Those that reach asked recalls, too, in place of beams that do. */
  readonly askedCuts?: readonly AskedCut[] | undefined;
  /** A query that finds nothing as good is from elsewhere, see `farScore`; for products by the length of the query. */
  readonly farScore?: number | undefined;
  /** Vectors in the graphs, and what had been linked or removed, when it was measured. */
  readonly count: number;
  readonly work: number;
};

/** A beam with a cutoff that may take the place of one of a length; null: none does. */
export type AskedCut = {
  readonly ef: number;
  /** That was asked for. */
  readonly recall: number;
  readonly cut: CutBeam | null;
  /** What had been linked or removed when it was measured. */
  readonly work: number;
};

/** Results of one query. */
export type Measured = {
  /** Numbers of exact results: expected, found, and lost by the codes. */
  readonly wanted: number;
  readonly met: number;
  readonly lostByCode: number;
  readonly isItselfFound: boolean;
  /** Nodes that were compared. */
  readonly compared: number;
};

/** Number of exact results per query. */
export const qualityDepth = 10;

/** Vectors that are compared in one measurement: at most a third of a second of work, except for the minimum sample. */
const valuesMax = 2e8;
const queriesMin = 16;
const queriesMax = 200;

/** Fraction of the sampled vectors that count as lonely. */
const lonelyShare = 0.02;

/** Sample size for an index with the given number of vectors. @param share of the usual number */
export const sampleSize = (count: number, dimension: number, share = 1): number =>
  Math.min(
    count,
    Math.max(queriesMin, Math.floor(share * Math.min(queriesMax, valuesMax / (count * dimension)))),
  );

export type Question = {
  readonly vectorKey: number;
  readonly vector: Float32Array;
  readonly truth: Candidates;
};

/** A measurement in steps. */
export class QualityCheck {
  readonly beam: Beam;
  readonly #metric: MetricName;
  readonly #questions: readonly Question[];
  #at = 0;
  #wanted = 0;
  #met = 0;
  #lostByCode = 0;
  #itself = 0;
  #compared = 0;

  constructor(metric: MetricName, questions: readonly Question[], beam: Beam) {
    this.#metric = metric;
    this.#questions = questions;
    this.beam = beam;
  }

  /** The length of the beam at most. */
  get ef(): number {
    return lengthOf(this.beam);
  }

  /** Exact results that are expected and were found, vectors that found themselves, and nodes that were compared for that. */
  get wanted(): number {
    return this.#wanted;
  }

  get met(): number {
    return this.#met;
  }

  get itself(): number {
    return this.#itself;
  }

  get compared(): number {
    return this.#compared;
  }

  /** The same questions with another beam. */
  withBeam(beam: Beam): QualityCheck {
    return new QualityCheck(this.#metric, this.#questions, beam);
  }

  /** Runs some queries; returns whether there are more. */
  step(ask: (question: Question, beam: Beam) => Measured, count: number): boolean {
    for (const end = this.#at + count; this.#at < Math.min(end, this.#questions.length); this.#at++) {
      const measured = ask(this.#questions[this.#at], this.beam);
      const { wanted, met, lostByCode, isItselfFound, compared } = measured;
      this.#wanted += wanted;
      this.#met += met;
      this.#lostByCode += lostByCode;
      if (isItselfFound) this.#itself++;
      this.#compared += compared;
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
      .map(({ vectorKey, vector, truth: { ordinals, scores, count } }) => {
        let best = Number.NEGATIVE_INFINITY;
        for (let i = 0; i < count; i++) if (ordinals[i] !== vectorKey) best = Math.max(best, scores[i]);
        return best / lengthThatCounts(this.#metric, vector);
      })
      .filter(Number.isFinite)
      .sort((a, b) => a - b);
    const near = nearest[Math.floor(lonelyShare * nearest.length)];
    return near === undefined ? undefined : farScore(this.#metric, near);
  }
}

/** The length that scales the scores of a query vector. */
export function lengthThatCounts(metric: MetricName, vector: Float32Array): number {
  return metric === "dot_product" ? Math.sqrt(squaredNorm(vector, 0, vector.length)) : 1;
}

/** For ordinary queries, including those for rare items, the best result is not farther than this multiple of the distance. */
const farTimes = 1.5;

/** The score at a distance of `farTimes` that of a score; of products the share. */
function farScore(metric: MetricName, near: number): number {
  if (metric === "cosine") return 1 - farTimes * (1 - near);
  if (metric === "euclidean") return near / (near + farTimes * (1 - near));
  return near > 0 ? near / farTimes : Number.NEGATIVE_INFINITY;
}
