// Which records of the runs have the greatest scores?

import { area as areaFields, termBytes, term as termFields } from "@quiver/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import type { Candidates } from "../contract.ts";
import { Best } from "./best.ts";
import { amountAtRank, boundMargin, boundsOf } from "./list-bounds.ts";
import type { Formula, Hidden, WeightedTerm } from "./query.ts";
import { columnsOf, listHeaderBytes, longList, type Run } from "./run.ts";

/** f32 sums of n terms, of which the greatest possible is 1, are wrong by less than n + 4 times this. */
const sumError = 2 ** -23;

/** A search of the runs, as it goes on. */
type RunSearch = {
  readonly terms: readonly WeightedTerm[];
  readonly k: number;
  readonly formula: Formula;
  readonly limit: number;
  readonly hidden: Hidden | null;
  readonly best: Best;
  readonly hasNegative: boolean;
  floor: number;
};

export class RunSearcher {
  readonly #bounds = new RunBounds();

  /**
   * The k best records of the runs, and of what was found before, with all ties at the boundary.
   * @param before what was found elsewhere
   * @param limit only records that one posting gives so much, or nearly so; minus infinity: all
   */
  search(
    runs: readonly Run[],
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    limit: number,
    before: Candidates,
  ): Candidates {
    const hasNegative = terms.some(({ weight }) => weight < 0);
    const best = new Best(k, before);
    const search: RunSearch = { terms, k, formula, limit, hidden, best, hasNegative, floor: 0 };
    search.floor = Math.max(best.floor, knownFloor(runs, search));
    for (let i = 0; i < runs.length; i++) this.#searchRun(runs[i], i, search);
    return best.bestOfHeap();
  }

  #searchRun(run: Run, number: number, search: RunSearch): void {
    const { formula, hidden, best } = search;
    const bounds = this.#bounds;
    if (!bounds.set(run, number, search.terms, growthOf(run, formula), search.floor)) return;
    const { arena } = run;
    invariant(arena.reserve(bounds.count, search.k), "there is no memory for a search");
    const { words, floats, doubles } = arena;
    const at = arena.area >>> 2;
    const doublesAt = arena.area >>> 3;
    const scale = bounds.total > 0 ? 1 / bounds.total : 1;
    bounds.write(run, search.terms, scale);
    words[at + areaFields.termCount / 4] = bounds.count;
    words[at + areaFields.hidden / 4] = hidden?.runs[number].length
      ? writeHidden(run, hidden.runs[number])
      : run.removedBits.byteOffset;
    words[at + areaFields.lengths / 4] = run.lengths.byteOffset;
    words[at + areaFields.kind / 4] = run.kind;
    words[at + areaFields.k / 4] = search.k;
    words[at + areaFields.window / 4] = 0;
    words[at + areaFields.sinks / 4] = run.hasNegative || search.hasNegative ? 1 : 0;
    words[at + areaFields.foundCount / 4] = 0;
    words[at + areaFields.recordCount / 4] = run.recordCount;
    // Lower by what the kernel's amounts can be too small.
    floats[at + areaFields.limit / 4] = search.limit * scale - 4 * sumError;
    doubles[doublesAt + areaFields.floor / 8] = search.floor;
    doubles[doublesAt + areaFields.slack / 8] = (bounds.count + 4) * sumError;
    doubles[doublesAt + areaFields.fixed / 8] = formula.fixed;
    doubles[doublesAt + areaFields.perTerm / 8] = formula.perTerm;
    doubles[doublesAt + areaFields.scale / 8] = scale;
    best.enter(arena);
    for (let isDone = false; !isDone; ) {
      isDone = arena.kernels.searchRun(arena.area) !== 0;
      search.floor = doubles[doublesAt + areaFields.floor / 8];
      best.take(run, search.floor);
    }
  }
}

/** So few terms are faster sorted without a call for each comparison. */
const sortedByInsertion = 48;

/** What the terms of a search add in one run: columns that are used again for the next, for a search goes through many. */
class RunBounds {
  count = 0;
  /** The greatest absolute sum that there can be. */
  total = 0;
  #numbers = new Uint32Array(16);
  #lists = new Uint32Array(16);
  #bases = new Float64Array(16);
  #slopes = new Float64Array(16);
  #mosts = new Float64Array(16);
  /** Terms by ascending `most`. */
  #sorted: number[] = [];

