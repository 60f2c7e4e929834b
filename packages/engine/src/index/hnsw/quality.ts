// Does a graph find what it should, and what does it lose the rest by?
//
// A sample of the index's own vectors is asked, each as if it were not there; what exact search answers is the measure. What is
// missed is lost *by the codes* where the code of the missed vector compares as farther than the last of the beam, or than the last
// that was scored exactly: with better codes it would have been found. All else the graph has lost: no way led there.
// Each vector is asked for itself, too.

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

/** Vectors that are compared for one measurement: one second of work or less, but for the least sample. */
const valuesMax = 5e8;
const queriesMin = 16;
const queriesMax = 200;

/** How many vectors are asked of an index of so many. */
export const sampleSize = (count: number, dimension: number): number =>
  Math.min(count, Math.max(queriesMin, Math.min(queriesMax, Math.floor(valuesMax / (count * dimension)))));

export type Question = { readonly name: number; readonly vector: Float32Array; readonly truth: Candidates };

/** A measurement that goes on in steps. */
export class QualityCheck {
  readonly ef: number;
  readonly #questions: readonly Question[];
  #at = 0;
  #wanted = 0;
  #met = 0;
  #lostByCode = 0;
  #itself = 0;

  constructor(questions: readonly Question[], ef: number) {
    this.#questions = questions;
    this.ef = ef;
  }

  /** The same questions with another beam. */
  withBeam(ef: number): QualityCheck {
    return new QualityCheck(this.#questions, ef);
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
      count,
      work,
    };
  }
}
