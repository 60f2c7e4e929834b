// Which postings does a version see?
//
// Searches, statistics and explanations look postings up here. Nothing here changes the index.

import { entry, longList, topImpactBits, topImpactsMax } from "@quiverdb/kernels/postings";
import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { Visible } from "../contract.ts";
import type { Allowed, OrdinalBitmap } from "../ordinal-bitmap.ts";
import type { PostingParts } from "./posting-parts.ts";
import type { Hidden, Located, WeightedTerm } from "./query.ts";
import type { SegmentReader } from "./segment-reader.ts";

/** Records whose lengths are added up at a step. */
const recordsPerStep = 100_000;

export class PostingReader {
  readonly #parts: PostingParts;

  constructor(parts: PostingParts) {
    this.#parts = parts;
  }

  /** Changes whenever lists move. */
  get layout(): number {
    return this.#parts.layout;
  }

  /** Where a term's postings are. Valid until the next change of the `layout`. */
  locate(term: number): Located {
    // This runs for every term. So plain arrays, because typed ones are allocated outside the heap if they are long; of their length, because
    // the first push would make room for 17; and loops.
    const { segments: allSegments, buffers: allBuffers } = this.#parts;
    const segments = new Array<number>(allSegments.length);
    const buffers = new Array<number>(allBuffers.length);
    let isAnywhere = false;
    for (let i = 0; i < segments.length; i++) {
      const list = allSegments[i].listOf(term);
      segments[i] = list;
      if (list >= 0) isAnywhere = true;
    }
    for (let i = 0; i < buffers.length; i++) {
      const list = allBuffers[i].listOf(term);
      buffers[i] = list;
      if (list >= 0) isAnywhere = true;
    }
    return { segments, buffers, isAnywhere };
  }

  /**
   * The records that a version does not see; null: it sees all. Only retired and the youngest records can be hidden (contract.ts), so
   * this tests no others.
   */
  hide(visible: Visible): Hidden | null {
    if (visible === null) return null;
    const hidden = {
      segments: this.#parts.segments.map((): number[] => []),
      buffers: this.#parts.buffers.map((): number[] => []),
    };
    let isAnyHidden = false;
    const hide = (ordinal: number) => {
      isAnyHidden = true;
      const number = this.#parts.segmentNumberOf(ordinal);
      if (number < 0)
        for (const [i, buffer] of this.#parts.buffers.entries()) {
          const slot = buffer.slotOf(ordinal);
          if (slot >= 0) hidden.buffers[i].push(slot);
        }
      else {
        const record = this.#parts.segments[number].recordOf(ordinal);
        if (record >= 0) hidden.segments[number].push(record);
      }
    };
    for (const ordinal of this.#hiddenOrdinals(visible)) hide(ordinal);
    return isAnyHidden ? hidden : null;
  }

  /** The ordinals that are held and that a version does not see, each once and in no particular order. */
  *hiddenOrdinals(visible: Visible): Generator<number> {
    for (const ordinal of this.#hiddenOrdinals(visible)) if (this.#parts.has(ordinal)) yield ordinal;
  }

  /** The same, and perhaps some that are not held any more. */
  *#hiddenOrdinals(visible: Visible): Generator<number> {
    if (visible === null) return;
    // The youngest ones that it does not see, retired or not: down to this one.
    let youngest = Number.POSITIVE_INFINITY;
    for (const ordinal of this.#parts.fromYoungest()) {
      if (visible(ordinal)) break;
      youngest = ordinal;
      yield ordinal;
    }
    const { values, length } = this.#parts.retired.log;
    for (let i = 0; i < length; i++) if (values[i] < youngest && !visible(values[i])) yield values[i];
  }

  /** Records that have a term, of those that are not hidden. @param rows only these count; null: all */
  documentFrequency(located: Located, hidden: Hidden | null, rows: Allowed = null): number {
    this.#parts.assertLocated(located);
    return rows === null ? this.#frequency(located, hidden) : this.#frequencyAmong(located, hidden, rows);
  }

  #frequencyAmong({ segments, buffers }: Located, hidden: Hidden | null, rows: OrdinalBitmap): number {
    let df = 0;
    for (const [i, list] of segments.entries()) {
      if (list < 0) continue;
      const segment = this.#parts.segments[i];
      const out = new Set(hidden?.segments[i]);
      for (let posting = 0; posting < segment.countOf(list); posting++) {
        const record = segment.recordAt(list, posting);
        if (rows.has(segment.ordinals[record]) && !segment.isRemoved(record) && !out.has(record)) df++;
      }
    }
    for (let i = 0; i < buffers.length; i++)
      if (buffers[i] >= 0) df += this.#countInBuffer(i, buffers[i], hidden, rows);
    return df;
  }

