// What is the exact score of a record?
//
// Every posting that the record has in the query's lists counts. The TypeScript code (engine/index/postings/score-all.ts) takes the same
// steps, so a record's score does not depend on where it is stored.

import { enterSegment } from "./enter";
import {
  S_FIXED,
  S_FOUND,
  S_FOUND_COUNT,
  S_KIND,
  S_LENGTHS,
  S_ORDER,
  S_PER_TERM,
  S_TERM_COUNT,
  S_TERMS,
  SPARSE,
  T_COUNT,
  T_CURSOR,
  T_END,
  T_EXACT,
  T_WEIGHT,
  T_WINDOWS,
  TERM_BYTES,
  TEXT,
  WINDOW_BITS,
} from "./layout";
import { postingOf } from "./posting-of";

/**
 * Scores the records that are among the found already; one that has none of the terms gets NaN. The scratch's floor must be one that
 * none can miss.
 */
export function scoreRecords(scratch: usize): void {
  if (!enterSegment(scratch)) return;
  const terms = <usize>load<u32>(scratch, S_TERMS);
  const termsEnd = terms + <usize>load<u32>(scratch, S_TERM_COUNT) * TERM_BYTES;
  const found = <usize>load<u32>(scratch, S_FOUND);
  const foundEnd = found + ((<usize>load<u32>(scratch, S_FOUND_COUNT)) << 4);
  for (let at = found; at < foundEnd; at += 16) {
    const record = load<u32>(at, 8);
    for (let term = terms; term < termsEnd; term += TERM_BYTES) enterWindowOf(term, record);
    const score = exactScore(scratch, record);
    store<f64>(at, score !== 0 || hasAny(terms, termsEnd, record) ? score : NaN);
  }
}

/** Whether a record has a posting in any of the lists, searched where it can be. */
function hasAny(terms: usize, termsEnd: usize, record: u32): bool {
  for (let term = terms; term < termsEnd; term += TERM_BYTES)
    if (postingOf(term, load<u32>(term, T_CURSOR), load<u32>(term, T_END), record) >= 0) return true;
  return false;
}

/** Sets the cursor to the window of postings that can contain the record. */
function enterWindowOf(term: usize, record: u32): void {
  const windows = <usize>load<u32>(term, T_WINDOWS);
  if (windows === 0) {
    store<u32>(term, load<u32>(term, T_COUNT), T_END);
    return;
  }
  const window = windows + ((<usize>(record >> WINDOW_BITS)) << 2);
  store<u32>(term, load<u32>(window), T_CURSOR);
  store<u32>(term, load<u32>(window, 4), T_END);
}

/**
 * The exact score of a record: impacts in the order of the query, each times its weight. Every list is searched where the record's posting
 * can be.
 */
export function exactScore(scratch: usize, record: u32): f64 {
  const terms = <usize>load<u32>(scratch, S_TERMS);
  const order = <usize>load<u32>(scratch, S_ORDER);
  const orderEnd = order + ((<usize>load<u32>(scratch, S_TERM_COUNT)) << 2);
  const kind = load<u32>(scratch, S_KIND);
  let norm: f64 = 0;
  if (kind !== SPARSE) {
    const length = load<u32>(<usize>load<u32>(scratch, S_LENGTHS) + ((<usize>record) << 2));
    norm = load<f64>(scratch, S_PER_TERM) * <f64>length;
  }
  const fixed = load<f64>(scratch, S_FIXED);
  let score: f64 = 0;
  for (let at = order; at < orderEnd; at += 4) {
    const term = terms + <usize>load<u32>(at) * TERM_BYTES;
    const posting = postingOf(term, load<u32>(term, T_CURSOR), load<u32>(term, T_END), record);
    if (posting < 0) continue;
    const weight = load<f64>(term, T_WEIGHT);
    const exact = <usize>load<u32>(term, T_EXACT);
    if (kind === SPARSE) {
      score += weight * <f64>load<f32>(exact + ((<usize>posting) << 2));
    } else {
      const tf =
        kind === TEXT
          ? <f64>load<u8>(exact + <usize>posting)
          : <f64>load<u32>(exact + ((<usize>posting) << 2));
      score += (weight * tf) / (tf + fixed + norm);
    }
  }
  return score;
}
