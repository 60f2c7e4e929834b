// How much can the terms of a query contribute in a segment?
//
// Computed from the headers of the lists when a search enters the segment: the offsets of each list's columns, and its bounds, scaled so
// that the greatest possible sum is 1.

import {
  E_BASE,
  E_COUNT,
  E_MOST,
  E_PLACE,
  E_SLOPE,
  E_TOP_IMPACTS,
  LONG,
  Q_BASE,
  Q_BYTES,
  Q_ENTRY,
  Q_MOST,
  Q_SLOPE,
  Q_WEIGHT,
  S_FLOOR,
  S_GROWTH,
  S_IS_ENTERED,
  S_K,
  S_KIND,
  S_LEAST,
  S_LEVELS,
  S_LIMIT,
  S_MISSING,
  S_ORDER,
  S_QUERY,
  S_QUERY_COUNT,
  S_SCALE,
  S_SEGMENT,
  S_SHRINKAGE,
  S_SINKS,
  S_SLACK,
  S_SORTED,
  S_TERM_COUNT,
  S_TERMS,
  S_WINDOW,
  T_BASE,
  T_BOUND,
  T_COUNT,
  T_CURSOR,
  T_END,
  T_EXACT,
  T_LEAST,
  T_QUANTIZED,
  T_RECORDS,
  T_SLOPE,
  T_WEIGHT,
  T_WINDOWS,
  TERM_BYTES,
  TEXT,
  TOP_IMPACT_BITS,
  TOP_IMPACTS,
} from "./layout";

/** What bounds from f32 columns are multiplied with to be sure. */
const MARGIN: f64 = 1.0 + 1.0 / 1048576.0;

/** f32 sums of n terms, of which the greatest possible is 1, are wrong by less than n + 4 times this. */
const SUM_ERROR: f64 = 1.0 / 8388608.0;

/** Prepares the terms of the query; returns whether a record of the segment can reach the floor. */
export function enterSegment(scratch: usize): bool {
  const count = load<u32>(scratch, S_QUERY_COUNT);
  const query = <usize>load<u32>(scratch, S_QUERY);
  const queryEnd = query + <usize>count * Q_BYTES;
  const growth = load<f64>(scratch, S_GROWTH);
  const levels = <f64>load<u32>(scratch, S_LEVELS);
  let total: f64 = 0;
  let greatest: f64 = 0;
  for (let entry = query; entry < queryEnd; entry += Q_BYTES) {
    bound(entry, growth);
    const base = load<f64>(entry, Q_BASE);
    total += max<f64>(abs<f64>(base), abs<f64>(base + load<f64>(entry, Q_SLOPE) * levels));
    greatest += max<f64>(0, load<f64>(entry, Q_MOST));
  }
  if (count === 0 || greatest * MARGIN < load<f64>(scratch, S_FLOOR)) return false;
  if (load<u32>(scratch, S_SINKS) === 0) raiseFloor(scratch, query, queryEnd);
  const scale: f64 = total > 0 ? 1 / total : 1;
  store<f64>(scratch, scale, S_SCALE);
  store<f64>(scratch, (<f64>count + 4) * SUM_ERROR, S_SLACK);
  // Lower by what sums can be too small, but never so low that an impact of nothing counts.
  const least = load<f64>(scratch, S_LEAST);
  const limit = <f32>(least * scale - 4 * SUM_ERROR);
  store<f32>(scratch, least > 0 ? max<f32>(limit, f32.MIN_NORMAL_VALUE) : limit, S_LIMIT);
  store<u32>(scratch, count, S_TERM_COUNT);
  sort(scratch, query, count);
  writeTerms(scratch, query, count, scale);
  store<u32>(scratch, 0, S_WINDOW);
  store<u32>(scratch, 1, S_IS_ENTERED);
  return true;
}

/** Upper bounds of what a list's postings add: base + slope * quantized impact for each, `most` for all. */
function bound(entry: usize, growth: f64): void {
  const list = <usize>load<u32>(entry, Q_ENTRY);
  const weight = load<f64>(entry, Q_WEIGHT);
  const base = <f64>load<f32>(list, E_BASE);
  const slope = <f64>load<f32>(list, E_SLOPE);
  if (weight >= 0) {
    const factor = weight * growth;
    store<f64>(entry, factor * base, Q_BASE);
    store<f64>(entry, factor * slope, Q_SLOPE);
    store<f64>(entry, factor * <f64>load<f32>(list, E_MOST), Q_MOST);
  } else {
    // With a negative weight the smallest impact adds most, and the impact of a posting is at least that of the next smaller quantized
    // impact.
    store<f64>(entry, weight * (base - slope), Q_BASE);
    store<f64>(entry, weight * slope, Q_SLOPE);
    store<f64>(entry, weight * base, Q_MOST);
  }
}

/**
 * Raises the floor to what k records are known to reach, from the top-k impact bounds of long lists: a single posting contributes that
 * much.
 */
