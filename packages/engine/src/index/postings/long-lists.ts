// What is written of a long list, besides its postings?
//
//   windows       where the postings of each window of records begin, and the greatest quantized impact of each window and block
//   top impacts   the quantized impact that 2 ** i postings reach, for several i: in the list's entry
//   high impact   of sparse vectors: a prefix of the list in the order of descending impact

import {
  blockRecords,
  blocksMax,
  topImpactBits,
  topImpactsMax,
  windowRecords,
  windowsMax,
} from "@quiverdb/kernels/postings";
import type { Arena } from "./arena.ts";
import { blockImpactsAt, highImpactCountOf, windowImpactsAt } from "./segment-layout.ts";

/**
 * Writes the windows of a list.
 * @param at their place in the arena
 * @param quantized impact of each posting
 * @param records ascending numbers, side by side
 * @returns how many postings have each quantized impact
 */
export function writeWindows(
  { bytes, words }: Arena,
  at: number,
  quantized: Uint8Array,
  records: Uint16Array,
): Uint32Array {
  const { length: count } = quantized;
  const havingImpact = new Uint32Array(256);
  const blocks = bytes.subarray(at + blockImpactsAt, at + blockImpactsAt + blocksMax).fill(0);
  let i = 0;
  for (let window = 0; window < windowsMax; window++) {
    words[(at >>> 2) + window] = i;
    let greatest = 0;
    for (const end = (window + 1) * windowRecords; i < count && records[i] < end; i++) {
      const impact = quantized[i];
      havingImpact[impact]++;
      if (impact > greatest) greatest = impact;
      const block = Math.floor(records[i] / blockRecords);
      if (impact > blocks[block]) blocks[block] = impact;
    }
    bytes[at + windowImpactsAt + window] = greatest;
  }
  words[(at >>> 2) + windowsMax] = count;
  return havingImpact;
}

/** Writes the impacts that the top postings reach. @param at their place in `bytes` */
export function writeTopImpacts(bytes: Uint8Array, at: number, havingImpact: Uint32Array): void {
  let impact = 255;
  let above = havingImpact[255];
  for (let i = 0; i < topImpactsMax; i++) {
    const rank = 2 ** (topImpactBits + i);
    while (impact > 0 && above < rank) above += havingImpact[--impact];
    bytes[at + i] = above >= rank ? impact : 0;
  }
}

/** Writes the high-impact prefix of a list. @param at its place in the arena */
export function writeHighImpact(
  { bytes, halves }: Arena,
  at: number,
  quantized: Uint8Array,
  records: Uint16Array,
  havingImpact: Uint32Array,
): void {
  const { length: count } = quantized;
  const highImpact = highImpactCountOf(count);
  // Where the next posting of each quantized impact goes.
  const places = new Uint32Array(256);
  for (let impact = 254; impact >= 0; impact--)
    places[impact] = places[impact + 1] + havingImpact[impact + 1];
  for (let i = 0; i < count; i++) {
    const impact = quantized[i];
    const place = places[impact]++;
    if (place >= highImpact) continue;
    halves[(at >>> 1) + place] = records[i];
    bytes[at + 2 * highImpact + place] = impact;
  }
}
