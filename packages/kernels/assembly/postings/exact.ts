// What is the exact score of a record?
//
// Every posting that the record has in the query's lists counts. The TypeScript code (engine/index/inverted/score-all.ts) takes the same
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
  T_EXACT,
  T_WEIGHT,
  TERM_BYTES,
  TEXT,
} from "./layout";
import { postingIn } from "./posting-of";

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
  exactScores(scratch, found, load<u32>(scratch, S_FOUND_COUNT));
  for (let at = found; at < foundEnd; at += 16)
    if (load<f64>(at) === 0 && !hasAny(terms, termsEnd, load<u32>(at, 8))) store<f64>(at, NaN);
}

/** Whether a record has a posting in any of the lists, searched where it can be. */
function hasAny(terms: usize, termsEnd: usize, record: u32): bool {
  for (let term = terms; term < termsEnd; term += TERM_BYTES) if (postingIn(term, record) >= 0) return true;
  return false;
}

/**
 * The exact scores of some records: impacts in the order of the query, each times its weight. All records are looked up in one list after
 * the other: look-ups of different records do not wait for each other, while those of one record in different lists all miss the caches.
 * @param entries as those of found records, with the record; the score is written
 */
export function exactScores(scratch: usize, entries: usize, count: u32): void {
  const terms = <usize>load<u32>(scratch, S_TERMS);
  const order = <usize>load<u32>(scratch, S_ORDER);
  const orderEnd = order + ((<usize>load<u32>(scratch, S_TERM_COUNT)) << 2);
  const lengths = <usize>load<u32>(scratch, S_LENGTHS);
  const kind = load<u32>(scratch, S_KIND);
  const fixed = load<f64>(scratch, S_FIXED);
  const perTerm = load<f64>(scratch, S_PER_TERM);
  const end = entries + ((<usize>count) << 4);
  for (let entry = entries; entry < end; entry += 16) store<f64>(entry, 0);
  for (let at = order; at < orderEnd; at += 4) {
    const term = terms + <usize>load<u32>(at) * TERM_BYTES;
    const weight = load<f64>(term, T_WEIGHT);
    const exact = <usize>load<u32>(term, T_EXACT);
    for (let entry = entries; entry < end; entry += 16) {
      const record = load<u32>(entry, 8);
      const found = postingIn(term, record);
      if (found < 0) continue;
      const posting = <usize>found;
      let impact: f64;
      if (kind === SPARSE) {
        impact = weight * <f64>load<f32>(exact + (posting << 2));
      } else {
        const tf = kind === TEXT ? <f64>load<u8>(exact + posting) : <f64>load<u32>(exact + (posting << 2));
        impact = (weight * tf) / (tf + fixed + perTerm * <f64>load<u32>(lengths + ((<usize>record) << 2)));
      }
      store<f64>(entry, load<f64>(entry) + impact);
    }
  }
}

/** ... of one record. */
export function exactScore(scratch: usize, record: u32): f64 {
  const entry = <usize>load<u32>(scratch, S_FOUND) + ((<usize>load<u32>(scratch, S_FOUND_COUNT)) << 4);
  store<u32>(entry, record, 8);
  exactScores(scratch, entry, 1);
  return load<f64>(entry);
}
