// Which ordinals are in all of these sets, in any, or in this one?
//
// A set is an ascending Uint32Array without repetitions, like the order of postings.

import type { Steps } from "../base/steps.ts";

/** Ascending ordinals, each once. */
export type OrdinalSet = Uint32Array;

export const noOrdinals: OrdinalSet = new Uint32Array(0);

/** Whether an ordinal, or any other number, is in an ascending list. */
export function contains(set: OrdinalSet, wanted: number): boolean {
  const at = firstFrom(set, wanted);
  return at < set.length && set[at] === wanted;
}

/** The position of the first of `length` that is not smaller; `length` if there is none. */
export function firstFrom(set: OrdinalSet, wanted: number, length = set.length): number {
  let from = 0;
  let to = length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (set[middle] < wanted) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** The union of the sets. */
export function unionOf(sets: readonly OrdinalSet[]): OrdinalSet {
  if (sets.length === 0) return noOrdinals;
  if (sets.length === 1) return sets[0];
  const all = new Uint32Array(sets.reduce((sum, set) => sum + set.length, 0));
  let length = 0;
  for (const set of sets) {
    all.set(set, length);
    length += set.length;
  }
  all.sort();
  let kept = 0;
  for (let i = 0; i < length; i++) if (i === 0 || all[i] !== all[i - 1]) all[kept++] = all[i];
  return all.subarray(0, kept);
}

/** Ordinals that are merged at a step, about. */
const mergedPerStep = 50_000;

/** `unionOf` many sets, in steps. */
export function* unionInSteps(sets: readonly OrdinalSet[]): Steps<OrdinalSet> {
  let level = sets;
  let merged = 0;
  while (level.length > 1) {
    const next: OrdinalSet[] = [];
    for (let i = 0; i < level.length; i += 2) {
      const union = i + 1 < level.length ? unionOfTwo(level[i], level[i + 1]) : level[i];
      next.push(union);
      merged += union.length;
      if (merged < mergedPerStep) continue;
      merged = 0;
      yield;
    }
    level = next;
  }
  return level[0] ?? noOrdinals;
}

function unionOfTwo(a: OrdinalSet, b: OrdinalSet): OrdinalSet {
  const all = new Uint32Array(a.length + b.length);
  let count = 0;
  for (let i = 0, j = 0; i < a.length || j < b.length; count++) {
    const isFromA = j === b.length || (i < a.length && a[i] <= b[j]);
    const ordinal = isFromA ? a[i] : b[j];
    if (i < a.length && a[i] === ordinal) i++;
    if (j < b.length && b[j] === ordinal) j++;
    all[count] = ordinal;
  }
  return all.subarray(0, count);
}

/** The intersection of the sets, at least one. */
export function intersectionOf(sets: readonly OrdinalSet[]): OrdinalSet {
  const [shortest, ...others] = [...sets].sort((a, b) => a.length - b.length);
  return others.reduce((common, set) => sifted(common, set, true), shortest);
}

/** The ordinals in `set` that are not in `excluded`. */
export function differenceOf(set: OrdinalSet, excluded: OrdinalSet): OrdinalSet {
  return sifted(set, excluded, false);
}

/** If the other set is this many times longer, it is searched for each ordinal; otherwise it is walked once. */
const searchFactor = 16;

/** What of `set` is in `other`, or is not. */
function sifted(set: OrdinalSet, other: OrdinalSet, isWanted: boolean): OrdinalSet {
  const kept = new Uint32Array(set.length);
  let count = 0;
  const isSearched = other.length > searchFactor * set.length;
  for (let i = 0, at = 0; i < set.length; i++) {
    const ordinal = set[i];
    if (!isSearched) while (at < other.length && other[at] < ordinal) at++;
    const isIn = isSearched ? contains(other, ordinal) : at < other.length && other[at] === ordinal;
    if (isIn === isWanted) kept[count++] = ordinal;
  }
  return kept.subarray(0, count);
}
