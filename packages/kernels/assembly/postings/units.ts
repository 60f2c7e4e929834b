// How are the impacts of a list added to the sums of a segment's records?
//
// Sums have 16 bits: those of 65,536 records take 128 KiB, which fits a processor's second cache. A contribution is rounded up to whole
// *units*, which are chosen so that no sum overflows. A posting adds at least one, so a record with a posting has a sum greater than 0.
//
// A quantized impact q becomes units by a multiplication of 16-bit numbers of which the upper half is kept:
//
//   units = offset + (((q << shift) * factor + 2 ** 14) >> 15)
//
// The shift makes the greatest q a number of 15 bits. The factor is rounded up, and the offset makes good for the half by which the quotient
// can be rounded down.

import {
  Q_BASE,
  Q_BYTES,
  Q_SLOPE,
  S_LEVELS,
  S_LISTED,
  S_QUERY,
  S_RECORD_SUMS,
  S_SORTED,
  S_TERM_COUNT,
  S_TERMS,
  S_UNITS,
  T_COUNT,
  T_EXACT,
  T_FACTOR,
  T_MOST_UNITS,
  T_OFFSET,
  T_QUANTIZED,
  T_RECORDS,
  TERM_BYTES,
} from "./layout";

/** The greatest sum, before contributions are rounded up. */
const UNITS: f64 = 64000;

/** By how many units a contribution is rounded up at most. */
const ROUNDED: f64 = 4;

/** The greatest factor. */
const FACTOR: f64 = 32000;

/** Bytes at the beginning of a list that are read before any list is added up. */
const TOUCHED_BYTES: usize = 512;

/**
 * Reads a byte of each cache line. The lists of a query are far apart and cold. What is read here does not wait for anything, so the processor
 * fetches many lines at once: with 200,000 vectors of 120 entries, queries take 0.8 of the time.
 */
export function touch(from: usize, end: usize): u32 {
  let read: u32 = 0;
  for (let at = from; at < end; at += 64) read += load<u8>(at);
  return read;
}

/** By how many bits the quantized impacts of a segment are shifted. */
export function shiftOf(scratch: usize): u32 {
  return clz<u32>(load<u32>(scratch, S_LEVELS)) - 17;
}

/** Chooses the unit, and computes offset, factor and the most units of each term. No impact is negative. */
export function enterUnits(scratch: usize): void {
  const count = load<u32>(scratch, S_TERM_COUNT);
  const query = <usize>load<u32>(scratch, S_QUERY);
  const queryEnd = query + <usize>count * Q_BYTES;
  const levels = load<u32>(scratch, S_LEVELS);
  const shift = shiftOf(scratch);
  const perSlope = <f64>((<u32>1) << (15 - shift));
  let total: f64 = 0;
  let slope: f64 = 0;
  for (let entry = query; entry < queryEnd; entry += Q_BYTES) {
    total += load<f64>(entry, Q_BASE) + load<f64>(entry, Q_SLOPE) * <f64>levels;
    slope = max<f64>(slope, load<f64>(entry, Q_SLOPE));
  }
  let units = total > 0 ? (UNITS - ROUNDED * <f64>count) / total : 1;
  if (slope * units * perSlope > FACTOR) units = FACTOR / (slope * perSlope);
  store<f64>(scratch, units, S_UNITS);
  const sorted = <usize>load<u32>(scratch, S_SORTED);
  let term = <usize>load<u32>(scratch, S_TERMS);
  let read: u32 = 0;
  for (let i: u32 = 0; i < count; i++, term += TERM_BYTES) {
    const entry = query + <usize>load<u32>(sorted + ((<usize>i) << 2)) * Q_BYTES;
    store<u32>(term, <u32>ceil(load<f64>(entry, Q_SLOPE) * units * perSlope), T_FACTOR);
    store<u32>(term, <u32>ceil(load<f64>(entry, Q_BASE) * units + 0.5), T_OFFSET);
    store<u32>(term, unitsOf(term, levels, shift), T_MOST_UNITS);
    const records = <usize>load<u32>(term, T_RECORDS);
    read += touch(records, min<usize>(<usize>load<u32>(term, T_EXACT), records + TOUCHED_BYTES));
    read += load<u8>(<usize>load<u32>(term, T_QUANTIZED));
  }
  // Stored, so that the reads are not removed.
  store<u32>(scratch, read, S_LISTED);
}

/** By how much a sum can be too great: a posting by less than a level, and by what rounding adds. */
export function errorOfUnits(scratch: usize): u32 {
  const count = load<u32>(scratch, S_TERM_COUNT);
  const query = <usize>load<u32>(scratch, S_QUERY);
  const queryEnd = query + <usize>count * Q_BYTES;
  let slopes: f64 = 0;
  for (let entry = query; entry < queryEnd; entry += Q_BYTES) slopes += load<f64>(entry, Q_SLOPE);
  return <u32>ceil(slopes * load<f64>(scratch, S_UNITS) + ROUNDED * <f64>count);
}

