// Which records of a segment could be among the best, by their greatest postings alone?
//
// This is the approximate search. It counts only postings that add at least `least`. With `least` at a tenth of the greatest impact,
// one posting in fifteen of the 40 lists of a learned vector remains, and the records with the greatest sums of these are nearly
// always the records with the greatest scores. exact.ts then scores them in full. Most of these postings are in the high-impact
// prefixes of their lists, which the kernel reads from front to back. Where a list has more of them, or is short, the kernel compares
// its quantized impacts sixteen at a time.
//
// The search uses no windows: few postings are added, so it lists the few records that have any as it meets them.

import { enterSegment } from "./enter";
import { floorOf, take } from "./found";
import {
  HIGH_IMPACT_BITS,
  S_FOUND_COUNT,
  S_HIDDEN,
  S_IS_ENTERED,
  S_RECORD_SUMS,
  S_SCALE,
  S_TERM_COUNT,
  S_TERMS,
  S_TOUCHED,
  S_TOUCHED_COUNT,
  T_BASE,
  T_COUNT,
  T_LEAST,
  T_QUANTIZED,
  T_RECORDS,
  T_SLOPE,
  T_WINDOWS,
  TERM_BYTES,
  W_HIGH_IMPACT,
  W_IMPACTS,
  WINDOW,
} from "./layout";
import { recordAt } from "./posting-of";

/**
 * Gathers from the segment given in the scratch memory, from the start or from where it stopped, until all is done or `WINDOW` records were
 * found; returns whether all is done. Before the next call, the caller takes the found records and sets their count to 0. Their scores are
 * sums of some of the impacts, each rounded up. No impact may be negative.
 */
export function gatherSegment(scratch: usize): bool {
  if (load<u32>(scratch, S_IS_ENTERED) === 0) {
    if (!enterSegment(scratch)) return true;
    addReaching(scratch);
  }
  const sums = <usize>load<u32>(scratch, S_RECORD_SUMS);
  const hidden = <usize>load<u32>(scratch, S_HIDDEN);
  const touched = <usize>load<u32>(scratch, S_TOUCHED);
  const scale = load<f64>(scratch, S_SCALE);
  let floor = floorOf(scratch);
  let left = load<u32>(scratch, S_TOUCHED_COUNT);
  while (left > 0 && load<u32>(scratch, S_FOUND_COUNT) < WINDOW) {
    const record = <u32>load<u16>(touched + ((<usize>--left) << 1));
    const at = sums + ((<usize>record) << 2);
    const sum = load<f32>(at);
    store<f32>(at, 0);
    if (sum < floor || ((load<u8>(hidden + <usize>(record >> 3)) >> <u8>(record & 7)) & 1) !== 0) continue;
    if (take(scratch, record, <f64>sum / scale)) floor = floorOf(scratch);
  }
  store<u32>(scratch, left, S_TOUCHED_COUNT);
  return left === 0;
}

/** Adds up the impacts that reach the limit, and lists the records that have any. */
function addReaching(scratch: usize): void {
  const terms = <usize>load<u32>(scratch, S_TERMS);
  const termsEnd = terms + <usize>load<u32>(scratch, S_TERM_COUNT) * TERM_BYTES;
  const sums = <usize>load<u32>(scratch, S_RECORD_SUMS);
  const touched = <usize>load<u32>(scratch, S_TOUCHED);
  let top = touched;
  for (let term = terms; term < termsEnd; term += TERM_BYTES) {
    const least = load<u32>(term, T_LEAST);
    if (least > 255) continue;
    const windows = <usize>load<u32>(term, T_WINDOWS);
    if (windows === 0) {
      top = addSpan(term, 0, load<u32>(term, T_COUNT), least, sums, top);
      continue;
    }
    const highImpact = load<u32>(term, T_COUNT) >> HIGH_IMPACT_BITS;
    if (<u32>load<u8>(windows + ((<usize>highImpact) << 1) + <usize>highImpact - 1, W_HIGH_IMPACT) < least) {
      top = addHighImpact(term, windows + W_HIGH_IMPACT, highImpact, least, sums, top);
      continue;
    }
    const count = load<u32>(term, T_COUNT);
    let end: u32 = 0;
    for (let window: usize = 0; end < count; window++) {
      const from = end;
      end = load<u32>(windows + (window << 2), 4);
      if (<u32>load<u8>(windows + window, W_IMPACTS) >= least)
        top = addSpan(term, from, end, least, sums, top);
    }
  }
  store<u32>(scratch, <u32>(top - touched) >> 1, S_TOUCHED_COUNT);
}

/** The same for the high-impact prefix of a list, not all of which reaches the limit. @returns where the next record is listed */
function addHighImpact(
  term: usize,
  highImpact: usize,
  count: u32,
  least: u32,
  sums: usize,
  top: usize,
): usize {
  const base = load<f32>(term, T_BASE);
  const slope = load<f32>(term, T_SLOPE);
  let quantizedImpacts = highImpact + ((<usize>count) << 1);
  let end = top;
  for (
    let at = highImpact, quantized = <u32>load<u8>(quantizedImpacts);
    quantized >= least;
    at += 2, quantized = <u32>load<u8>(++quantizedImpacts)
  )
    end = add(<u32>load<u16>(at), base + slope * <f32>quantized, sums, end);
  return end;
}

/** The same for some postings of a list. */
function addSpan(term: usize, from: u32, end: u32, least: u32, sums: usize, top: usize): usize {
  const base = load<f32>(term, T_BASE);
  const slope = load<f32>(term, T_SLOPE);
  const quantizedImpacts = <usize>load<u32>(term, T_QUANTIZED);
  const records = <usize>load<u32>(term, T_RECORDS);
  const wanted = i8x16.splat(<i8>least);
  for (let posting = from; posting < end; posting += 16) {
    let reaching = i8x16.bitmask(i8x16.ge_u(v128.load(quantizedImpacts + <usize>posting), wanted));
    // What follows belongs to another window or list.
    if (end - posting < 16) reaching &= (1 << (end - posting)) - 1;
    for (; reaching !== 0; reaching &= reaching - 1) {
      const at = posting + ctz<u32>(reaching);
      top = add(recordAt(records, at), base + slope * <f32>load<u8>(quantizedImpacts + <usize>at), sums, top);
    }
  }
  return top;
}

/**
 * Adds an impact to a record's sum, and lists the record if it is new. The processor cannot predict whether it is, so the code always
 * writes the record to the list and moves on only past a new one.
 */
function add(record: u32, impact: f32, sums: usize, top: usize): usize {
  const sum = sums + ((<usize>record) << 2);
  const before = load<f32>(sum);
  store<f32>(sum, before + impact);
  store<u16>(top, <u16>record);
  return top + ((<usize>(before === 0)) << 1);
}
