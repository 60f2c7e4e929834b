// Which records of a segment have the greatest scores?
//
// MaxScore (Turtle and Flood, Information Processing and Management 31(6), 1995) window by window, as Lucene's bulk scorer and
// PISA's do, in two passes. The terms are sorted by ascending bound in the window. The first ones, whose bounds together stay below
// the floor, are left aside: a record that has only these terms cannot be among the best. The first pass adds up the impacts of the
// other terms by record, unconditionally. The second pass visits each record with a sum. While its sum plus the bounds of the
// remaining lists reaches the floor, it looks the record up in the lists left aside, the highest bound first. A record that still
// reaches the floor gets its exact score, in f64 and in the order of the query, which may raise the floor.
//
// Sums are f32 and add impacts rounded up, scaled so that the greatest possible sum is 1. The floor is lowered by the possible error
// of such a sum, so the search loses no record of the answer.

import { exactScore } from "./exact";
import { floorOf, take } from "./found";
import {
  BLOCK_BITS,
  S_FOUND_COUNT,
  S_HIDDEN,
  S_MARKS,
  S_MISSING,
  S_RECORD_COUNT,
  S_SUMS,
  S_TERM_COUNT,
  S_TERMS,
  S_WINDOW,
  T_BASE,
  T_BLOCK_MOST,
  T_BOUND,
  T_COUNT,
  T_CURSOR,
  T_END,
  T_MOST,
  T_QUANTIZED,
  T_RECORDS,
  T_SLOPE,
  T_WINDOWS,
  TERM_BYTES,
  W_BLOCK_IMPACTS,
  W_IMPACTS,
  WINDOW,
  WINDOW_BITS,
} from "./layout";
import { postingOf } from "./posting-of";
import { ASIDE } from "./reaching";

/**
 * Searches the segment given in the scratch memory, from the start or from the window stored there, until all is done or more than `WINDOW`
 * records were found; returns whether all is done. Before the next call, the caller takes the found records and sets their count to 0.
 */
export function searchWindows(scratch: usize): bool {
  const windows = (load<u32>(scratch, S_RECORD_COUNT) + WINDOW - 1) >> WINDOW_BITS;
  let window = load<u32>(scratch, S_WINDOW);
  while (window < windows && load<u32>(scratch, S_FOUND_COUNT) <= WINDOW) searchWindow(scratch, window++);
  store<u32>(scratch, window, S_WINDOW);
  return window === windows;
}

function searchWindow(scratch: usize, window: u32): void {
  const terms = <usize>load<u32>(scratch, S_TERMS);
  const termsEnd = terms + <usize>load<u32>(scratch, S_TERM_COUNT) * TERM_BYTES;
  const floor = floorOf(scratch);
  let most: f32 = 0;
  for (let term = terms; term < termsEnd; term += TERM_BYTES) most += enterWindow(term, window);
  if (most < floor || isHidden(scratch, window)) return;
  const sums = <usize>load<u32>(scratch, S_SUMS);
  const marks = <usize>load<u32>(scratch, S_MARKS);
  let essential = terms;
  let aside: f32 = 0;
  for (; essential < termsEnd; essential += TERM_BYTES) {
    aside += load<f32>(essential, T_MOST);
    if (!(aside < floor * ASIDE)) break;
  }
  for (let term = essential; term < termsEnd; term += TERM_BYTES) addList(term, sums, marks);
  harvest(scratch, window << WINDOW_BITS, terms, essential);
  clear(essential, termsEnd, sums);
}

/** Whether no record of a window may be found. If few records may be found, only their windows need to be added up. */
function isHidden(scratch: usize, window: u32): bool {
  if (load<u32>(scratch, S_MISSING) < WINDOW) return false;
  const hidden = <usize>load<u32>(scratch, S_HIDDEN) + <usize>((window << WINDOW_BITS) >> 3);
  for (let at = hidden; at < hidden + <usize>(WINDOW >> 3); at += 8) if (~load<u64>(at) !== 0) return false;
  return true;
}

/** Postings of the lists from one on in the window. */
function postingsOf(term: usize, termsEnd: usize): u32 {
  let postings: u32 = 0;
  for (let each = term; each < termsEnd; each += TERM_BYTES)
    postings += load<u32>(each, T_END) - load<u32>(each, T_CURSOR);
  return postings;
}

/** Finds the postings of a window in a list; returns the most that one of them adds. */
function enterWindow(term: usize, window: u32): f32 {
  const windows = <usize>load<u32>(term, T_WINDOWS);
  let most: f32 = 0;
  if (windows !== 0) {
    const from = load<u32>(windows + ((<usize>window) << 2));
    const end = load<u32>(windows + ((<usize>window) << 2), 4);
    store<u32>(term, from, T_CURSOR);
    store<u32>(term, end, T_END);
    if (from < end) {
      // With a negative slope the smallest quantized impact adds most; a list's bound is for that one.
      const slope = load<f32>(term, T_SLOPE);
      const quantized = <f32>load<u8>(windows + <usize>window, W_IMPACTS);
      most = slope < 0 ? load<f32>(term, T_BOUND) : load<f32>(term, T_BASE) + slope * quantized;
    }
  } else {
    const records = <usize>load<u32>(term, T_RECORDS);
    const count = load<u32>(term, T_COUNT);
    let end = load<u32>(term, T_END);
    store<u32>(term, end, T_CURSOR);
    const limit = (window + 1) << WINDOW_BITS;
    const from = end;
    while (end < count && <u32>load<u16>(records + ((<usize>end) << 1)) < limit) end++;
    store<u32>(term, end, T_END);
    if (from < end) most = load<f32>(term, T_BOUND);
  }
  most = max<f32>(most, 0);
  store<f32>(term, most, T_MOST);
  return most;
}