/** What a posting with a quantized impact adds. */
export function unitsOf(term: usize, quantized: u32, shift: u32): u32 {
  return (((quantized << shift) * load<u32>(term, T_FACTOR) + 0x4000) >> 15) + load<u32>(term, T_OFFSET);
}

/** ... of the eight postings from one on. */
function unitsOfEight(quantized: usize, shift: u32, factors: v128, offsets: v128): v128 {
  const shifted = i16x8.shl(v128.load8x8_u(quantized), <i32>shift);
  return i16x8.add(i16x8.q15mulr_sat_s(shifted, factors), offsets);
}

/** Adds the impacts of a list to the sums of its records. */
export function addUnits(scratch: usize, term: usize): void {
  const sums = <usize>load<u32>(scratch, S_RECORD_SUMS);
  const shift = shiftOf(scratch);
  let at = <usize>load<u32>(term, T_RECORDS);
  const end = at + ((<usize>load<u32>(term, T_COUNT)) << 1);
  let quantized = <usize>load<u32>(term, T_QUANTIZED);
  const factors = i16x8.splat(<i16>load<u32>(term, T_FACTOR));
  const offsets = i16x8.splat(<i16>load<u32>(term, T_OFFSET));
  for (; at + 16 <= end; at += 16, quantized += 8) {
    const units = unitsOfEight(quantized, shift, factors, offsets);
    // Two moves of 64 bits and shifts are faster than eight extractions.
    const low = i64x2.extract_lane(units, 0);
    const high = i64x2.extract_lane(units, 1);
    addOne(sums, load<u16>(at), <u32>low);
    addOne(sums, load<u16>(at, 2), <u32>(low >> 16));
    addOne(sums, load<u16>(at, 4), <u32>(low >> 32));
    addOne(sums, load<u16>(at, 6), <u32>(low >> 48));
    addOne(sums, load<u16>(at, 8), <u32>high);
    addOne(sums, load<u16>(at, 10), <u32>(high >> 16));
    addOne(sums, load<u16>(at, 12), <u32>(high >> 32));
    addOne(sums, load<u16>(at, 14), <u32>(high >> 48));
  }
  for (; at < end; at += 2) addOne(sums, load<u16>(at), unitsOf(term, load<u8>(quantized++), shift));
}

function addOne(sums: usize, record: u32, units: u32): void {
  const at = sums + ((<usize>record) << 1);
  store<u16>(at, load<u16>(at) + units);
}

/**
 * The same, and lists a record the moment its sum reaches the required value, which is at least 1. Where nothing is listed, `addUnits` takes
 * 0.8 of the time.
 * @param top where the next record is listed, as u32
 * @returns the same afterwards
 */
export function addUnitsUpTo(scratch: usize, term: usize, needed: u32, top: usize): usize {
  const sums = <usize>load<u32>(scratch, S_RECORD_SUMS);
  const shift = shiftOf(scratch);
  let at = <usize>load<u32>(term, T_RECORDS);
  const end = at + ((<usize>load<u32>(term, T_COUNT)) << 1);
  let quantized = <usize>load<u32>(term, T_QUANTIZED);
  const factors = i16x8.splat(<i16>load<u32>(term, T_FACTOR));
  const offsets = i16x8.splat(<i16>load<u32>(term, T_OFFSET));
  for (; at + 16 <= end; at += 16, quantized += 8) {
    const units = unitsOfEight(quantized, shift, factors, offsets);
    top = addOneUpTo(sums, load<u16>(at), i16x8.extract_lane_u(units, 0), needed, top);
    top = addOneUpTo(sums, load<u16>(at, 2), i16x8.extract_lane_u(units, 1), needed, top);
    top = addOneUpTo(sums, load<u16>(at, 4), i16x8.extract_lane_u(units, 2), needed, top);
    top = addOneUpTo(sums, load<u16>(at, 6), i16x8.extract_lane_u(units, 3), needed, top);
    top = addOneUpTo(sums, load<u16>(at, 8), i16x8.extract_lane_u(units, 4), needed, top);
    top = addOneUpTo(sums, load<u16>(at, 10), i16x8.extract_lane_u(units, 5), needed, top);
    top = addOneUpTo(sums, load<u16>(at, 12), i16x8.extract_lane_u(units, 6), needed, top);
    top = addOneUpTo(sums, load<u16>(at, 14), i16x8.extract_lane_u(units, 7), needed, top);
  }
  for (; at < end; at += 2)
    top = addOneUpTo(sums, load<u16>(at), unitsOf(term, load<u8>(quantized++), shift), needed, top);
  return top;
}

function addOneUpTo(sums: usize, record: u32, units: u32, needed: u32, top: usize): usize {
  const at = sums + ((<usize>record) << 1);
  const before = <u32>load<u16>(at);
  const sum = before + units;
  store<u16>(at, sum);
  if (sum < needed || before >= needed) return top;
  store<u32>(top, record);
  return top + 4;
}
