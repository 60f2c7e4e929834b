// Where does everything lie in the block of a run?
//
// A run is one block of an arena:
//
//   header | removed, a bit each | ordinals u32 | lengths u32 (texts) | lists | terms u32 | entries
//
// Records are numbered by ascending ordinal. The directory (terms, entries) is by ascending term; a list (drawn with its entry in
// kernels/assembly/postings/layout.ts) lies at its place, counted in bytes from the block's beginning.

import { kinds, longList, peakShare, stretchesMax, windowsMax } from "@quiver/kernels/postings";

/** Byte offsets of the header's fields: u32, but for the last, f64. */
export const runHeader = {
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
export const runHeaderBytes = 64;

/** Byte offsets in a list's windows: of their greatest codes and of the stretches'; before are the begins. */
export const windowCodesAt = 4 * (windowsMax + 1);
export const stretchCodesAt = windowCodesAt + windowsMax;
export const windowsBytes = stretchCodesAt + stretchesMax;

/** Bytes of a posting in the exact column of a run of this kind. */
export const exactBytesOf = (kind: number): number => (kind === kinds.text ? 1 : 4);

/** Where the columns of a list lie, from its place in the block. */
export function columnsOf(
  kind: number,
  count: number,
): { exact: number; codes: number; windows: number; end: number } {
  const exact = (2 * count + 3) & ~3;
  const codes = exact + exactBytesOf(kind) * count;
  const windows = (codes + count + 3) & ~3;
  if (count < longList) return { exact, codes, windows, end: windows };
  const peaksBytes = kind === kinds.sparse ? (peakBytes * peaksOf(count) + 3) & ~3 : 0;
  return { exact, codes, windows, end: windows + windowsBytes + peaksBytes };
}

/** Peaks of a long list of sparse vectors. */
export const peaksOf = (count: number): number => Math.floor(count / peakShare);

/** A record's number and a code. */
export const peakBytes = 3;
