// Which records of a segment have the greatest sums of impacts?
//
// Sums have 16 bits (units.ts) and are compared 32 at once. Candidates are listed by ascending sum.

import {
  S_CANDIDATE_COUNT,
  S_CANDIDATES,
  S_HIDDEN,
  S_K,
  S_RECORD_COUNT,
  S_RECORD_SUMS,
  S_SUMS,
} from "./layout";

/** Sums are counted in bins of 2 ** BIN_BITS; the bins are in the place of the sums of a window. */
const BIN_BITS: u32 = 4;
const BINS_BYTES: usize = 4 << (16 - BIN_BITS);

/**
 * Lists the records with about the k greatest sums, but none with a sum of less than `least`.
 * @returns the sum from which on all records are listed, at least `least`
 */
export function collectGreatest(scratch: usize, least: u32): u32 {
  const sums = <usize>load<u32>(scratch, S_RECORD_SUMS);
  const end = endOfSums(scratch, sums);
  const hidden = <usize>load<u32>(scratch, S_HIDDEN);
  const bins = <usize>load<u32>(scratch, S_SUMS);
  const candidates = <usize>load<u32>(scratch, S_CANDIDATES);
  const k = load<u32>(scratch, S_K);
  let needed = least;
  let bin = least >> BIN_BITS;
  let above: u32 = 0;
  let top = candidates;
  let wanted = i16x8.splat(<i16>needed);
  for (let at = sums; at < end; at += 64) {
    let reaching = reachingOf(at, wanted);
    if (reaching === 0) continue;
    const first = <u32>(at - sums) >> 1;
    reaching &= ~load<u32>(hidden + <usize>(first >> 3));
    for (; reaching !== 0; reaching &= reaching - 1) {
      const place = ctz<u32>(reaching);
      const sum = <u32>load<u16>(at + ((<usize>place) << 1));
      if (sum < needed) continue;
      store<u32>(top, (sum << 16) | (first + place));
      top += 4;
      const counter = bins + ((<usize>(sum >> BIN_BITS)) << 2);
      store<u32>(counter, load<u32>(counter) + 1);
      above++;
      let lowest = load<u32>(bins + ((<usize>bin) << 2));
      if (above - lowest < k) continue;
      for (; above - lowest >= k; lowest = load<u32>(bins + ((<usize>bin) << 2))) {
        above -= lowest;
        bin++;
      }
      needed = max<u32>(needed, bin << BIN_BITS);
      wanted = i16x8.splat(<i16>needed);
    }
  }
  memory.fill(bins, 0, BINS_BYTES);
  let kept = candidates;
  for (let at = candidates; at < top; at += 4) {
    const key = load<u32>(at);
    if (key >> 16 < needed) continue;
    store<u32>(kept, key);
    kept += 4;
  }
  finish(scratch, candidates, kept);
  return needed;
}

/** Lists the records with sums from `least` to less than `listed`. */
export function collectRest(scratch: usize, least: u32, listed: u32): void {
  const sums = <usize>load<u32>(scratch, S_RECORD_SUMS);
  const end = endOfSums(scratch, sums);
  const hidden = <usize>load<u32>(scratch, S_HIDDEN);
  const candidates = <usize>load<u32>(scratch, S_CANDIDATES);
  let top = candidates;
  const wanted = i16x8.splat(<i16>least);
  for (let at = sums; least < listed && at < end; at += 64) {
    let reaching = reachingOf(at, wanted);
    if (reaching === 0) continue;
    const first = <u32>(at - sums) >> 1;
    reaching &= ~load<u32>(hidden + <usize>(first >> 3));
    for (; reaching !== 0; reaching &= reaching - 1) {
      const place = ctz<u32>(reaching);
      const sum = <u32>load<u16>(at + ((<usize>place) << 1));
      if (sum >= listed) continue;
      store<u32>(top, (sum << 16) | (first + place));
      top += 4;
    }
  }
  finish(scratch, candidates, top);
}

/** Sums of `least` or more. */
export function countReaching(scratch: usize, least: u32): u32 {
  const sums = <usize>load<u32>(scratch, S_RECORD_SUMS);
  const end = endOfSums(scratch, sums);
  const wanted = i16x8.splat(<i16>least);
  let count: u32 = 0;
  for (let at = sums; at < end; at += 64) count += popcnt<u32>(reachingOf(at, wanted));
  return count;
}

export function clearSums(scratch: usize): void {
  const sums = <usize>load<u32>(scratch, S_RECORD_SUMS);
  memory.fill(sums, 0, endOfSums(scratch, sums) - sums);
}

function endOfSums(scratch: usize, sums: usize): usize {
  return sums + ((<usize>((load<u32>(scratch, S_RECORD_COUNT) + 31) & ~31)) << 1);
}

/** Which of 32 sums are at least `wanted`: the first in the lowest bit. */
function reachingOf(at: usize, wanted: v128): u32 {
  const a = i16x8.ge_u(v128.load(at), wanted);
  const b = i16x8.ge_u(v128.load(at, 16), wanted);
  const c = i16x8.ge_u(v128.load(at, 32), wanted);
  const d = i16x8.ge_u(v128.load(at, 48), wanted);
  if (!v128.any_true(v128.or(v128.or(a, b), v128.or(c, d)))) return 0;
  return (
    <u32>i8x16.bitmask(i8x16.narrow_i16x8_s(a, b)) | ((<u32>i8x16.bitmask(i8x16.narrow_i16x8_s(c, d))) << 16)
  );
}

function finish(scratch: usize, candidates: usize, end: usize): void {
  sortCandidates(candidates, end);
  store<u32>(scratch, <u32>(end - candidates) >> 2, S_CANDIDATE_COUNT);
}

/** Sorts ascending (Shell, 1959, with gaps of which each is three times the one before, and one more). @param end behind the last */
export function sortCandidates(keys: usize, end: usize): void {
  const count = <u32>(end - keys) >> 2;
  let gap: u32 = 1;
  while (gap < count / 3) gap = 3 * gap + 1;
  for (; gap > 0; gap /= 3) {
    for (let i = gap; i < count; i++) {
      const moved = load<u32>(keys + ((<usize>i) << 2));
      let at = i;
      for (; at >= gap; at -= gap) {
        const other = load<u32>(keys + ((<usize>(at - gap)) << 2));
        if (other <= moved) break;
        store<u32>(keys + ((<usize>at) << 2), other);
      }
      store<u32>(keys + ((<usize>at) << 2), moved);
    }
  }
}
