// What do the postings of a list add at most?

import { entry, longList, rankBits, ranksMax } from "@quiver/kernels/postings";
import type { Run } from "./run.ts";

/** What a list's postings add at most: base + slope * code each, `most` any of them. */
export type Bound = { base: number; slope: number; most: number };

export function boundsOf(run: Run, list: number, weight: number, growth: number): Bound {
  const at = (run.entryOf(list) + entry.base) >>> 2;
  const { floats } = run.arena;
  const base = floats[at];
  const slope = floats[at + 1];
  if (weight >= 0) {
    const factor = weight * growth;
    return { base: factor * base, slope: factor * slope, most: factor * floats[at + 2] };
  }
  // With a negative weight the least amount counts most, and a posting has at least what the next smaller code says.
  return { base: weight * (base - slope), slope: weight * slope, most: weight * base };
}

/**
 * What the greatest posting of a list adds; where records were removed or are hidden, at most that, and as near as is known without a
 * search.
 * @param hidden records that do not count
 */
export function greatestIn(
  run: Run,
  list: number,
  weight: number,
  hidden: ReadonlySet<number> = noRecords,
): number {
  const removed = run.removedIn(list) + hidden.size;
  if (removed === 0) return boundsOf(run, list, weight, 1).most;
  const ranked = weight >= 0 ? amountAtRank(run, list, removed + 1) : undefined;
  if (ranked !== undefined) return weight * ranked;
  let greatest = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < run.countOf(list); i++) {
    const record = run.recordAt(list, i);
    if (!run.isRemoved(record) && !hidden.has(record))
      greatest = Math.max(greatest, weight * run.valueOf(list, i));
  }
  return greatest;
}

const noRecords: ReadonlySet<number> = new Set();

/** An amount that so many postings of a list have or exceed, when its codes were made; undefined where that is not known. */
export function amountAtRank(run: Run, list: number, rank: number): number | undefined {
  const count = run.countOf(list);
  const power = Math.max(rankBits, Math.ceil(Math.log2(rank)));
  if (count < longList || 2 ** power > count || power >= rankBits + ranksMax) return undefined;
  const at = run.entryOf(list);
  const code = run.arena.bytes[at + entry.ranks + power - rankBits];
  // A code is rounded up: what it stands for is more than the next smaller one.
  const { floats } = run.arena;
  return floats[(at + entry.base) >>> 2] + floats[(at + entry.slope) >>> 2] * Math.max(0, code - 1);
}
