// Which k records have the greatest sums of posting contributions?
//
// Segments are searched in WebAssembly with pruning (segment-search.ts), mutable buffers are scored in full (score-all.ts), and so is
// everything if not all records may be found, if terms count only for some records, or if there are very many terms.
//
// If only some ordinals are allowed, there are two ways, and `estimate` returns the cost of each: scan every posting and mask out records
// that are not allowed before scoring (segment-search.ts), or look up only the allowed records in the lists.

import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { type Candidates, nothing, type Visible } from "../contract.ts";
import type { Allowed } from "../ordinal-bitmap.ts";
import { contains, type OrdinalSet } from "../ordinal-sets.ts";
import { type Accepts, Best } from "./best.ts";
import type { BufferReader } from "./mutable-buffer.ts";
import type { PostingParts } from "./posting-parts.ts";
import type { PostingReader } from "./posting-reader.ts";
import {
  type Formula,
  type Hidden,
  isListChosen,
  type PostingEstimate,
  postingCost,
  type WeightedTerm,
} from "./query.ts";
import { FullScorer } from "./score-all.ts";
import { searchListed, searchSegments } from "./segment-search.ts";

/**
 * Queries with more terms are scored in full. Pruning looks up each candidate in the lists of all terms, and the more terms there are, the
 * fewer candidates it can rule out: 6,400 random words of 40,000 texts took 1.6 s, and scored in full 17 ms; up to some 3,000 words pruning
 * was faster.
 */
export const prunedTermsMax = 2_048;

/** The records that may be found, as a test of an ordinal. */
function allowedBy(allowed: Allowed, accepts: Accepts = null): Accepts {
  if (allowed === null) return accepts;
  if (accepts === null) return (ordinal) => allowed.has(ordinal);
  return (ordinal) => allowed.has(ordinal) && accepts(ordinal);
}

export class PostingSearcher {
  readonly #parts: PostingParts;
  readonly #reader: PostingReader;
  readonly #scorer: FullScorer;

  /** @param scorer the thread's */
  constructor(parts: PostingParts, reader: PostingReader, scorer = new FullScorer()) {
    this.#parts = parts;
    this.#reader = reader;
    this.#scorer = scorer;
  }

  get memoryBytes(): number {
    return this.#scorer.memoryBytes;
  }

  /**
   * The k best records of those that have one of the terms, with all ties at the boundary.
   * @param least for sparse vectors: the contribution that makes a record a candidate; null: every record is one. With it, some of the
   *   best can be missing, unless a weight is negative
   * @param allowed the ordinals that may be found at all. Fewer than k are found only if fewer of them have one of the terms
   */
  search(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    least: number | null = null,
    allowed: Allowed = null,
  ): Candidates {
    if (k <= 0 || terms.length === 0 || allowed?.count === 0) return nothing;
    this.#assertCurrent(terms, hidden);
    // With negative impacts, large postings alone say nothing about a score.
    const counting = least !== null && this.#hasNegative(terms) ? null : least;
    if (allowed !== null && this.isListed(terms, allowed.count))
      return this.#searchListed(terms, k, formula, hidden, allowed.toOrdinals());
    const found = this.#searchAll(terms, k, formula, hidden, counting, allowed);
    // The search gathered candidates by their largest postings alone. The allowed records need not have any of these.
    if (allowed === null || counting === null || found.count >= k) return found;
    return this.#searchAll(terms, k, formula, hidden, null, allowed);
  }

