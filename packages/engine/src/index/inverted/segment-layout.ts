// What is the layout of a segment's allocation?
//
// A segment is one allocation of an arena:
//
//   header | removed, a bit each | ordinals u32 | lengths u32 (texts) | lists | terms u32 | entries
//
// Records are numbered by ascending ordinal. The directory (terms, entries) is by ascending term; a list (drawn with its entry in
// kernels/assembly/postings/layout.ts) lies at its place, counted in bytes from the allocation's beginning.

import { blocksMax, highImpactShare, kinds, longList, windowsMax } from "@quiverdb/kernels/postings";

/** Increase this when the bytes of a segment or a dictionary change: older checkpoints are then ignored. */
export const postingFormat = 7;

/** Byte offsets of the header's fields: u32, but for the last, f64. */
export const segmentHeader = {
  bytes: 0,
  kind: 4,
  levels: 8,
  records: 12,
  lists: 16,
  postings: 20,
  hasNegative: 24,
  removedAt: 28,
  ordinalsAt: 32,
  lengthsAt: 36,
  termsAt: 40,
  entriesAt: 44,
  averageLength: 56,
} as const;

/** Bytes of the header. */
export const segmentHeaderBytes = 64;

/** Byte offsets in a list's windows: of their greatest quantized impacts and of the blocks'; before are the begins. */
export const windowImpactsAt = 4 * (windowsMax + 1);
export const blockImpactsAt = windowImpactsAt + windowsMax;
export const windowsBytes = blockImpactsAt + blocksMax;

/** Bytes of a posting in the exact column of a segment of this kind. */
export const exactBytesOf = (kind: number): number => (kind === kinds.text ? 1 : 4);

/** Views of an arena. */
type Views = { readonly bytes: Uint8Array; readonly words: Uint32Array; readonly floats: Float32Array };
export type ExactColumn = Uint8Array | Float32Array | Uint32Array;

/** The arena's view that the exact columns of a segment of this kind are read and written in. */
export function exactColumnOf({ bytes, words, floats }: Views, kind: number): ExactColumn {
  if (kind === kinds.text) return bytes;
  return kind === kinds.sparse ? floats : words;
}

/** Where the columns of a list lie, from its place in the allocation. */
export function columnsOf(
  kind: number,
  count: number,
): { exact: number; quantizedImpacts: number; windows: number; end: number } {
  const quantizedImpacts = 2 * count;
  const exact = (quantizedImpacts + count + 3) & ~3;
  const windows = (exact + exactBytesOf(kind) * count + 3) & ~3;
  if (count < longList) return { exact, quantizedImpacts, windows, end: windows };
  const highImpactsBytes = kind === kinds.sparse ? (highImpactBytes * highImpactCountOf(count) + 3) & ~3 : 0;
  return { exact, quantizedImpacts, windows, end: windows + windowsBytes + highImpactsBytes };
}

/** High-impact postings of a long list of sparse vectors. */
export const highImpactCountOf = (count: number): number => Math.floor(count / highImpactShare);

/** A record's number and a quantized impact. */
export const highImpactBytes = 3;