/** Adds the impacts of a list's postings in the window to the sums of their records, and marks them. */
function addList(term: usize, sums: usize, marks: usize): void {
  const from = load<u32>(term, T_CURSOR);
  const end = load<u32>(term, T_END);
  const base = load<f32>(term, T_BASE);
  const slope = load<f32>(term, T_SLOPE);
  const records = <usize>load<u32>(term, T_RECORDS);
  let quantized = <usize>load<u32>(term, T_QUANTIZED) + from;
  const recordsEnd = records + ((<usize>end) << 1);
  for (let at = records + ((<usize>from) << 1); at < recordsEnd; at += 2) {
    const place = <usize>load<u16>(at) & (WINDOW - 1);
    const sum = sums + (place << 2);
    store<f32>(sum, load<f32>(sum) + (base + slope * <f32>load<u8>(quantized++)));
    const mark = marks + ((place >> 6) << 3);
    store<u64>(mark, load<u64>(mark) | ((<u64>1) << (<u64>place & 63)));
  }
}

/** Sets the sums to zero: by list if few were touched, because a window has 4,096 of them. */
function clear(essential: usize, termsEnd: usize, sums: usize): void {
  if (postingsOf(essential, termsEnd) > FILLED_MIN) memory.fill(sums, 0, WINDOW << 2);
  else for (let term = essential; term < termsEnd; term += TERM_BYTES) clearSums(term, sums);
}

/** Filling all sums takes as long as clearing those of about this many postings. */
const FILLED_MIN: u32 = 400;

/** Sets the sums of a list's records in the window to zero. */
function clearSums(term: usize, sums: usize): void {
  const records = <usize>load<u32>(term, T_RECORDS);
  const end = records + ((<usize>load<u32>(term, T_END)) << 1);
  for (let at = records + ((<usize>load<u32>(term, T_CURSOR)) << 1); at < end; at += 2)
    store<f32>(sums + ((<usize>load<u16>(at) & (WINDOW - 1)) << 2), 0);
}

/** Walks the marked records, clears the marks, and exactly scores those that can be among the best. */
function harvest(scratch: usize, firstRecord: u32, terms: usize, essential: usize): void {
  const sums = <usize>load<u32>(scratch, S_SUMS);
  const marks = <usize>load<u32>(scratch, S_MARKS);
  const hidden = <usize>load<u32>(scratch, S_HIDDEN) + <usize>(firstRecord >> 3);
  let floor = floorOf(scratch);
  let block: usize = usize.MAX_VALUE;
  let asideHere: f32 = 0;
  for (let word: usize = 0; word < WINDOW >> 3; word += 8) {
    let marked = load<u64>(marks + word);
    if (marked === 0) continue;
    store<u64>(marks + word, 0);
    marked &= ~load<u64>(hidden + word);
    if (marked === 0) continue;
    if ((word << 3) >> BLOCK_BITS !== block) {
      block = (word << 3) >> BLOCK_BITS;
      asideHere = enterBlock(terms, essential, (<usize>firstRecord >> BLOCK_BITS) + block);
    }
    for (; marked !== 0; marked &= marked - 1) {
      const bit = ctz(marked);
      const place = (word << 3) + <usize>bit;
      let sum = load<f32>(sums + (place << 2));
      if (sum + asideHere < floor) continue;
      const record = firstRecord + <u32>place;
      let rest = asideHere;
      for (let term = essential; term > terms && !(sum + rest < floor); ) {
        term -= TERM_BYTES;
        const most = load<f32>(term, T_BLOCK_MOST);
        if (most === 0) continue;
        rest -= most;
        const posting = postingOf(term, load<u32>(term, T_CURSOR), load<u32>(term, T_END), record);
        if (posting < 0) continue;
        sum +=
          load<f32>(term, T_BASE) +
          load<f32>(term, T_SLOPE) * <f32>load<u8>(<usize>load<u32>(term, T_QUANTIZED) + <usize>posting);
      }
      if (sum + max<f32>(rest, 0) < floor) continue;
      if (take(scratch, record, exactScore(scratch, record))) floor = floorOf(scratch);
    }
  }
}

/** Finds the most that each list that was left aside adds in a block of the segment; returns the sum. */
function enterBlock(terms: usize, essential: usize, block: usize): f32 {
  let aside: f32 = 0;
  for (let term = terms; term < essential; term += TERM_BYTES) {
    let most = load<f32>(term, T_MOST);
    const windows = <usize>load<u32>(term, T_WINDOWS);
    const slope = load<f32>(term, T_SLOPE);
    if (most !== 0 && windows !== 0 && slope >= 0)
      most = max<f32>(load<f32>(term, T_BASE) + slope * <f32>load<u8>(windows + block, W_BLOCK_IMPACTS), 0);
    store<f32>(term, most, T_BLOCK_MOST);
    aside += most;
  }
  return aside;
}