function raiseFloor(scratch: usize, query: usize, queryEnd: usize): void {
  const rank = load<u32>(scratch, S_K) + load<u32>(scratch, S_MISSING);
  const power: u32 = max<u32>(TOP_IMPACT_BITS, rank <= 1 ? 0 : 32 - clz<u32>(rank - 1));
  if (power >= TOP_IMPACT_BITS + TOP_IMPACTS) return;
  const shrinkage = load<f64>(scratch, S_SHRINKAGE);
  const least = load<f64>(scratch, S_LEAST);
  let floor = load<f64>(scratch, S_FLOOR);
  for (let entry = query; entry < queryEnd; entry += Q_BYTES) {
    const list = <usize>load<u32>(entry, Q_ENTRY);
    const count = load<u32>(list, E_COUNT);
    if (count < LONG || (<u32>1) << power > count) continue;
    const quantized = load<u8>(list + <usize>(power - TOP_IMPACT_BITS), E_TOP_IMPACTS);
    // A quantized impact is rounded up, so the true impact is greater than the next smaller one.
    const impact =
      <f64>load<f32>(list, E_BASE) +
      <f64>load<f32>(list, E_SLOPE) * (quantized === 0 ? 0 : <f64>(quantized - 1));
    const reached = (load<f64>(entry, Q_WEIGHT) * impact * shrinkage) / MARGIN;
    if (reached >= least && reached > floor) floor = reached;
  }
  store<f64>(scratch, floor, S_FLOOR);
}

export function exactOf(list: usize, count: u32): usize {
  // A list begins at a place that four divides.
  return (quantizedImpactsOf(list, count) + <usize>count + 3) & ~3;
}

export function quantizedImpactsOf(list: usize, count: u32): usize {
  return list + ((<usize>count) << 1);
}

function windowsOf(list: usize, kind: u32, count: u32): usize {
  return (exactOf(list, count) + ((<usize>count) << (kind === TEXT ? 0 : 2)) + 3) & ~3;
}

/** Sorts the places of the query's terms by ascending bound (Shell, 1959, with the gaps of Ciura, 2001). */
function sort(scratch: usize, query: usize, count: u32): void {
  const sorted = <usize>load<u32>(scratch, S_SORTED);
  for (let i: u32 = 0; i < count; i++) store<u32>(sorted + ((<usize>i) << 2), i);
  for (let gap = firstGap(count); gap > 0; gap = nextGap(gap)) {
    for (let i = gap; i < count; i++) {
      const moved = load<u32>(sorted + ((<usize>i) << 2));
      const most = load<f64>(query + <usize>moved * Q_BYTES, Q_MOST);
      let at = i;
      for (; at >= gap; at -= gap) {
        const other = load<u32>(sorted + ((<usize>(at - gap)) << 2));
        if (load<f64>(query + <usize>other * Q_BYTES, Q_MOST) <= most) break;
        store<u32>(sorted + ((<usize>at) << 2), other);
      }
      store<u32>(sorted + ((<usize>at) << 2), moved);
    }
  }
}

function firstGap(count: u32): u32 {
  return count < 20 ? 1 : count < 46 ? 10 : count < 114 ? 23 : count < 264 ? 57 : count < 602 ? 132 : 301;
}

function nextGap(gap: u32): u32 {
  if (gap > 10) return gap === 301 ? 132 : gap === 132 ? 57 : gap === 57 ? 23 : 10;
  return gap === 10 ? 4 : gap === 4 ? 1 : 0;
}

function writeTerms(scratch: usize, query: usize, count: u32, scale: f64): void {
  const kind = load<u32>(scratch, S_KIND);
  const segment = <usize>load<u32>(scratch, S_SEGMENT);
  const sorted = <usize>load<u32>(scratch, S_SORTED);
  const order = <usize>load<u32>(scratch, S_ORDER);
  let term = <usize>load<u32>(scratch, S_TERMS);
  for (let i: u32 = 0; i < count; i++, term += TERM_BYTES) {
    const place = load<u32>(sorted + ((<usize>i) << 2));
    const entry = query + <usize>place * Q_BYTES;
    store<u32>(order + ((<usize>place) << 2), i);
    const inDirectory = <usize>load<u32>(entry, Q_ENTRY);
    const list = segment + <usize>load<u32>(inDirectory, E_PLACE);
    const postings = load<u32>(inDirectory, E_COUNT);
    store<u32>(term, <u32>list, T_RECORDS);
    store<u32>(term, <u32>exactOf(list, postings), T_EXACT);
    store<u32>(term, <u32>quantizedImpactsOf(list, postings), T_QUANTIZED);
    store<u32>(term, postings, T_COUNT);
    store<u32>(term, postings >= LONG ? <u32>windowsOf(list, kind, postings) : 0, T_WINDOWS);
    store<f32>(term, <f32>(load<f64>(entry, Q_BASE) * scale), T_BASE);
    store<f32>(term, <f32>(load<f64>(entry, Q_SLOPE) * scale), T_SLOPE);
    store<f32>(term, <f32>(load<f64>(entry, Q_MOST) * scale), T_BOUND);
    store<f64>(term, load<f64>(entry, Q_WEIGHT), T_WEIGHT);
    store<u32>(term, leastQuantized(term, load<f32>(scratch, S_LIMIT)), T_LEAST);
    store<u32>(term, 0, T_CURSOR);
    store<u32>(term, 0, T_END);
  }
}

/** The smallest quantized impact that reaches the limit; more than 255 if none does. Only for non-negative slopes. */
function leastQuantized(term: usize, limit: f32): u32 {
  const base = load<f32>(term, T_BASE);
  const slope = load<f32>(term, T_SLOPE);
  if (base >= limit) return 0;
  if (!(slope > 0)) return 256;
  // A quotient can be rounded to the wrong side of an integer, so the candidates from two below are tried.
  let quantized = <u32>min<f32>(max<f32>((limit - base) / slope - 2, 0), 256);
  while (quantized < 256 && base + slope * <f32>quantized < limit) quantized++;
  return quantized;
}
