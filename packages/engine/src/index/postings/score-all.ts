// Which records have the greatest scores, when every posting is scored?
//
// That is how the tail is searched, and runs where not all records may be found or not all terms count for all. Scores are added
// in the order of the query's terms, as everywhere: a record's score does not depend on where it lies.

import type { Candidates } from "../contract.ts";
import { nothing } from "../contract.ts";
import { contains, firstFrom, type OrdinalSet } from "../ordinal-sets.ts";
import type { Formula, Hidden, WeightedTerm } from "./query.ts";
import { type Accepts, found, hidden as hiddenState, RecordScores } from "./record-scores.ts";
import type { Run } from "./run.ts";
import type { Tail } from "./tail.ts";

export class FullScorer {
  readonly #scores = new RecordScores();

  get memoryBytes(): number {
    return this.#scores.memoryBytes;
  }

  /**
   * The k best of the tail's records, with all ties at the boundary.
   * @param number of the tail
   * @param least only records that one posting gives so much; null: all
   */
  sparseTail(
    tail: Tail<Float32Array | Uint32Array>,
    number: number,
    terms: readonly WeightedTerm[],
    k: number,
    hidden: Hidden | null,
    least: number | null,
  ): Candidates {
    if (tail.count === 0) return nothing;
    return this.#best(tail.slotsEnd, hidden?.tails[number], tail.ordinals.values, k, null, () => {
      if (least !== null)
        for (const { located, weight } of terms) this.#consider(tail, located.tails[number], weight, least);
      for (const { located, weight } of terms)
        if (located.tails[number] >= 0) this.#addSparse(tail, located.tails[number], weight, least === null);
    });
  }

  /**
   * The k best of records, when `add` has added up their scores.
   * @param slotsEnd slots are below this
   * @param hidden slots that are not to be found
   * @param ordinals by slot
   */
  #best(
    slotsEnd: number,
    hidden: readonly number[] | undefined,
    ordinals: Uint32Array,
    k: number,
    accepts: Accepts,
    add: () => void,
  ): Candidates {
    const scores = this.#scores;
    scores.begin(slotsEnd);
    try {
      if (hidden) for (const slot of hidden) scores.touch(slot, hiddenState);
      add();
      return scores.best(ordinals, k, accepts);
    } finally {
      scores.end();
    }
  }

  #consider(tail: Tail<Float32Array | Uint32Array>, list: number, weight: number, least: number): void {
    if (list < 0) return;
    const { states } = this.#scores;
    const { count, slots, values } = tail.postings.read(list);
    for (let i = 0; i < count; i++)
      if (weight * values[i] >= least && states[slots[i]] === 0) this.#scores.touch(slots[i], found);
  }

  #addSparse(
    tail: Tail<Float32Array | Uint32Array>,
    list: number,
    weight: number,
    isAnyFound: boolean,
  ): void {
    const { states, scores } = this.#scores;
    const { count, slots, values } = tail.postings.read(list);
    for (let i = 0; i < count; i++) {
      const slot = slots[i];
      if (states[slot] === 0) {
        if (!isAnyFound) continue;
        this.#scores.touch(slot, found);
      }
      scores[slot] += weight * values[i];
    }
  }

  /** ... of a run's. @param number of the run */
  sparseInRun(
    run: Run,
    number: number,
    terms: readonly WeightedTerm[],
    k: number,
    hidden: Hidden | null,
    least: number | null,
  ): Candidates {
    const scores = this.#scores;
    return this.#best(run.recordCount, hidden?.runs[number], run.ordinals, k, null, () => {
      const { states } = scores;
      const each = (onPosting: (record: number, product: number) => void): void => {
        for (const { located, weight } of terms) {
          const list = located.runs[number];
          if (list < 0) continue;
          for (let i = 0; i < run.countOf(list); i++) {
            const record = run.recordAt(list, i);
            if (!run.isRemoved(record)) onPosting(record, weight * run.valueOf(list, i));
          }
        }
      };
      if (least !== null)
        each((record, product) => {
          if (product >= least && states[record] === 0) scores.touch(record, found);
        });
      each((record, product) => {
        if (states[record] === 0) {
          if (least !== null) return;
          scores.touch(record, found);
        }
        scores.scores[record] += product;
      });
    });
  }

  /** The k best of a text index's tail, of the records that may be found. @param number of the tail */
  acceptedInTail(
    tail: Tail<Float32Array | Uint32Array>,
    number: number,
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    accepts: Accepts,
  ): Candidates {
    if (tail.count === 0) return nothing;
    const ordinals = tail.ordinals.values;
    return this.#best(tail.slotsEnd, hidden?.tails[number], ordinals, k, accepts, () => {
      for (const { located, weight, within = null } of terms) {
        const list = located.tails[number];
        if (list < 0) continue;
        const { count, slots, values } = tail.postings.read(list);
        for (let i = 0; i < count; i++) {
          if (within !== null && !contains(within, ordinals[slots[i]])) continue;
          this.#addAmount(slots[i], weight, values[i], tail.lengths.values[slots[i]], formula);
        }
      }
    });
  }

  /** ... of a run. @param number of the run */
  acceptedInRun(
    run: Run,
    number: number,
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    accepts: Accepts,
  ): Candidates {
    return this.#best(run.recordCount, hidden?.runs[number], run.ordinals, k, accepts, () => {
      for (const { located, weight, within = null } of terms) {
        const list = located.runs[number];
        if (list < 0) continue;
        if (within !== null) {
          this.#addWithin(run, list, weight, within, formula);
          continue;
        }
        for (let i = 0; i < run.countOf(list); i++) {
          const record = run.recordAt(list, i);
          if (run.isRemoved(record)) continue;
          this.#addAmount(record, weight, run.valueOf(list, i), run.lengths[record], formula);
        }
      }
    });
  }

  /** Adds what a list gives some records: mostly few, which are looked up instead of all being gone through. */
  #addWithin(run: Run, list: number, weight: number, within: OrdinalSet, formula: Formula): void {
    for (let at = firstFrom(within, run.firstOrdinal); at < within.length; at++) {
      if (within[at] > run.lastOrdinal) return;
      const record = run.recordOf(within[at]);
      const posting = record < 0 ? -1 : run.postingOf(list, record);
      if (posting < 0) continue;
      this.#addAmount(record, weight, run.valueOf(list, posting), run.lengths[record], formula);
    }
  }

  #addAmount(slot: number, weight: number, tf: number, length: number, { fixed, perTerm }: Formula): void {
    if (this.#scores.states[slot] === 0) this.#scores.touch(slot, found);
    // What hidden records score is never read. The kernel takes the same steps.
    this.#scores.scores[slot] += (weight * tf) / (tf + fixed + perTerm * length);
  }
}
