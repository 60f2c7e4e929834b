// Which postings are there, of those that a version sees?
//
// What searches, statistics and explanations look up. Nothing here changes the index.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import type { Visible } from "../contract.ts";
import { absent } from "../ordinal-map.ts";
import { greatestIn } from "./list-bounds.ts";
import type { PostingParts } from "./posting-parts.ts";
import type { Hidden, Located, WeightedTerm } from "./query.ts";

export class PostingReader {
  readonly #parts: PostingParts;

  constructor(parts: PostingParts) {
    this.#parts = parts;
  }

  /** Another number whenever lists have come to other places. */
  get layout(): number {
    return this.#parts.layout;
  }

  /** Whether a record that is held was retired. */
  isRetired(ordinal: number): boolean {
    return this.#parts.retired.has(ordinal);
  }

  /** Where a term's postings are. Valid until the next change of the `layout`. */
  locate(term: number): Located {
    // A plain array: a typed one is made outside of the heap as soon as there are many runs.
    const runs: number[] = [];
    const tails = this.#parts.tails.map(({ lists }) => lists.get(term) ?? -1);
    let isAnywhere = tails.some((list) => list >= 0);
    for (let i = 0; i < this.#parts.runs.length; i++) {
      const list = this.#parts.runs[i].listOf(term);
      runs.push(list);
      if (list >= 0) isAnywhere = true;
    }
    return { runs, tails, isAnywhere };
  }

  /**
   * What a version does not see; null: it sees all. Only retired records and the youngest can be hidden (contract.ts), so only
   * of those it is asked.
   */
  hide(visible: Visible): Hidden | null {
    if (visible === null) return null;
    const hidden = {
      runs: this.#parts.runs.map((): number[] => []),
      tails: this.#parts.tails.map((): number[] => []),
    };
    let isAnyHidden = false;
    const hide = (ordinal: number) => {
      isAnyHidden = true;
      const number = this.#parts.runNumberOf(ordinal);
      if (number < 0)
        for (const [i, tail] of this.#parts.tails.entries()) {
          const slot = tail.slotOf(ordinal);
          if (slot >= 0) hidden.tails[i].push(slot);
        }
      else hidden.runs[number].push(this.#parts.runs[number].recordOf(ordinal));
    };
    for (const ordinal of this.hiddenOrdinals(visible)) hide(ordinal);
    return isAnyHidden ? hidden : null;
  }

  /** The ordinals that are held and that a version does not see, in no particular order. */
  *hiddenOrdinals(visible: Visible): Generator<number> {
    if (visible === null) return;
    for (const ordinal of this.#parts.retired) if (!visible(ordinal)) yield ordinal;
    for (const ordinal of this.#parts.fromYoungest()) {
      if (this.#parts.retired.has(ordinal)) continue;
      if (visible(ordinal)) break;
      yield ordinal;
    }
  }

  /** Records that have a term, of those that are not hidden. */
  documentFrequency({ runs, tails }: Located, hidden: Hidden | null): number {
    let df = 0;
    for (let i = 0; i < runs.length; i++) {
      const list = runs[i];
      if (list < 0) continue;
      const run = this.#parts.runs[i];
      df += run.countOf(list) - run.removedIn(list);
      if (hidden) for (const record of hidden.runs[i]) if (run.postingOf(list, record) >= 0) df--;
    }
    for (let i = 0; i < tails.length; i++) if (tails[i] >= 0) df += this.#countInTail(i, tails[i], hidden);
    return df;
  }

  /** What the greatest posting of some terms adds that is not hidden, or a little less. Of sparse vectors. */
  greatestAmount(terms: readonly WeightedTerm[], hidden: Hidden | null): number {
    const hiddenIn = hidden?.runs.map((records) => new Set(records));
    const hiddenInTails = hidden?.tails.map((slots) => new Set(slots));
    let greatest = Number.NEGATIVE_INFINITY;
    for (const { located, weight } of terms) {
      for (let i = 0; i < located.runs.length; i++) {
        const list = located.runs[i];
        if (list < 0) continue;
        const run = this.#parts.runs[i];
        greatest = Math.max(greatest, greatestIn(run, list, weight, hiddenIn?.[i]));
      }
      for (const [i, { postings, ordinals }] of this.#parts.tails.entries()) {
        if (located.tails[i] < 0) continue;
        const { count, slots, values } = postings.read(located.tails[i]);
        for (let at = 0; at < count; at++)
          if (ordinals.values[slots[at]] !== absent && !hiddenInTails?.[i].has(slots[at]))
            greatest = Math.max(greatest, weight * values[at]);
      }
    }
    return greatest;
  }

  /** @param number of the tail @param list of it */
  #countInTail(number: number, list: number, hidden: Hidden | null): number {
    const { postings, ordinals } = this.#parts.tails[number];
    const { count, slots } = postings.read(list);
    const slotsHidden = hidden?.tails[number] ?? [];
    const out = slotsHidden.length > 0 ? new Set(slotsHidden) : undefined;
    let df = 0;
    for (let i = 0; i < count; i++) if (ordinals.values[slots[i]] !== absent && !out?.has(slots[i])) df++;
    return df;
  }

  /** The ordinals held that have a term, ascending. */
  holdersOf({ runs, tails }: Located): Uint32Array {
    const holders = new Growable(Uint32Array);
    for (let i = 0; i < runs.length; i++) {
      const run = this.#parts.runs[i];
      if (runs[i] < 0) continue;
      for (let posting = 0; posting < run.countOf(runs[i]); posting++) {
        const record = run.recordAt(runs[i], posting);
        if (!run.isRemoved(record)) holders.push(run.ordinals[record]);
      }
    }
    for (const [i, { postings, ordinals }] of this.#parts.tails.entries()) {
      if (tails[i] < 0) continue;
      const { count, slots } = postings.read(tails[i]);
      for (let at = 0; at < count; at++) {
        const ordinal = ordinals.values[slots[at]];
        if (ordinal !== absent) holders.push(ordinal);
      }
    }
    return holders.values.slice(0, holders.length);
  }

  /**
   * What some records have of a term.
   * @param places by ordinal
   * @param onMatch told the value and the record's place
   */
  valuesOf(
    { runs, tails }: Located,
    places: ReadonlyMap<number, number>,
    onMatch: (place: number, value: number) => void,
  ): void {
    for (const [ordinal, place] of places) {
      const number = this.#parts.runNumberOf(ordinal);
      if (number < 0 || runs[number] < 0) continue;
      const run = this.#parts.runs[number];
      const posting = run.postingOf(runs[number], run.recordOf(ordinal));
      if (posting >= 0) onMatch(place, run.valueOf(runs[number], posting));
    }
    for (const [i, { postings, ordinals }] of this.#parts.tails.entries()) {
      if (tails[i] < 0) continue;
      const { count, slots, values } = postings.read(tails[i]);
      for (let at = 0; at < count; at++) {
        const place = places.get(ordinals.values[slots[at]]);
        if (place !== undefined) onMatch(place, values[at]);
      }
    }
  }

  /** The length of a text that is held. */
  lengthOf(ordinal: number): number {
    const run = this.#parts.runOf(ordinal);
    const tail = this.#parts.tailOf(ordinal);
    const place = run?.recordOf(ordinal) ?? tail?.slotOf(ordinal) ?? -1;
    invariant(place >= 0, `ordinal ${ordinal} is not held`);
    return (run?.lengths ?? tail?.lengths.values ?? [])[place];
  }
}
