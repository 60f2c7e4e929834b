// How do checks walk all postings of an index, and which invariants hold for them?
//
// Comparisons with the records and `check` use this. Both take time in proportion to the whole index.

import {
  blockRecords,
  blocksMax,
  entry,
  kinds,
  longList,
  segmentRecordsMax,
  topImpactBits,
  topImpactsMax,
  windowRecords,
  windowsMax,
} from "@quiverdb/kernels/postings";
import { compareBytes } from "../../base/bytes.ts";
import { invariant } from "../../base/invariant.ts";
import type { MutableBuffer } from "./mutable-buffer.ts";
import type { OwnedParts } from "./posting-parts.ts";
import type { Formula } from "./query.ts";
import type { Segment } from "./segment.ts";
import {
  blockImpactsAt,
  columnsOf,
  highImpactCountOf,
  windowImpactsAt,
  windowsBytes,
} from "./segment-layout.ts";

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
  formulaOf: (averageLength: number) => Formula,
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
    checkSegment(segment, formulaOf(segment.averageLength));
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

// ---- Does a segment follow segment-layout.ts?
//
// Every column, bound, window, top-k impact bound and high-impact posting is computed again from the exact postings.

/**
 * Verifies the invariants of a segment's allocation. @param formula of impacts at the time when the quantized ones were computed
 */
function checkSegment(segment: Segment, formula: Formula): void {
  invariant(
    segment.recordCount > 0 && segment.recordCount <= segmentRecordsMax,
    `a segment of ${segment.recordCount} records`,
  );
  assertAscends(segment.ordinals, "ordinals");
  assertAscends(segment.terms, "terms");
  let removed = 0;
  for (let record = 0; record < segment.recordCount; record++) if (segment.isRemoved(record)) removed++;
  invariant(
    removed === segment.removedCount,
    `${removed} records are marked removed, not ${segment.removedCount}`,
  );
  const lengths = new Float64Array(segment.recordCount);
  let postings = 0;
  for (let list = 0; list < segment.listCount; list++) {
    postings += segment.countOf(list);
    checkList(segment, list, lengths, formula);
  }
  invariant(postings === segment.postings, `lists have ${postings} postings of ${segment.postings}`);
  if (segment.kind === kinds.sparse) return;
  // A character of Chinese, Japanese or Korean has one position, with up to two terms.
  for (const [record, length] of segment.lengths.entries())
    invariant(
      lengths[record] <= 2 * length,
      `record ${record} has ${lengths[record]} terms in ${length} places`,
    );
}

function checkList(segment: Segment, list: number, lengths: Float64Array, { fixed, perTerm }: Formula): void {
  const count = segment.countOf(list);
  const place = segment.placeOf(list);
  const boundsAt = (segment.entryOf(list) + entry.base) >>> 2;
  const [base, slope, most] = segment.arena.floats.subarray(boundsAt, boundsAt + 3);
  const { quantizedImpacts, windows } = columnsOf(segment.kind, count);
  invariant(count > 0, `term ${segment.terms[list]} has an empty list`);
  const ends = new Uint32Array(windowsMax);
  const greatest = new Uint8Array(windowsMax);
  const inBlock = new Uint8Array(blocksMax);
  let last = -1;
  for (let i = 0; i < count; i++) {
    const record = segment.recordAt(list, i);
    invariant(
      record > last && record < segment.recordCount,
      `record ${record} follows ${last} in list ${list}`,
    );
    last = record;
    const value = segment.valueOf(list, i);
    lengths[record] += value;
    const impact =
      segment.kind === kinds.sparse ? value : value / (value + fixed + perTerm * segment.lengths[record]);
    const quantized = segment.arena.bytes[place + quantizedImpacts + i];
    invariant(
      quantized <= segment.levels,
      `list ${list} has a quantized impact of ${quantized} of ${segment.levels}`,
    );
    invariant(
      base + slope * quantized >= impact,
      `list ${list} bounds ${impact} by ${base + slope * quantized}`,
    );
    invariant(impact <= most, `list ${list} has an impact of ${impact}, more than ${most}`);
    invariant(base + slope * Math.max(0, quantized - 1) <= impact, `list ${list} bounds ${impact} loosely`);
    const window = Math.floor(record / windowRecords);
    ends[window] = i + 1;
    greatest[window] = Math.max(greatest[window], quantized);
    const block = Math.floor(record / blockRecords);
    inBlock[block] = Math.max(inBlock[block], quantized);
  }
  if (count < longList) return;
  let begin = 0;
  for (let window = 0; window < windowsMax; window++) {
    const at = place + windows;
    invariant(
      segment.arena.words[(at >>> 2) + window] === begin,
      `list ${list}: window ${window} begins wrong`,
    );
    invariant(
      segment.arena.bytes[at + windowImpactsAt + window] === greatest[window],
      `list ${list}: a quantized impact of a window`,
    );
    begin = Math.max(begin, ends[window]);
  }
  const blocks = segment.arena.bytes.subarray(place + windows + blockImpactsAt).subarray(0, blocksMax);
  invariant(compareBytes(blocks, inBlock) === 0, `list ${list}: the quantized impacts of its blocks`);
  invariant(segment.arena.words[((place + windows) >>> 2) + windowsMax] === count, `list ${list}: its end`);
  const descending = segment.arena.bytes
    .slice(place + quantizedImpacts, place + quantizedImpacts + count)
    .sort()
    .reverse();
  for (let i = 0; i < topImpactsMax; i++) {
    const quantized = segment.arena.bytes[segment.entryOf(list) + entry.topImpacts + i];
    invariant(
      quantized === (descending[2 ** (topImpactBits + i) - 1] ?? 0),
      `list ${list}: top-k impact bound ${i} is ${quantized}`,
    );
  }
  if (segment.kind === kinds.sparse)
    checkHighImpact(segment, list, place + quantizedImpacts, place + windows + windowsBytes);
}

/** @param at where the high-impact prefix begins */
function checkHighImpact(segment: Segment, list: number, quantizedAt: number, at: number): void {
  const { bytes, halves } = segment.arena;
  const count = segment.countOf(list);
  const postings = Array.from({ length: count }, (_, i) => ({
    record: segment.recordAt(list, i),
    quantized: bytes[quantizedAt + i],
  }));
  const highImpact = postings
    .sort((a, b) => b.quantized - a.quantized || a.record - b.record)
    .slice(0, highImpactCountOf(count));
  for (const [i, { record, quantized }] of highImpact.entries())
    invariant(
      halves[(at >>> 1) + i] === record && bytes[at + 2 * highImpact.length + i] === quantized,
      `list ${list}: high-impact posting ${i} is not record ${record} with quantized impact ${quantized}`,
    );
}

function assertAscends(values: Uint32Array, what: string): void {
  for (let i = 1; i < values.length; i++)
    invariant(values[i] > values[i - 1], `${what} of a segment: ${values[i]} follows ${values[i - 1]}`);
}

// ---- What number is a posting, where postings are compared by sums?
//
// A hash over 32 bits: two sums that are wrong by chance alike are as likely as one in 2^32.

const float = new Float32Array(1);
const floatBits = new Uint32Array(float.buffer);

/** Scatters a pair of numbers over 32 bits (the end of MurmurHash3). */
export function mix(a: number, b: number): number {
  let h = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Of a dimension and its weight. */
export function weightHash(dimension: number, weight: number): number {
  float[0] = weight;
  return mix(dimension, floatBits[0]);
}