  #frequency({ segments, buffers }: Located, hidden: Hidden | null): number {
    let df = 0;
    for (let i = 0; i < segments.length; i++) {
      const list = segments[i];
      if (list < 0) continue;
      const segment = this.#parts.segments[i];
      df += segment.countOf(list) - segment.removedIn(list);
      if (hidden) for (const record of hidden.segments[i]) if (segment.postingOf(list, record) >= 0) df--;
    }
    for (let i = 0; i < buffers.length; i++)
      if (buffers[i] >= 0) df += this.#countInBuffer(i, buffers[i], hidden);
    invariant(df >= 0, () => `${df} records have a term: more of them are removed or hidden than there are`);
    return df;
  }

  /** The greatest impact of a visible posting of some terms, or a little less. For sparse vectors. */
  greatestImpact(terms: readonly WeightedTerm[], hidden: Hidden | null): number {
    const hiddenIn = hidden?.segments.map((records) => new Set(records));
    const hiddenInBuffers = hidden?.buffers.map((slots) => new Set(slots));
    let greatest = Number.NEGATIVE_INFINITY;
    for (const { located, weight } of terms) {
      this.#parts.assertLocated(located);
      for (let i = 0; i < located.segments.length; i++) {
        const list = located.segments[i];
        if (list < 0) continue;
        const segment = this.#parts.segments[i];
        greatest = Math.max(greatest, greatestIn(segment, list, weight, hiddenIn?.[i]));
      }
      for (const [i, buffer] of this.#parts.buffers.entries()) {
        if (located.buffers[i] < 0) continue;
        const { count, slots, values } = buffer.read(located.buffers[i]);
        for (let at = 0; at < count; at++)
          if (!buffer.isRemoved(slots[at]) && !hiddenInBuffers?.[i].has(slots[at]))
            greatest = Math.max(greatest, weight * values[at]);
      }
    }
    return greatest;
  }

  /** @param number of the mutable buffer @param list of it */
  #countInBuffer(number: number, list: number, hidden: Hidden | null, rows: Allowed = null): number {
    const buffer = this.#parts.buffers[number];
    const { count, slots } = buffer.read(list);
    const slotsHidden = hidden?.buffers[number] ?? [];
    const out = slotsHidden.length > 0 ? new Set(slotsHidden) : undefined;
    let df = 0;
    for (let i = 0; i < count; i++) {
      if (buffer.isRemoved(slots[i]) || out?.has(slots[i])) continue;
      if (rows === null || rows.has(buffer.ordinals.values[slots[i]])) df++;
    }
    return df;
  }

  /** The ordinals held that have a term, ascending. */
  holdersOf({ segments, buffers }: Located): Uint32Array {
    this.#parts.assertLocated({ segments, buffers });
    const holders = new Growable(Uint32Array);
    for (let i = 0; i < segments.length; i++) {
      const segment = this.#parts.segments[i];
      if (segments[i] < 0) continue;
      for (let posting = 0; posting < segment.countOf(segments[i]); posting++) {
        const record = segment.recordAt(segments[i], posting);
        if (!segment.isRemoved(record)) holders.push(segment.ordinals[record]);
      }
    }
    for (const [i, buffer] of this.#parts.buffers.entries()) {
      if (buffers[i] < 0) continue;
      const { count, slots } = buffer.read(buffers[i]);
      for (let at = 0; at < count; at++)
        if (!buffer.isRemoved(slots[at])) holders.push(buffer.ordinals.values[slots[at]]);
    }
    return holders.values.slice(0, holders.length);
  }

  /**
   * The postings of a term in some records.
   * @param places by ordinal
   * @param onMatch called with the value and the record's position
   */
  valuesOf(
    { segments, buffers }: Located,
    places: ReadonlyMap<number, number>,
    onMatch: (place: number, value: number) => void,
  ): void {
    this.#parts.assertLocated({ segments, buffers });
    for (const [ordinal, place] of places) {
      const number = this.#parts.segmentNumberOf(ordinal);
      if (number < 0 || segments[number] < 0) continue;
      const segment = this.#parts.segments[number];
      const posting = segment.postingOf(segments[number], segment.recordOf(ordinal));
      if (posting >= 0) onMatch(place, segment.valueOf(segments[number], posting));
    }
    for (const [i, buffer] of this.#parts.buffers.entries()) {
      if (buffers[i] < 0) continue;
      const { count, slots, values } = buffer.read(buffers[i]);
      for (let at = 0; at < count; at++) {
        const place = places.get(buffer.ordinals.values[slots[at]]);
        if (place !== undefined && !buffer.isRemoved(slots[at])) onMatch(place, values[at]);
      }
    }
  }

  /**
   * How many of some records have a text with a term, and how long these are together; of those that a version sees. In steps.
   * @param visible returns the visibility test of the version; called again after each step
   * @returns null where lists were moved meanwhile
   */
  *lengthsAmong(
    rows: OrdinalBitmap,
    visible: () => Visible,
  ): Steps<{ documents: number; totalLength: number } | null> {
    const { layout } = this;
    let documents = 0;
    let totalLength = 0;
    const add = (ordinals: ArrayLike<number>, lengths: ArrayLike<number>, at: number): void => {
      if (!rows.has(ordinals[at]) || lengths[at] === 0) return;
      documents++;
      totalLength += lengths[at];
    };
    for (const [i, segment] of this.#parts.segments.entries()) {
      const out = new Set(this.hide(visible())?.segments[i]);
      for (let record = 0; record < segment.recordCount; record++) {
        if (record % recordsPerStep === recordsPerStep - 1) {
          yield;
          if (this.layout !== layout) return null;
        }
        if (!segment.isRemoved(record) && !out.has(record)) add(segment.ordinals, segment.lengths, record);
      }
    }
    for (const [i, buffer] of this.#parts.buffers.entries()) {
      const out = new Set(this.hide(visible())?.buffers[i]);
      for (let slot = 0; slot < buffer.slotsEnd; slot++)
        if (!buffer.isRemoved(slot) && !out.has(slot))
          add(buffer.ordinals.values, buffer.lengths.values, slot);
    }
    return { documents, totalLength };
  }

  /** The length of a text that is held. */
  lengthOf(ordinal: number): number {
    const segment = this.#parts.segmentOf(ordinal);
    const buffer = this.#parts.bufferOf(ordinal);
    const place = segment?.recordOf(ordinal) ?? buffer?.slotOf(ordinal) ?? -1;
    invariant(place >= 0, `ordinal ${ordinal} is not held`);
    return (segment?.lengths ?? buffer?.lengths.values ?? [])[place];
  }
}

// ---- What do the postings of a list add at most?

/** Upper bounds of what a list's postings add: base + slope * quantized impact for each, `most` for all. */
type Bound = { base: number; slope: number; most: number };

function boundsOf(segment: SegmentReader, list: number, weight: number, growth: number): Bound {
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
function greatestIn(
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
function impactAtRank(segment: SegmentReader, list: number, rank: number): number | undefined {
  const count = segment.countOf(list);
  const power = Math.max(topImpactBits, Math.ceil(Math.log2(rank)));
  if (count < longList || 2 ** power > count || power >= topImpactBits + topImpactsMax) return undefined;
  const at = segment.entryOf(list);
  const quantized = segment.arena.bytes[at + entry.topImpacts + power - topImpactBits];
  // A quantized impact is rounded up, so the true impact is greater than the next smaller one.
  const { floats } = segment.arena;
  return floats[(at + entry.base) >>> 2] + floats[(at + entry.slope) >>> 2] * Math.max(0, quantized - 1);
}
