// In which way is a segment searched?
//
//   by reaching   sums of 16 bits, of which those that reach what is needed are listed: texts, whose queries have few and very unequal lists
//   by units      sums of 16 bits of all lists, and exact scores of the greatest: sparse vectors
//   by sums       exact sums of all postings, if lists are short and no other segment was searched: looking records up in so many lists
//                 costs more than it saves
//   by windows    4,096 records at a time: what can be negative, and where there is no memory for the sums of all records

import { searchUnits } from "./by-units";
import { enterSegment } from "./enter";
import {
  E_BASE,
  E_COUNT,
  Q_BYTES,
  Q_ENTRY,
  Q_WEIGHT,
  S_HAS_SUMS,
  S_HEAP_COUNT,
  S_IS_ENTERED,
  S_K,
  S_KIND,
  S_QUERY,
  S_QUERY_COUNT,
  S_SINKS,
  S_STAGE,
  S_WAY,
  SPARSE,
} from "./layout";
import { searchReaching } from "./reaching";
import { enterSums, sumSegment } from "./sums";
import { searchWindows } from "./windows";

const BY_UNITS: u32 = 0;
const BY_SUMS: u32 = 1;
const BY_REACHING: u32 = 2;
const BY_WINDOWS: u32 = 3;

/**
 * Searches the segment given in the scratch memory, from the start or from where it stopped, until all is done or more than `WINDOW` records
 * were found; returns whether all is done. Before the next call, the caller takes the found records and sets their count to 0.
 */
export function searchSegment(scratch: usize): bool {
  if (load<u32>(scratch, S_IS_ENTERED) === 0) {
    store<u32>(scratch, wayOf(scratch), S_WAY);
    store<u32>(scratch, 0, S_STAGE);
    if (load<u32>(scratch, S_WAY) === BY_SUMS) enterSums(scratch);
    else if (!enterSegment(scratch)) return true;
  }
  const way = load<u32>(scratch, S_WAY);
  if (way === BY_REACHING) return searchReaching(scratch);
  if (way === BY_UNITS) return searchUnits(scratch);
  return way === BY_SUMS ? sumSegment(scratch) : searchWindows(scratch);
}

/** Adding a posting exactly instead of by units costs more than looking up one in this many. Half of it and twice as much are as fast. */
const POSTINGS_PER_LOOK_UP: u32 = 30;

/** About so many records are looked up besides the k best. */
const SURPLUS: u32 = 15;

function wayOf(scratch: usize): u32 {
  if (load<u32>(scratch, S_SINKS) !== 0 || load<u32>(scratch, S_HAS_SUMS) === 0) return BY_WINDOWS;
  if (load<u32>(scratch, S_KIND) !== SPARSE) return BY_REACHING;
  const count = load<u32>(scratch, S_QUERY_COUNT);
  const query = <usize>load<u32>(scratch, S_QUERY);
  const queryEnd = query + <usize>count * Q_BYTES;
  let postings: u64 = 0;
  for (let term = query; term < queryEnd; term += Q_BYTES) {
    const entry = <usize>load<u32>(term, Q_ENTRY);
    postings += load<u32>(entry, E_COUNT);
    // The sum of a record that has a posting must be greater than 0.
    if (!(load<f32>(entry, E_BASE) > 0 && load<f64>(term, Q_WEIGHT) > 0)) return BY_UNITS;
  }
  // Of a further segment few records are looked up: with 200 terms its search takes 0.73 of the time (16,665 records of 120 entries).
  if (load<u32>(scratch, S_HEAP_COUNT) === load<u32>(scratch, S_K)) return BY_UNITS;
  const lookUps = (<u64>load<u32>(scratch, S_K) + SURPLUS) * count;
  return postings < lookUps * POSTINGS_PER_LOOK_UP ? BY_SUMS : BY_UNITS;
}
