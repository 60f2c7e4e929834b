// How are the quantized impacts, the windows and the entry of a list written?
//
// From its records and exact impacts, which are in their columns already (layout.ts). Two passes of the list, in which an impact is
// computed twice: that takes less time than a column of f64 in between.

import {
  BLOCK_BITS,
  E_BASE,
  E_MOST,
  E_SLOPE,
  E_TOP_IMPACTS,
  HIGH_IMPACT_BITS,
  LONG,
  SPARSE,
  TEXT,
  TOP_IMPACT_BITS,
  TOP_IMPACTS,
  W_BLOCK_IMPACTS,
  W_HIGH_IMPACT,
  W_IMPACTS,
  WINDOW_BITS,
} from "./layout";
import { recordAt } from "./posting-of";

/** Windows and blocks of the longest segment. */
const WINDOWS: u32 = 16;
const BLOCKS: usize = 128;

/** A slope is rounded to f32: this makes it too large rather than too small. */
const SLOPE_MARGIN: f64 = 1.0 + 1.0 / 4194304.0;

/** The least f32 above 0. */
const LEAST_F32: f64 = 1.401298464324817e-45;

function impactAt(
  exact: usize,
  records: usize,
  i: u32,
  kind: u32,
  lengths: usize,
  fixed: f64,
  perTerm: f64,
): f64 {
  if (kind === SPARSE) return <f64>load<f32>(exact + ((<usize>i) << 2));
  const tf: f64 = kind === TEXT ? <f64>load<u8>(exact + <usize>i) : <f64>load<u32>(exact + ((<usize>i) << 2));
  const length = <f64>load<u32>(lengths + ((<usize>recordAt(records, i)) << 2));
  return tf / (tf + fixed + perTerm * length);
}

/**
 * Writes what follows from a list's postings.
 * @param records its column, which the quantized impacts follow; exact, windows: the places of these columns
 * @param lengths of the segment's records, u32. Only of texts
 * @param entry gets all but the place and the count
 * @param counters 2,048 bytes for the time of the call
 * @returns whether an impact is negative
 */
export function writeList(
  records: usize,
  exact: usize,
  windows: usize,
  count: u32,
  kind: u32,
  levels: u32,
  lengths: usize,
  fixed: f64,
  perTerm: f64,
  entry: usize,
  counters: usize,
): bool {
  let least: f64 = Infinity;
  let most: f64 = -Infinity;
  if (kind === SPARSE) {
    least = <f64>leastOf(exact, count);
    most = <f64>mostOf(exact, count);
  } else {
    for (let i: u32 = 0; i < count; i++) {
      const impact = impactAt(exact, records, i, kind, lengths, fixed, perTerm);
      if (impact < least) least = impact;
      if (impact > most) most = impact;
    }
  }
  // The contribution of a term approaches zero in long texts, and with another average length even more so.
  const base: f64 = kind === SPARSE ? least : 0;
  const slope = slopeFor(most - base, <f64>levels);
  store<f32>(entry, <f32>base, E_BASE);
  store<f32>(entry, <f32>slope, E_SLOPE);
  // A weight is an f32, and stays as it is.
  store<f32>(entry, <f32>(kind === SPARSE ? most : most * SLOPE_MARGIN), E_MOST);
  const quantized = records + ((<usize>count) << 1);
  const perImpact: f64 = slope > 0 ? 1.0 / slope : 0;
  let i: u32 = 0;
  if (kind === SPARSE)
    for (; i + 8 <= count; i += 8) {
      const at = exact + ((<usize>i) << 2);
      const low = quantizedOfFour(v128.load(at), base, slope, perImpact, <f64>levels);
      const high = quantizedOfFour(v128.load(at, 16), base, slope, perImpact, <f64>levels);
      const eight = i16x8.narrow_i32x4_u(low, high);
      v128.store64_lane(quantized + <usize>i, i8x16.narrow_i16x8_u(eight, eight), 0);
    }
  for (; i < count; i++) {
    const impact = impactAt(exact, records, i, kind, lengths, fixed, perTerm);
    let q: f64 = ceil((impact - base) * perImpact);
    if (q > <f64>levels) q = <f64>levels;
    // A quotient can be rounded to the wrong side of an integer.
    if (q > 0 && base + slope * (q - 1) >= impact) q--;
    if (base + slope * q < impact) q++;
    store<u8>(quantized + <usize>i, <u8>(<u32>q));
  }
  // A call of memory.fill would take longer than a list of ten postings.
  store<u64>(entry, 0, E_TOP_IMPACTS);
  store<u32>(entry, 0, E_TOP_IMPACTS + 8);
  if (count >= LONG) {
    memory.fill(counters, 0, 2048);
    writeWindows(windows, records, quantized, count, counters);
    writeTopImpacts(entry + E_TOP_IMPACTS, counters);
    if (kind === SPARSE) writeHighImpact(windows + W_HIGH_IMPACT, records, quantized, count, counters);
  }
  return least < 0;
}

/** The least of some weights, at least one. */
function leastOf(exact: usize, count: u32): f32 {
  let least = load<f32>(exact);
  let i: u32 = 0;
  if (count >= 4) {
    let four = v128.load(exact);
    for (i = 4; i + 4 <= count; i += 4) four = f32x4.pmin(four, v128.load(exact + ((<usize>i) << 2)));
    least = min<f32>(
      min<f32>(f32x4.extract_lane(four, 0), f32x4.extract_lane(four, 1)),
      min<f32>(f32x4.extract_lane(four, 2), f32x4.extract_lane(four, 3)),
    );
  }
  for (; i < count; i++) least = min<f32>(least, load<f32>(exact + ((<usize>i) << 2)));
  return least;
}

