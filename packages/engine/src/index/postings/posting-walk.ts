// How do checks walk all postings of an index, and which invariants hold for them?
//
// Comparisons with the records and `check` use this. Both take time in proportion to the whole index.

import { invariant } from "../../base/invariant.ts";
import type { MutableBuffer } from "./mutable-buffer.ts";
import type { OwnedParts } from "./posting-parts.ts";
import { checkSegment } from "./segment-check.ts";
import type { ImpactOf } from "./segment-writer.ts";

/**
 * All postings of the current records, one list per step. Between steps the index may be used and changed; records that are added meanwhile
 * are skipped.
 * @returns whether all postings were reported; false if segments were merged in the meantime, and the caller must start again
 */
export function* postingsOf(
  parts: OwnedParts,
  onPosting: (term: number, ordinal: number, value: number) => void,
): Generator<void, boolean> {
  const segments = [...parts.segments];
  for (const buffer of parts.buffers)
    for (const term of buffer.lists.terms) {
      const { count, slots, values } = buffer.read(buffer.listOf(term));
      for (let i = 0; i < count; i++)
        if (!buffer.isRemoved(slots[i])) onPosting(term, buffer.ordinals.values[slots[i]], values[i]);
    }
  for (const segment of segments)
    for (let list = 0; list < segment.listCount; list++) {
      yield;
      if (!parts.segments.includes(segment)) return false;
      for (let i = 0; i < segment.countOf(list); i++) {
        const record = segment.recordAt(list, i);
        if (!segment.isRemoved(record))
          onPosting(segment.terms[list], segment.ordinals[record], segment.valueOf(list, i));
      }
    }
  return true;
}

/** How often `onTermUsed` was called for each term, less `onTermUnused`. */
export function usesOfTerms(parts: OwnedParts): Map<number, number> {
  const uses = new Map<number, number>();
  const use = (term: number) => uses.set(term, (uses.get(term) ?? 0) + 1);
  for (const segment of parts.segments) segment.terms.forEach(use);
  for (const { lists } of parts.buffers) lists.terms.forEach(use);
  return uses;
}

/**
 * Proves that segments and mutable buffers are as they should be, and in their order.
 * @param frozenEnd every record with a smaller ordinal is in a segment
 * @param isMerged whether a segment is being merged: then it may have no record left
 */
export function checkParts(
  parts: OwnedParts,
  frozenEnd: number,
  isMerged: (segment: OwnedParts["segments"][number]) => boolean,
  impactOf: (averageLength: number) => ImpactOf,
): void {
  let last = -1;
  for (const segment of parts.segments) {
    invariant(
      segment.count > 0 || isMerged(segment),
      `the segment from ordinal ${segment.firstOrdinal} on has no record left`,
    );
    invariant(
      segment.firstOrdinal > last,
      `a segment begins with ordinal ${segment.firstOrdinal} after ${last}`,
    );
    last = segment.lastOrdinal;
    checkSegment(segment, impactOf(segment.averageLength));
  }
  for (const buffer of parts.buffers) {
    buffer.check();
    const [first] = ordinalsOf(buffer);
    invariant(
      first === undefined || first >= frozenEnd,
      `ordinal ${first} is in a mutable buffer below ${frozenEnd}`,
    );
    invariant(
      first === undefined || first > last,
      `a mutable buffer begins with ordinal ${first} after ${last}`,
    );
    last = ordinalsOf(buffer).at(-1) ?? last;
  }
  for (const ordinal of parts.retired)
    invariant(parts.has(ordinal), `the index marks ordinal ${ordinal} as retired, but does not hold it`);
}

/** The records of a mutable buffer that were not removed, ascending. */
function ordinalsOf(buffer: MutableBuffer): Uint32Array {
  return buffer.ordinals.values.slice(0, buffer.slotsEnd).filter((_ordinal, slot) => !buffer.isRemoved(slot));
}
