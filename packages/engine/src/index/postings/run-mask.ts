// Which records of a run may a search not find?
//
// A bit for each record, where the kernel reads it: 1 for records that were removed, that the version does not see, and that are not
// allowed. Records of a run mostly have ordinals without gaps, so the bits of 32 of them are mostly one shifted piece of the set.

import type { Allowed, OrdinalBitmap } from "../ordinal-bitmap.ts";
import type { Run } from "./run.ts";

/** Where the bits are in the arena's bytes, and how many records of the run they exclude; null: all of them. */
export type Mask = { readonly at: number; readonly missing: number } | null;

/** @param hidden numbers of records that the version does not see */
export function maskOf(run: Run, hidden: readonly number[], allowed: Allowed): Mask {
  if (allowed !== null) return writeAllowed(run, hidden, allowed);
  const missing = run.removedCount + hidden.length;
  if (hidden.length === 0) return { at: run.removedBits.byteOffset, missing };
  const { bytes, hiddenAt } = run.arena;
  bytes.set(run.removedBits, hiddenAt);
  exclude(run, hidden);
  return { at: hiddenAt, missing };
}

function exclude({ arena: { bytes, hiddenAt } }: Run, records: readonly number[]): void {
  for (const record of records) bytes[hiddenAt + (record >>> 3)] |= 1 << (record & 7);
}

function writeAllowed(run: Run, hidden: readonly number[], allowed: OrdinalBitmap): Mask {
  const { ordinals, recordCount, removedBits } = run;
  const { words, hiddenAt } = run.arena;
  const removedAt = removedBits.byteOffset >>> 2;
  const at = hiddenAt >>> 2;
  let any = 0;
  for (let first = 0, word = 0; first < recordCount; first += 32, word++) {
    const may =
      allowedBits(ordinals, first, Math.min(32, recordCount - first), allowed) & ~words[removedAt + word];
    words[at + word] = ~may;
    any |= may;
  }
  if (any === 0) return null;
  // Up to the end of the last window.
  words.fill(0xffff_ffff, at + Math.ceil(recordCount / 32), at + removedBits.length / 4);
  exclude(run, hidden);
  return { at: hiddenAt, missing: recordCount - zeros(words, at, Math.ceil(recordCount / 32)) };
}

/** Which of the records from one on are allowed: the first in the lowest bit. */
function allowedBits(ordinals: Uint32Array, first: number, count: number, allowed: OrdinalBitmap): number {
  if (count === 32 && ordinals[first + 31] - ordinals[first] === 31) return allowed.bitsFrom(ordinals[first]);
  let bits = 0;
  for (let i = 0; i < count; i++) if (allowed.has(ordinals[first + i])) bits |= 1 << i;
  return bits;
}

/** How many bits of some words are 0. */
function zeros(words: Uint32Array, at: number, count: number): number {
  let sum = 0;
  for (let i = at; i < at + count; i++) {
    let bits = ~words[i];
    bits -= (bits >>> 1) & 0x5555_5555;
    bits = (bits & 0x3333_3333) + ((bits >>> 2) & 0x3333_3333);
    sum += Math.imul((bits + (bits >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
  }
  return sum;
}