/** ... the greatest. */
function mostOf(exact: usize, count: u32): f32 {
  let most = load<f32>(exact);
  let i: u32 = 0;
  if (count >= 4) {
    let four = v128.load(exact);
    for (i = 4; i + 4 <= count; i += 4) four = f32x4.pmax(four, v128.load(exact + ((<usize>i) << 2)));
    most = max<f32>(
      max<f32>(f32x4.extract_lane(four, 0), f32x4.extract_lane(four, 1)),
      max<f32>(f32x4.extract_lane(four, 2), f32x4.extract_lane(four, 3)),
    );
  }
  for (; i < count; i++) most = max<f32>(most, load<f32>(exact + ((<usize>i) << 2)));
  return most;
}

/** The quantized impacts of four weights, i32, by the steps that one takes. */
function quantizedOfFour(weights: v128, base: f64, slope: f64, perImpact: f64, levels: f64): v128 {
  const low = quantizedOfTwo(f64x2.promote_low_f32x4(weights), base, slope, perImpact, levels);
  const upper = i64x2.shuffle(weights, weights, 1, 1);
  const high = quantizedOfTwo(f64x2.promote_low_f32x4(upper), base, slope, perImpact, levels);
  return i32x4.shuffle(low, high, 0, 2, 4, 6);
}

function quantizedOfTwo(impacts: v128, base: f64, slope: f64, perImpact: f64, levels: f64): v128 {
  const bases = f64x2.splat(base);
  const slopes = f64x2.splat(slope);
  const one = f64x2.splat(1);
  let q = f64x2.ceil(f64x2.mul(f64x2.sub(impacts, bases), f64x2.splat(perImpact)));
  q = f64x2.pmin(q, f64x2.splat(levels));
  const below = f64x2.add(bases, f64x2.mul(slopes, f64x2.sub(q, one)));
  const isHigh = v128.and(f64x2.gt(q, f64x2.splat(0)), f64x2.ge(below, impacts));
  q = f64x2.sub(q, v128.and(isHigh, one));
  const isLow = f64x2.lt(f64x2.add(bases, f64x2.mul(slopes, q)), impacts);
  q = f64x2.add(q, v128.and(isLow, one));
  // The lower 32 bits are the integer then.
  return f64x2.add(q, f64x2.splat(4503599627370496));
}

/** An f32 whose product with `levels` is at least `range`, and hardly more. */
function slopeFor(range: f64, levels: f64): f64 {
  const slope = <f64>(<f32>((range / levels) * SLOPE_MARGIN));
  // Only among the smallest numbers that there are.
  return slope * levels >= range ? slope : <f64>(<f32>(slope + LEAST_F32));
}

/** Writes where the windows begin and their greatest impacts. @param having gets how many postings have each quantized impact, u32 */
function writeWindows(windows: usize, records: usize, quantized: usize, count: u32, having: usize): void {
  const blocks = windows + W_BLOCK_IMPACTS;
  memory.fill(blocks, 0, BLOCKS);
  let i: u32 = 0;
  for (let window: u32 = 0; window < WINDOWS; window++) {
    store<u32>(windows + ((<usize>window) << 2), i);
    const end = (window + 1) << WINDOW_BITS;
    let greatest: u8 = 0;
    for (; i < count; i++) {
      const record = recordAt(records, i);
      if (record >= end) break;
      const impact = load<u8>(quantized + <usize>i);
      const counter = having + ((<usize>impact) << 2);
      store<u32>(counter, load<u32>(counter) + 1);
      greatest = max(greatest, impact);
      const block = blocks + (<usize>record >> BLOCK_BITS);
      store<u8>(block, max(load<u8>(block), impact));
    }
    store<u8>(windows + W_IMPACTS + <usize>window, greatest);
  }
  store<u32>(windows + ((<usize>WINDOWS) << 2), count);
}

/** Writes the impacts that the top postings reach. */
function writeTopImpacts(at: usize, having: usize): void {
  let impact: usize = 255;
  let above = load<u32>(having, 4 * 255);
  for (let i: u32 = 0; i < TOP_IMPACTS; i++) {
    const rank: u32 = 1 << (TOP_IMPACT_BITS + i);
    while (impact > 0 && above < rank) above += load<u32>(having + (--impact << 2));
    store<u8>(at + <usize>i, above >= rank ? <u8>impact : 0);
  }
}

/** Writes the high-impact prefix of a list. */
function writeHighImpact(at: usize, records: usize, quantized: usize, count: u32, having: usize): void {
  const highImpact = count >> HIGH_IMPACT_BITS;
  // Where the next posting of each quantized impact goes.
  const places = having + 1024;
  for (let impact: i32 = 254; impact >= 0; impact--) {
    const above = (<usize>impact + 1) << 2;
    store<u32>(places + ((<usize>impact) << 2), load<u32>(places + above) + load<u32>(having + above));
  }
  const impacts = at + ((<usize>highImpact) << 1);
  for (let i: u32 = 0; i < count; i++) {
    const impact = load<u8>(quantized + <usize>i);
    const counter = places + ((<usize>impact) << 2);
    const place = load<u32>(counter);
    store<u32>(counter, place + 1);
    if (place >= highImpact) continue;
    store<u16>(at + ((<usize>place) << 1), <u16>recordAt(records, i));
    store<u8>(impacts + <usize>place, impact);
  }
}
