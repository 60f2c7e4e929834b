// Which records of a segment have the greatest scores, where its lists are short?
//
// Every posting is multiplied and added in f64, list by list in the order of the query, so a sum is the exact score, and nothing has to be
// looked up. Sums of `SPAN` records at a time fit a processor's second cache. This is what a plain loop does, with fewer bytes per posting.
// Every contribution must be greater than 0, so that the sum of a record with a posting is.

import { exactOf } from "./enter";
import { take } from "./found";
import {
  E_COUNT,
  E_PLACE,
  Q_BYTES,
  Q_ENTRY,
  Q_WEIGHT,
  S_FLOOR,
  S_FOUND_COUNT,
  S_HIDDEN,
  S_IS_ENTERED,
  S_LISTED,
  S_QUERY,
  S_QUERY_COUNT,
  S_RECORD_COUNT,
  S_RECORD_SUMS,
  S_SEGMENT,
  S_WINDOW,
  WINDOW,
} from "./layout";
import { touch } from "./units";

/** Records whose sums are added up together: f64 in the place of recordSums. */
const SPAN_BITS: u32 = 14;
const SPAN: u32 = 1 << SPAN_BITS;

/** Bytes at the beginning of a list that are read before any list is added up. */
const TOUCHED_BYTES: usize = 1024;

/** Offsets in a term of the query, in place of its bounds: the rest of the list, its end, and the weight of the next posting. */
const Q_RECORDS: usize = 16;
const Q_RECORDS_END: usize = 20;
const Q_EXACT: usize = 24;

/** Prepares the terms of the query. */
export function enterSums(scratch: usize): void {
  const query = <usize>load<u32>(scratch, S_QUERY);
  const queryEnd = query + <usize>load<u32>(scratch, S_QUERY_COUNT) * Q_BYTES;
  const segment = <usize>load<u32>(scratch, S_SEGMENT);
  let read: u32 = 0;
  for (let term = query; term < queryEnd; term += Q_BYTES) {
    const entry = <usize>load<u32>(term, Q_ENTRY);
    const count = load<u32>(entry, E_COUNT);
    const list = segment + <usize>load<u32>(entry, E_PLACE);
    const exact = exactOf(list, count);
    store<u32>(term, <u32>list, Q_RECORDS);
    store<u32>(term, <u32>list + (count << 1), Q_RECORDS_END);
    store<u32>(term, <u32>exact, Q_EXACT);
    read += touch(list, min<usize>(exact + ((<usize>count) << 2), list + TOUCHED_BYTES));
  }
  // Stored, so that the reads are not removed.
  store<u32>(scratch, read, S_LISTED);
  store<u32>(scratch, 0, S_WINDOW);
  store<u32>(scratch, 1, S_IS_ENTERED);
}

/** Goes on until all is done or more than `WINDOW` records were found; returns whether all is done. */
export function sumSegment(scratch: usize): bool {
  const query = <usize>load<u32>(scratch, S_QUERY);
  const queryEnd = query + <usize>load<u32>(scratch, S_QUERY_COUNT) * Q_BYTES;
  const sums = <usize>load<u32>(scratch, S_RECORD_SUMS);
  const records = load<u32>(scratch, S_RECORD_COUNT);
  let record = load<u32>(scratch, S_WINDOW);
  while (record < records && load<u32>(scratch, S_FOUND_COUNT) <= WINDOW) {
    const first = record & ~(SPAN - 1);
    const limit = first + SPAN;
    const from = sums - ((<usize>first) << 3);
    if (record === first) for (let term = query; term < queryEnd; term += Q_BYTES) addList(term, limit, from);
    record = harvest(scratch, record, min<u32>(records, limit), from);
    // Eight sums at a time are looked at.
    if (record === min<u32>(records, limit))
      memory.fill(sums, 0, (((<usize>(record - first)) << 3) + 63) & ~63);
  }
  store<u32>(scratch, record, S_WINDOW);
  return record >= records;
}

/** Adds a list's postings of records before `limit`. @param sums where that of record 0 would be */
function addList(term: usize, limit: u32, sums: usize): void {
  let at = <usize>load<u32>(term, Q_RECORDS);
  const end = <usize>load<u32>(term, Q_RECORDS_END);
  let exact = <usize>load<u32>(term, Q_EXACT);
  const weight = load<f64>(term, Q_WEIGHT);
  for (; at + 8 <= end && <u32>load<u16>(at, 6) < limit; at += 8, exact += 16) {
    addOne(sums, load<u16>(at), weight * <f64>load<f32>(exact));
    addOne(sums, load<u16>(at, 2), weight * <f64>load<f32>(exact, 4));
    addOne(sums, load<u16>(at, 4), weight * <f64>load<f32>(exact, 8));
    addOne(sums, load<u16>(at, 6), weight * <f64>load<f32>(exact, 12));
  }
  for (; at < end && <u32>load<u16>(at) < limit; at += 2, exact += 4)
    addOne(sums, load<u16>(at), weight * <f64>load<f32>(exact));
  store<u32>(term, <u32>at, Q_RECORDS);
  store<u32>(term, <u32>exact, Q_EXACT);
}

function addOne(sums: usize, record: u32, product: f64): void {
  const sum = sums + ((<usize>record) << 3);
  store<f64>(sum, load<f64>(sum) + product);
}

/** Takes records whose sums reach the floor, until more than `WINDOW` were found. @returns where it goes on, a multiple of 8 or the end */
function harvest(scratch: usize, firstRecord: u32, recordsEnd: u32, sums: usize): u32 {
  const hidden = <usize>load<u32>(scratch, S_HIDDEN);
  let floor = leastSum(scratch);
  let floors = f64x2.splat(floor);
  let record = firstRecord;
  for (; record < recordsEnd; record += 8) {
    const at = sums + ((<usize>record) << 3);
    const low = v128.or(f64x2.ge(v128.load(at), floors), f64x2.ge(v128.load(at, 16), floors));
    const high = v128.or(f64x2.ge(v128.load(at, 32), floors), f64x2.ge(v128.load(at, 48), floors));
    if (!v128.any_true(v128.or(low, high))) continue;
    if (load<u32>(scratch, S_FOUND_COUNT) > WINDOW) return record;
    const seen = ~(<u32>load<u8>(hidden + <usize>(record >> 3)));
    for (let i: u32 = 0; i < 8; i++) {
      const score = load<f64>(at + ((<usize>i) << 3));
      if (score < floor || ((seen >> i) & 1) === 0) continue;
      if (!take(scratch, record + i, score)) continue;
      floor = leastSum(scratch);
      floors = f64x2.splat(floor);
    }
  }
  return recordsEnd;
}

/** The floor for sums: where there is none yet, anything that is not 0. */
function leastSum(scratch: usize): f64 {
  return max<f64>(load<f64>(scratch, S_FLOOR), f64.MIN_VALUE);
}
