// Which records have the greatest scores, when every posting is scored?
//
// The mutable buffer is always searched this way; segments only with a filter or with terms that count only for some records. Scores are
// added in the order of the query's terms, as everywhere: a record's score does not depend on where it lies.
//
// Scoring runs in steps. Between two steps records may come and go, but no mutable buffer or segment may be made or merged. A record
// that comes between two steps may get only part of its score, so a search that pauses tests visibility again at the end (`accepts`).
// A search that pauses has a `FullScorer` of its own; searches that do not pause share one.

import type { Steps } from "../../base/steps.ts";
import { type Candidates, nothing } from "../contract.ts";
import { contains, firstFrom, type OrdinalSet } from "../ordinal-sets.ts";
import { type Accepts, found, hidden as hiddenState, RecordScores } from "./best.ts";
import type { BufferReader } from "./mutable-buffer.ts";
import type { Formula, Hidden, Located, WeightedTerm } from "./query.ts";
import type { SegmentReader } from "./segment-reader.ts";

/** Postings scored in one step; each list counts as `postingsPerList` more. */
const postingsPerStep = 20_000;
const postingsPerList = 50;

/** Goes through a list and returns its length. */
type Walk = (list: number, weight: number, within: OrdinalSet | null) => number;

export class FullScorer {
  readonly #scores = new RecordScores();

  get memoryBytes(): number {
    return this.#scores.memoryBytes;
  }

  /**
   * The k best of the mutable buffer's records, with all ties at the boundary.
   * @param number of the mutable buffer
   * @param least only records with a posting that contributes at least this much; null: all
   */
  *sparseInBuffer(
    buffer: BufferReader,
    number: number,
    terms: readonly WeightedTerm[],
    k: number,
    hidden: Hidden | null,
    least: number | null,
    accepts: Accepts = null,
  ): Steps<Candidates> {
    if (buffer.count === 0) return nothing;
    const walks: Walk[] = [(list, weight) => this.#addSparse(buffer, list, weight, least === null)];
    if (least !== null) walks.unshift((list, weight) => this.#consider(buffer, list, weight, least));
    return yield* this.#bestOfBuffer(buffer, number, terms, k, hidden, accepts, walks);
  }

  /** The k best of the records of a mutable buffer that may be found, when all lists have been walked. */
  #bestOfBuffer(
    buffer: BufferReader,
    number: number,
    terms: readonly WeightedTerm[],
    k: number,
    hidden: Hidden | null,
    accepts: Accepts,
    walks: readonly Walk[],
  ): Steps<Candidates> {
    const { ordinals, removed } = buffer;
    const add = eachList(terms, (located) => located.buffers[number], walks);
    const best = () => this.#scores.best(ordinals.values, removed.values, k, accepts);
    return this.#scored(buffer.slotsEnd, hidden?.buffers[number], add, best);
  }

  /** ... of a segment. Records that were removed have no score. */
  #bestOfSegment(
    segment: SegmentReader,
    number: number,
    terms: readonly WeightedTerm[],
    k: number,
    hidden: Hidden | null,
    accepts: Accepts,
    walks: readonly Walk[],
  ): Steps<Candidates> {
    const add = eachList(terms, (located) => located.segments[number], walks);
    const best = () => this.#scores.best(segment.ordinals, null, k, accepts);
    return this.#scored(segment.recordCount, hidden?.segments[number], add, best);
  }