  /** @returns whether a record of the run can reach the floor */
  set(run: Run, number: number, terms: readonly WeightedTerm[], growth: number, floor: number): boolean {
    if (this.#numbers.length < terms.length) this.#resize(2 * terms.length);
    this.count = 0;
    this.total = 0;
    let greatest = 0;
    for (let i = 0; i < terms.length; i++) {
      const list = terms[i].located.runs[number];
      if (list < 0) continue;
      const { base, slope, most } = boundsOf(run, list, terms[i].weight, growth);
      const at = this.count++;
      this.#numbers[at] = i;
      this.#lists[at] = list;
      this.#bases[at] = base;
      this.#slopes[at] = slope;
      this.#mosts[at] = most;
      this.total += Math.max(Math.abs(base), Math.abs(base + slope * run.levels));
      greatest += Math.max(0, most);
    }
    return this.count > 0 && !(greatest * boundMargin < floor);
  }

  /** Writes the terms into the area of the run's arena. */
  write(run: Run, terms: readonly WeightedTerm[], scale: number): void {
    const { arena } = run;
    const { words, floats, doubles } = arena;
    const mosts = this.#mosts;
    const sorted = this.#sorted;
    this.#sort();
    const order = arena.field("order") >>> 2;
    let at = arena.field("terms");
    for (let i = 0; i < this.count; i++, at += termBytes) {
      const term = sorted[i];
      const list = this.#lists[term];
      const listAt = run.placeOf(list);
      const count = run.counts[list];
      const columns = columnsOf(run.kind, count);
      const word = at >>> 2;
      words[word + termFields.records / 4] = listAt + listHeaderBytes;
      words[word + termFields.codes / 4] = listAt + columns.codes;
      words[word + termFields.exact / 4] = listAt + columns.exact;
      words[word + termFields.count / 4] = count;
      words[word + termFields.windows / 4] = count >= longList ? listAt + columns.windows : 0;
      floats[word + termFields.base / 4] = this.#bases[term] * scale;
      floats[word + termFields.slope / 4] = this.#slopes[term] * scale;
      floats[word + termFields.bound / 4] = mosts[term] * scale;
      doubles[(at + termFields.weight) >>> 3] = terms[this.#numbers[term]].weight;
      words[word + termFields.cursor / 4] = 0;
      words[word + termFields.end / 4] = 0;
      words[order + term] = i;
    }
  }

  #sort(): void {
    const mosts = this.#mosts;
    const sorted = this.#sorted;
    sorted.length = this.count;
    for (let i = 0; i < this.count; i++) sorted[i] = i;
    if (this.count > sortedByInsertion) {
      sorted.sort((a, b) => mosts[a] - mosts[b]);
      return;
    }
    for (let i = 1; i < this.count; i++) {
      let at = i;
      for (; at > 0 && mosts[sorted[at - 1]] > mosts[i]; at--) sorted[at] = sorted[at - 1];
      sorted[at] = i;
    }
  }

  #resize(length: number): void {
    this.#numbers = new Uint32Array(length);
    this.#lists = new Uint32Array(length);
    this.#bases = new Float64Array(length);
    this.#slopes = new Float64Array(length);
    this.#mosts = new Float64Array(length);
  }
}

/** How much more a posting can add than when the codes were made: with longer texts on average, a text is shorter beside them. */
function growthOf(run: Run, { averageLength }: Formula): number {
  if (run.averageLength === 0) return 1;
  // Without an average the length does not count at all.
  if (averageLength === 0) return Number.MAX_SAFE_INTEGER;
  return Math.max(1, averageLength / run.averageLength);
}

/** ... and how much less. */
function shrinkage(run: Run, { averageLength }: Formula): number {
  return averageLength > 0 && averageLength < run.averageLength ? averageLength / run.averageLength : 1;
}

/** Writes the bits of what is hidden from a search where the arena has room for them, and returns where. */
function writeHidden(run: Run, records: readonly number[]): number {
  const { bytes, hiddenAt } = run.arena;
  bytes.set(run.removedBits, hiddenAt);
  for (const record of records) bytes[hiddenAt + (record >>> 3)] |= 1 << (record & 7);
  return hiddenAt;
}

/** A score that k records are known to reach, from the ranks of long lists: one posting gives them as much. */
function knownFloor(
  runs: readonly Run[],
  { terms, k, formula, limit, hidden, hasNegative }: RunSearch,
): number {
  if (hasNegative) return Number.NEGATIVE_INFINITY;
  let floor = Number.NEGATIVE_INFINITY;
  for (const [i, run] of runs.entries()) {
    if (run.hasNegative) continue;
    const hiddenHere = hidden?.runs[i].length ?? 0;
    for (const { located, weight } of terms) {
      const list = located.runs[i];
      if (list < 0) continue;
      const amount = amountAtRank(run, list, k + run.removedIn(list) + hiddenHere);
      if (amount === undefined) continue;
      const least = (weight * amount * shrinkage(run, formula)) / boundMargin;
      if (least >= limit && least > floor) floor = least;
    }
  }
  return floor;
}
