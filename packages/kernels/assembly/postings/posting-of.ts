// Where in a list is a record's posting?

import { T_COUNT, T_RECORDS, T_WINDOWS, WINDOW, WINDOW_BITS } from "./layout";

/** The place of a record's posting in a list, or -1. */
export function postingIn(term: usize, record: u32): i32 {
  const windows = <usize>load<u32>(term, T_WINDOWS);
  if (windows === 0) return search(<usize>load<u32>(term, T_RECORDS), 0, load<u32>(term, T_COUNT), record);
  const window = windows + ((<usize>(record >> WINDOW_BITS)) << 2);
  return postingOf(term, load<u32>(window), load<u32>(window, 4), record);
}

/**
 * The place of a record's posting among those from `from` to `end` of a list, all in the record's window, or -1. Compares, all at once, the
 * 32 postings around the position expected for an even spread: usually it is there or nowhere. A binary search takes more than twice as
 * long, because its branches are unpredictable.
 */
export function postingOf(term: usize, from: u32, end: u32, record: u32): i32 {
  const records = <usize>load<u32>(term, T_RECORDS);
  const count = end - from;
  if (count < AT_ONCE) return search(records, from, end, record);
  const even = from + (((record & (WINDOW - 1)) * count) >> WINDOW_BITS);
  const first = min<u32>(max<i32>(<i32>from, <i32>even - <i32>AT_ONCE / 2), end - AT_ONCE);
  const at = records + ((<usize>first) << 1);
  if (first > from && <u32>load<u16>(at) > record) return search(records, from, first, record);
  const behind = first + AT_ONCE;
  if (behind < end && <u32>load<u16>(at, 2 * (AT_ONCE - 1)) < record)
    return search(records, behind, end, record);
  const wanted = i16x8.splat(<i16>record);
  const low = i8x16.bitmask(
    i8x16.narrow_i16x8_s(i16x8.eq(v128.load(at), wanted), i16x8.eq(v128.load(at, 16), wanted)),
  );
  const high = i8x16.bitmask(
    i8x16.narrow_i16x8_s(i16x8.eq(v128.load(at, 32), wanted), i16x8.eq(v128.load(at, 48), wanted)),
  );
  const equal = low | (high << 16);
  return equal === 0 ? -1 : <i32>first + ctz(equal);
}

/** Postings that are looked at at once. */
const AT_ONCE: u32 = 32;

/** The same, step by step. */
function search(records: usize, from: u32, end: u32, record: u32): i32 {
  let low = from;
  for (let left = end - from; left > 0; ) {
    const half = (left + 1) >> 1;
    const before = recordAt(records, low + half - 1) < record;
    low += before ? half : 0;
    left = before ? left - half : half - 1;
  }
  return low < end && recordAt(records, low) === record ? <i32>low : -1;
}

/** The record of a posting. */
export function recordAt(records: usize, posting: u32): u32 {
  return <u32>load<u16>(records + ((<usize>posting) << 1));
}