  /** @param slotsEnd slots are below this. @param hidden slots that are not to be found */
  *#scored(
    slotsEnd: number,
    hidden: readonly number[] | undefined,
    add: Steps<void>,
    best: () => Candidates,
  ): Steps<Candidates> {
    const scores = this.#scores;
    scores.begin(slotsEnd);
    try {
      if (hidden) for (const slot of hidden) scores.touch(slot, hiddenState);
      yield* add;
      return best();
    } finally {
      scores.end();
    }
  }

  /** Finds the records with a contribution of at least `least`. @returns the length of the list */
  #consider(buffer: BufferReader, list: number, weight: number, least: number): number {
    const { states } = this.#scores;
    const { count, slots, values } = buffer.read(list);
    for (let i = 0; i < count; i++)
      if (weight * values[i] >= least && states[slots[i]] === 0) this.#scores.touch(slots[i], found);
    return count;
  }

  #addSparse(buffer: BufferReader, list: number, weight: number, isAnyFound: boolean): number {
    const { states, scores } = this.#scores;
    const { count, slots, values } = buffer.read(list);
    for (let i = 0; i < count; i++) {
      const slot = slots[i];
      if (states[slot] === 0) {
        if (!isAnyFound) continue;
        this.#scores.touch(slot, found);
      }
      scores[slot] += weight * values[i];
    }
    return count;
  }

  /** ... of a segment's. @param number of the segment */
  *sparseInSegment(
    segment: SegmentReader,
    number: number,
    terms: readonly WeightedTerm[],
    k: number,
    hidden: Hidden | null,
    least: number | null,
    accepts: Accepts = null,
  ): Steps<Candidates> {
    const scores = this.#scores;
    const each = (list: number, weight: number, onPosting: (record: number, product: number) => void) => {
      const count = segment.countOf(list);
      for (let i = 0; i < count; i++) {
        const record = segment.recordAt(list, i);
        if (!segment.isRemoved(record)) onPosting(record, weight * segment.valueOf(list, i));
      }
      return count;
    };
    const consider = (record: number, product: number) => {
      if (product >= (least as number) && scores.states[record] === 0) scores.touch(record, found);
    };
    const add = (record: number, product: number) => {
      if (scores.states[record] === 0) {
        if (least !== null) return;
        scores.touch(record, found);
      }
      scores.scores[record] += product;
    };
    const walks: Walk[] = [(list, weight) => each(list, weight, add)];
    if (least !== null) walks.unshift((list, weight) => each(list, weight, consider));
    return yield* this.#bestOfSegment(segment, number, terms, k, hidden, accepts, walks);
  }

  /** The k best of a text index's mutable buffer, of the records that may be found. @param number of the mutable buffer */
  *acceptedInBuffer(
    buffer: BufferReader,
    number: number,
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    accepts: Accepts,
  ): Steps<Candidates> {
    if (buffer.count === 0) return nothing;
    const add: Walk = (list, weight, within) => {
      const ordinals = buffer.ordinals.values;
      const { count, slots, values } = buffer.read(list);
      for (let i = 0; i < count; i++) {
        if (within !== null && !contains(within, ordinals[slots[i]])) continue;
        this.#addImpact(slots[i], weight, values[i], buffer.lengths.values[slots[i]], formula);
      }
      return count;
    };
    return yield* this.#bestOfBuffer(buffer, number, terms, k, hidden, accepts, [add]);
  }

  /** ... of a segment. @param number of the segment */
  *acceptedInSegment(
    segment: SegmentReader,
    number: number,
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    accepts: Accepts,
  ): Steps<Candidates> {
    const add: Walk = (list, weight, within) => {
      if (within !== null) {
        this.#addWithin(segment, list, weight, within, formula);
        return within.length;
      }
      const count = segment.countOf(list);
      for (let i = 0; i < count; i++) {
        const record = segment.recordAt(list, i);
        if (segment.isRemoved(record)) continue;
        this.#addImpact(record, weight, segment.valueOf(list, i), segment.lengths[record], formula);
      }
      return count;
    };
    return yield* this.#bestOfSegment(segment, number, terms, k, hidden, accepts, [add]);
  }

  /** Adds what a list gives some records: mostly few, which are looked up instead of all being gone through. */
  #addWithin(
    segment: SegmentReader,
    list: number,
    weight: number,
    within: OrdinalSet,
    formula: Formula,
  ): void {
    for (let at = firstFrom(within, segment.firstOrdinal); at < within.length; at++) {
      if (within[at] > segment.lastOrdinal) return;
      const record = segment.recordOf(within[at]);
      const posting = record < 0 ? -1 : segment.postingOf(list, record);
      if (posting < 0) continue;
      this.#addImpact(record, weight, segment.valueOf(list, posting), segment.lengths[record], formula);
    }
  }

  #addImpact(slot: number, weight: number, tf: number, length: number, { fixed, perTerm }: Formula): void {
    if (this.#scores.states[slot] === 0) this.#scores.touch(slot, found);
    // What hidden records score is never read. The kernel takes the same steps.
    this.#scores.scores[slot] += (weight * tf) / (tf + fixed + perTerm * length);
  }
}

/**
 * Walks the lists of the terms, in steps.
 * @param listOf the position of a term's list; below 0 if there is none
 */
function* eachList(
  terms: readonly WeightedTerm[],
  listOf: (located: Located) => number,
  walks: readonly Walk[],
): Steps<void> {
  let done = 0;
  for (const walk of walks)
    for (const { located, weight, within = null } of terms) {
      const list = listOf(located);
      if (list < 0) continue;
      done += postingsPerList + walk(list, weight, within);
      if (done < postingsPerStep) continue;
      done = 0;
      yield;
    }
}
