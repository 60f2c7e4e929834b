// Which records of a segment must a search not find?
//
// The kernel reads one bit for each record: 1 where the record was removed, is not visible to the version, or is not allowed.
// Ordinals in a segment have few gaps, so the bits of 32 records are usually one shifted word of the allowed set.

import type { Allowed, OrdinalBitmap } from "../ordinal-bitmap.ts";
import type { SegmentReader } from "./segment-reader.ts";

/** Where the bits are in the arena's bytes, and how many records of the segment they exclude; null: all of them. */
export type Mask = { readonly at: number; readonly missing: number } | null;

/** @param hidden numbers of records that the version does not see */
export function maskOf(segment: SegmentReader, hidden: readonly number[], allowed: Allowed): Mask {
  if (allowed !== null) return writeAllowed(segment, hidden, allowed);
  const missing = segment.removedCount + hidden.length;
  if (hidden.length === 0) return { at: segment.removedBits.byteOffset, missing };
  const { bytes, hiddenAt } = segment.arena;
  bytes.set(segment.removedBits, hiddenAt);
  exclude(segment, hidden);
  return { at: hiddenAt, missing };
}

function exclude({ arena: { bytes, hiddenAt } }: SegmentReader, records: readonly number[]): void {
  for (const record of records) bytes[hiddenAt + (record >>> 3)] |= 1 << (record & 7);
}

function writeAllowed(segment: SegmentReader, hidden: readonly number[], allowed: OrdinalBitmap): Mask {
  const { ordinals, recordCount, removedBits } = segment;
  const { words, hiddenAt } = segment.arena;
  const removedAt = removedBits.byteOffset >>> 2;
  const at = hiddenAt >>> 2;
  let found = 0;
  for (let first = 0, word = 0; first < recordCount; first += 32, word++) {
    const may = allowedBits(ordinals, first, recordCount, allowed) & ~words[removedAt + word];
    words[at + word] = ~may;
    if (may !== 0) found += ones(may);
  }
  if (found === 0) return null;
  // Up to the end of the last window.
  words.fill(0xffff_ffff, at + Math.ceil(recordCount / 32), at + removedBits.length / 4);
  exclude(segment, hidden);
  return { at: hiddenAt, missing: recordCount - found + hidden.length };
}

/** Which of 32 records from one on are allowed: the first in the lowest bit. */
function allowedBits(ordinals: Uint32Array, first: number, count: number, allowed: OrdinalBitmap): number {
  const { words, firstWord } = allowed;
  const end = Math.min(first + 32, count);
  const ordinal = ordinals[first];
  const last = ordinals[end - 1];
  const low = (ordinal >>> 5) - firstWord;
  const high = (last >>> 5) - firstWord;
  if (high < 0 || low >= words.length) return 0;
  // At the ends of the set.
  if (low < 0 || high >= words.length) return bitsOf(ordinals, first, end, allowed);
  // 32 records without a gap between them; fewer may span as many ordinals. Shifts use their number modulo 32, so the upper part is
  // shifted in two steps.
  if (end - first === 32 && last - ordinal === 31)
    return (words[low] >>> (ordinal & 31)) | ((words[high] << (31 - (ordinal & 31))) << 1);
  // Without branches: the processor cannot predict which records are allowed.
  let bits = 0;
  for (let i = first; i < end; i++)
    bits |= ((words[(ordinals[i] >>> 5) - firstWord] >>> (ordinals[i] & 31)) & 1) << (i - first);
  return bits;
}

function bitsOf(ordinals: Uint32Array, first: number, end: number, allowed: OrdinalBitmap): number {
  let bits = 0;
  for (let i = first; i < end; i++) if (allowed.has(ordinals[i])) bits |= 1 << (i - first);
  return bits;
}

/** How many bits are 1 (Warren, Hacker's Delight, 5-1). */
function ones(word: number): number {
  let bits = word - ((word >>> 1) & 0x5555_5555);
  bits = (bits & 0x3333_3333) + ((bits >>> 2) & 0x3333_3333);
  return Math.imul((bits + (bits >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
}
