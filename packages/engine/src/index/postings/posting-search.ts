// Which k records have the greatest sums of what their postings add?
//
// Runs are searched in WebAssembly with pruning (run-search.ts), tails are scored in full (score-all.ts), and so is everything where not
// all records may be found, not all terms count for all, or the terms are very many.

import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { type Candidates, nothing, type Visible } from "../contract.ts";
import { Best } from "./best.ts";
import type { AnyTail, PostingParts } from "./posting-parts.ts";
import type { PostingReader } from "./posting-reader.ts";
import type { Formula, Hidden, WeightedTerm } from "./query.ts";
import type { Accepts } from "./record-scores.ts";
import { searchRuns } from "./run-search.ts";
import { FullScorer } from "./score-all.ts";

/**
 * Queries of more terms are scored in full. Pruning looks a record that may be among the best up in the lists of all terms, and the
 * more terms there are, the less it can rule out: 6,400 random words of 40,000 texts took 1.6 s, and scored in full 17 ms; up to
 * some 3,000 words pruning was faster.
 */
export const prunedTermsMax = 2_048;

export class PostingSearcher {
  readonly #parts: PostingParts;
  readonly #reader: PostingReader;
  readonly #scorer = new FullScorer();

  constructor(parts: PostingParts, reader: PostingReader) {
    this.#parts = parts;
    this.#reader = reader;
  }

  get memoryBytes(): number {
    return this.#scorer.memoryBytes;
  }

  /**
   * The k best records of those that have one of the terms, with all ties at the boundary.
   * @param least of sparse vectors: what a posting must add to make a record a candidate; null: every record is one. With it some of
   * the best can be missing, unless a weight is negative
   */
  search(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    least: number | null = null,
  ): Candidates {
    if (k <= 0 || terms.length === 0) return nothing;
    // What great postings add says nothing where others are negative.
    const counting = least !== null && this.#hasNegative(terms) ? null : least;
    if (terms.length > prunedTermsMax)
      return finishAtOnce(this.#scoreAll(this.#scorer, terms, k, formula, hidden, null, counting));
    const inTails = this.#bestOfTails(k, (tail, i) =>
      finishAtOnce(
        this.#parts.isText
          ? this.#scorer.acceptedInTail(tail, i, terms, k, formula, hidden, null)
          : this.#scorer.sparseTail(tail, i, terms, k, hidden, counting),
      ),
    );
    if (this.#parts.runs.length === 0) return inTails;
    return searchRuns(this.#parts.runs, { terms, k, formula, hidden, least: counting }, inTails);
  }

  #hasNegative(terms: readonly WeightedTerm[]): boolean {
    return (
      this.#parts.hadNegative ||
      terms.some(({ weight }) => weight < 0) ||
      this.#parts.runs.some(({ hasNegative }) => hasNegative)
    );
  }

  /** `search` without pruning. */
  *#scoreAll(
    scorer: FullScorer,
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    accepts: Accepts,
    least: number | null = null,
  ): Steps<Candidates> {
    const best = new Best(k, nothing);
    const { isText } = this.#parts;
    for (const [i, tail] of this.#parts.tails.entries())
      best.add(
        yield* isText
          ? scorer.acceptedInTail(tail, i, terms, k, formula, hidden, accepts)
          : scorer.sparseTail(tail, i, terms, k, hidden, least, accepts),
      );
    for (const [i, run] of this.#parts.runs.entries())
      best.add(
        yield* isText
          ? scorer.acceptedInRun(run, i, terms, k, formula, hidden, accepts)
          : scorer.sparseInRun(run, i, terms, k, hidden, least, accepts),
      );
    return best.bestOfAdded();
  }

  /**
   * `search` of a text index where not all records may be found, or not all terms count for all: everything is scored, for what
   * may be found is known already, and is mostly little.
   */
  searchAccepted(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    accepts: Accepts,
  ): Candidates {
    if (k <= 0) return nothing;
    return finishAtOnce(this.#scoreAll(this.#scorer, terms, k, formula, hidden, accepts));
  }

  /**
   * Scores everything, as `searchAccepted` does, in steps between which the index may change.
   * @param visible asked anew for what the version sees
   * @returns null where lists were moved meanwhile (`layout`): what was located is not valid any more, and it has to begin anew
   */
  *searchInSteps(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    visible: () => Visible,
    accepts: Accepts,
    least: number | null = null,
  ): Steps<Candidates | null> {
    if (k <= 0) return nothing;
    const { layout } = this.#parts;
    const counting = least !== null && this.#hasNegative(terms) ? null : least;
    // Asked for at each step and not for each record: making the test takes longer than it does.
    let sees = visible();
    const isSeen: Accepts = (ordinal) =>
      (sees === null || sees(ordinal)) && (accepts === null || accepts(ordinal));
    const steps = this.#scoreAll(
      new FullScorer(),
      terms,
      k,
      formula,
      this.#reader.hide(visible()),
      isSeen,
      counting,
    );
    for (;;) {
      const step = steps.next();
      if (step.done) return step.value;
      yield;
      if (this.#parts.layout !== layout) return null;
      sees = visible();
    }
  }

  #bestOfTails(k: number, search: (tail: AnyTail, number: number) => Candidates): Candidates {
    if (this.#parts.tails.length === 1) return search(this.#parts.tails[0], 0);
    const best = new Best(k, nothing);
    for (const [i, tail] of this.#parts.tails.entries()) best.add(search(tail, i));
    return best.bestOfAdded();
  }
}
