// What do the postings of a list add at most?

import { entry, longList, topImpactBits, topImpactsMax } from "@quiverdb/kernels/postings";
import type { SegmentReader } from "./segment-reader.ts";

/** Upper bounds of what a list's postings add: base + slope * quantized impact for each, `most` for all. */
export type Bound = { base: number; slope: number; most: number };

export function boundsOf(segment: SegmentReader, list: number, weight: number, growth: number): Bound {
  const at = (segment.entryOf(list) + entry.base) >>> 2;
  const { floats } = segment.arena;
  const base = floats[at];
  const slope = floats[at + 1];
  if (weight >= 0) {
    const factor = weight * growth;
    return { base: factor * base, slope: factor * slope, most: factor * floats[at + 2] };
  }
  // With a negative weight the smallest impact adds most, and the impact of a posting is at least that of the next smaller quantized
  // impact.
  return { base: weight * (base - slope), slope: weight * slope, most: weight * base };
}

/**
 * The contribution of the greatest posting of a list; if records were removed or are hidden, the best bound that is known without a search.
 * @param hidden records that do not count
 */
export function greatestIn(
  segment: SegmentReader,
  list: number,
  weight: number,
  hidden: ReadonlySet<number> = noRecords,
): number {
  const removed = segment.removedIn(list) + hidden.size;
  if (removed === 0) return boundsOf(segment, list, weight, 1).most;
  const ranked = weight >= 0 ? impactAtRank(segment, list, removed + 1) : undefined;
  if (ranked !== undefined) return weight * ranked;
  let greatest = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < segment.countOf(list); i++) {
    const record = segment.recordAt(list, i);
    if (!segment.isRemoved(record) && !hidden.has(record))
      greatest = Math.max(greatest, weight * segment.valueOf(list, i));
  }
  return greatest;
}

const noRecords: ReadonlySet<number> = new Set();

/**
 * A top-k impact bound: an impact that the `rank` greatest postings of a list reach, for the average length when the segment was
 * written; undefined where the list stores none.
 */
export function impactAtRank(segment: SegmentReader, list: number, rank: number): number | undefined {
  const count = segment.countOf(list);
  const power = Math.max(topImpactBits, Math.ceil(Math.log2(rank)));
  if (count < longList || 2 ** power > count || power >= topImpactBits + topImpactsMax) return undefined;
  const at = segment.entryOf(list);
  const quantized = segment.arena.bytes[at + entry.topImpacts + power - topImpactBits];
  // A quantized impact is rounded up, so the true impact is greater than the next smaller one.
  const { floats } = segment.arena;
  return floats[(at + entry.base) >>> 2] + floats[(at + entry.slope) >>> 2] * Math.max(0, quantized - 1);
}