  #searchAll(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    least: number | null,
    allowed: Allowed,
  ): Candidates {
    const accepts = allowedBy(allowed);
    if (terms.length > prunedTermsMax)
      return finishAtOnce(this.#scoreAll(this.#scorer, terms, k, formula, hidden, accepts, least));
    const inBuffers = this.#searchBuffers(terms, k, formula, hidden, least, accepts);
    if (this.#parts.segments.length === 0) return inBuffers;
    return searchSegments(this.#parts.segments, { terms, k, formula, hidden, allowed, least }, inBuffers);
  }

  #searchBuffers(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    least: number | null,
    accepts: Accepts,
  ): Candidates {
    return this.#bestOfBuffers(k, (buffer, i) =>
      finishAtOnce(
        this.#parts.isText
          ? this.#scorer.acceptedInBuffer(buffer, i, terms, k, formula, hidden, accepts)
          : this.#scorer.sparseInBuffer(buffer, i, terms, k, hidden, least, accepts),
      ),
    );
  }

  /** Looks just these records up. @param ordinals ascending */
  #searchListed(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    ordinals: OrdinalSet,
  ): Candidates {
    const accepts: Accepts = (ordinal) => contains(ordinals, ordinal);
    const inBuffers = this.#searchBuffers(terms, k, formula, hidden, null, accepts);
    const search = { terms, k, formula, hidden, allowed: null, least: null };
    return searchListed(this.#parts.segments, search, ordinals, inBuffers);
  }

  /** The cost of a search in each way, for this number of allowed ordinals. @param terms as in the search */
  estimate(terms: readonly WeightedTerm[], allowedCount: number): PostingEstimate {
    this.#assertCurrent(terms, null);
    return postingCost(this.#parts.segments, terms, allowedCount);
  }

  /** Whether looking the allowed records up is the cheaper way. */
  isListed(terms: readonly WeightedTerm[], allowedCount: number): boolean {
    return isListChosen(this.estimate(terms, allowedCount), terms.length, allowedCount);
  }

  #hasNegative(terms: readonly WeightedTerm[]): boolean {
    return (
      this.#parts.hadNegative ||
      terms.some(({ weight }) => weight < 0) ||
      this.#parts.segments.some(({ hasNegative }) => hasNegative)
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
    for (const [i, buffer] of this.#parts.buffers.entries())
      best.add(
        yield* isText
          ? scorer.acceptedInBuffer(buffer, i, terms, k, formula, hidden, accepts)
          : scorer.sparseInBuffer(buffer, i, terms, k, hidden, least, accepts),
      );
    for (const [i, segment] of this.#parts.segments.entries())
      best.add(
        yield* isText
          ? scorer.acceptedInSegment(segment, i, terms, k, formula, hidden, accepts)
          : scorer.sparseInSegment(segment, i, terms, k, hidden, least, accepts),
      );
    return best.bestOfAdded();
  }

  /**
   * `search` of a text index with a filter, or with terms that count only for some records. It scores all postings: the records that pass
   * the filter are already known and usually few.
   * @param allowed the ordinals that may be found at all
   */
  searchAccepted(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    accepts: Accepts,
    allowed: Allowed = null,
  ): Candidates {
    if (k <= 0 || allowed?.count === 0) return nothing;
    this.#assertCurrent(terms, hidden);
    // Terms that count only for some records are handled in TypeScript, which can test that.
    const isListed = allowed !== null && terms.every(({ within }) => within == null);
    if (isListed && this.isListed(terms, allowed.count)) {
      const ordinals = allowed.toOrdinals();
      const accepted = accepts === null ? ordinals : ordinals.filter((ordinal) => accepts(ordinal));
      return this.#searchListed(terms, k, formula, hidden, accepted);
    }
    const steps = this.#scoreAll(this.#scorer, terms, k, formula, hidden, allowedBy(allowed, accepts));
    return finishAtOnce(steps);
  }

  /**
   * Scores everything, as `searchAccepted` does, in steps between which the index may change.
   * @param visible returns the visibility test; called again after each step
   * @returns null if lists moved in the meantime (`layout`): the located lists are no longer valid, and the caller must start
   * again
   */
  *searchInSteps(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    visible: () => Visible,
    accepts: Accepts,
    least: number | null = null,
    allowed: Allowed = null,
  ): Steps<Candidates | null> {
    if (k <= 0 || allowed?.count === 0) return nothing;
    this.#assertCurrent(terms, null);
    const { layout } = this.#parts;
    const counting = least !== null && this.#hasNegative(terms) ? null : least;
    // Fetched at each step and not for each record: making the test takes longer than using it.
    let sees = visible();
    const mayBe = allowedBy(allowed, accepts);
    const isSeen: Accepts = (ordinal) =>
      (sees === null || sees(ordinal)) && (mayBe === null || mayBe(ordinal));
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

  /** Asserts that a search goes by the present layout. All of its terms were located in one. */
  #assertCurrent(terms: readonly WeightedTerm[], hidden: Hidden | null): void {
    if (terms.length > 0) this.#parts.assertLocated(terms[terms.length - 1].located);
    if (hidden !== null) this.#parts.assertLocated(hidden);
  }

  #bestOfBuffers(k: number, search: (buffer: BufferReader, number: number) => Candidates): Candidates {
    if (this.#parts.buffers.length === 1) return search(this.#parts.buffers[0], 0);
    const best = new Best(k, nothing);
    for (const [i, buffer] of this.#parts.buffers.entries()) best.add(search(buffer, i));
    return best.bestOfAdded();
  }
}
