// Which records of a segment have the greatest sums of impacts?
//
// Sums have 16 bits (units.ts) and are compared 32 at once.

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
 * Lists the records whose sums reach `least` and can be among the k best where each sum is too great by up to `error`, in no particular order,
 * and sets all sums to zero.
 * @returns a sum that about k records reach
 */
export function collectReaching(scratch: usize, least: u32, error: u32): u32 {
  const sums = <usize>load<u32>(scratch, S_RECORD_SUMS);
  const end = endOfSums(scratch, sums);
  const hidden = <usize>load<u32>(scratch, S_HIDDEN);
  const bins = <usize>load<u32>(scratch, S_SUMS);
  const candidates = <usize>load<u32>(scratch, S_CANDIDATES);
  const k = load<u32>(scratch, S_K);
  let needed = least;
  // The k greatest sums so far are in this bin or above.
  let bin: u32 = 0;
  let above: u32 = 0;
  let top = candidates;
  let wanted = i16x8.splat(<i16>needed);
  const zero = i16x8.splat(0);
  for (let at = sums; at < end; at += 64) {
    const first = v128.load(at);
    const second = v128.load(at, 16);
    const third = v128.load(at, 32);
    const fourth = v128.load(at, 48);
    const a = i16x8.ge_u(first, wanted);
    const b = i16x8.ge_u(second, wanted);
    const c = i16x8.ge_u(third, wanted);
    const d = i16x8.ge_u(fourth, wanted);
    if (v128.any_true(v128.or(v128.or(a, b), v128.or(c, d)))) {
      const place0 = <u32>(at - sums) >> 1;
      let reaching =
        <u32>i8x16.bitmask(i8x16.narrow_i16x8_s(a, b)) |
        ((<u32>i8x16.bitmask(i8x16.narrow_i16x8_s(c, d))) << 16);
      reaching &= ~load<u32>(hidden + <usize>(place0 >> 3));
      for (; reaching !== 0; reaching &= reaching - 1) {
        const place = ctz<u32>(reaching);
        const sum = <u32>load<u16>(at + ((<usize>place) << 1));
        if (sum < needed) continue;
        store<u32>(top, (sum << 16) | (place0 + place));
        top += 4;
        const own = sum >> BIN_BITS;
        if (own < bin) continue;
        const counter = bins + ((<usize>own) << 2);
        store<u32>(counter, load<u32>(counter) + 1);
        if (++above < k) continue;
        let lowest = load<u32>(bins + ((<usize>bin) << 2));
        for (; above - lowest >= k; lowest = load<u32>(bins + ((<usize>bin) << 2))) {
          above -= lowest;
          bin++;
        }
        const greatest = <i32>(bin << BIN_BITS) - <i32>error;
        if (greatest <= <i32>needed) continue;
        needed = <u32>greatest;
        wanted = i16x8.splat(<i16>needed);
      }
    }
    v128.store(at, zero);
    v128.store(at, zero, 16);
    v128.store(at, zero, 32);
    v128.store(at, zero, 48);
  }
  memory.fill(bins, 0, BINS_BYTES);
  let kept = candidates;
  for (let at = candidates; at < top; at += 4) {
    const key = load<u32>(at);
    if (key >> 16 < needed) continue;
    store<u32>(kept, key);
    kept += 4;
  }
  store<u32>(scratch, <u32>(kept - candidates) >> 2, S_CANDIDATE_COUNT);
  return bin << BIN_BITS;
}

function endOfSums(scratch: usize, sums: usize): usize {
  return sums + ((<usize>((load<u32>(scratch, S_RECORD_COUNT) + 31) & ~31)) << 1);
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
