// Which records of a segment of sparse vectors have the greatest scores?
//
// All lists are added to sums of 16 bits (units.ts), and one pass finds the records that can be among the best and clears the sums. Their exact
// scores decide. Leaving the lists with the least bounds aside, as MaxScore does, and looking records up in these takes 1.12 times as long
// (200,000 vectors of 120 entries, queries of 46), with 200 terms 1.05: counting and looking up cost more than they save.
//
//   add       all lists
//   probe     the records with about the k greatest sums get their exact scores, which raises the floor
//   score     those of the others whose sums reach it, by descending sum, until none can

import { collectReaching, sortCandidates } from "./collect";
import { exactScores } from "./exact";
import { take } from "./found";
import {
  S_CANDIDATE_COUNT,
  S_CANDIDATES,
  S_FLOOR,
  S_FOUND,
  S_FOUND_COUNT,
  S_LISTED,
  S_PROBED,
  S_REST,
  S_STAGE,
  S_TERM_COUNT,
  S_TERMS,
  S_UNITS,
  SCORED_MAX,
  TERM_BYTES,
  WINDOW,
} from "./layout";
import { addUnits, enterUnits, errorOfUnits } from "./units";

const ADD: u32 = 0;
const PROBE: u32 = 1;
const SCORE: u32 = 2;

/** Searches the entered segment, from the start or from where it stopped: see `searchSegment`. */
export function searchUnits(scratch: usize): bool {
  if (load<u32>(scratch, S_STAGE) === ADD) {
    enterUnits(scratch);
    addLists(scratch);
    probeFirst(scratch, collectReaching(scratch, leastSum(scratch), errorOfUnits(scratch)));
    store<u32>(scratch, PROBE, S_STAGE);
  }
  if (load<u32>(scratch, S_STAGE) === PROBE) {
    if (!scoreCandidates(scratch)) return false;
    sortCandidates(<usize>load<u32>(scratch, S_CANDIDATES), keepReaching(scratch));
    store<u32>(scratch, SCORE, S_STAGE);
  }
  return scoreCandidates(scratch);
}

/** Puts the candidates from this sum on first, sorted; those are scored before the others. */
function probeFirst(scratch: usize, least: u32): void {
  const candidates = <usize>load<u32>(scratch, S_CANDIDATES);
  const end = candidates + ((<usize>load<u32>(scratch, S_CANDIDATE_COUNT)) << 2);
  store<u32>(scratch, load<u32>(scratch, S_CANDIDATE_COUNT), S_LISTED);
  probe(scratch, firstFrom(candidates, end, least));
}

/** Puts the candidates from this sum on first. @returns where they end */
export function firstFrom(candidates: usize, end: usize, least: u32): usize {
  let first = candidates;
  for (let at = candidates; at < end; at += 4) {
    const key = load<u32>(at);
    if (key >> 16 < least) continue;
    store<u32>(at, load<u32>(first));
    store<u32>(first, key);
    first += 4;
  }
  return first;
}

/** Sorts the first candidates, which are scored before the others. @param first where they end */
export function probe(scratch: usize, first: usize): void {
  const candidates = <usize>load<u32>(scratch, S_CANDIDATES);
  sortCandidates(candidates, first);
  store<u32>(scratch, <u32>(first - candidates) >> 2, S_CANDIDATE_COUNT);
  store<u32>(scratch, <u32>(first - candidates) >> 2, S_PROBED);
}

/** Keeps those of the candidates that were not scored whose sums can reach the floor. @returns where they end */
export function keepReaching(scratch: usize): usize {
  const candidates = <usize>load<u32>(scratch, S_CANDIDATES);
  const end = candidates + ((<usize>load<u32>(scratch, S_LISTED)) << 2);
  const least = leastSum(scratch);
  let kept = candidates;
  for (let at = candidates + ((<usize>load<u32>(scratch, S_PROBED)) << 2); at < end; at += 4) {
    const key = load<u32>(at);
    if (key >> 16 < least) continue;
    store<u32>(kept, key);
    kept += 4;
  }
  store<u32>(scratch, <u32>(kept - candidates) >> 2, S_CANDIDATE_COUNT);
  return kept;
}

/** The floor in units. */
export function floorOf(scratch: usize): u32 {
  const floor = load<f64>(scratch, S_FLOOR);
  // An exact score is rounded, too.
  return floor > 0 ? <u32>min<f64>(floor * load<f64>(scratch, S_UNITS) * (1 - 1e-9), 65535) : 0;
}

/** The least sum of a record that can reach the floor, but not that of one without a posting. */
export function leastSum(scratch: usize): u32 {
  return <u32>max<i32>(1, <i32>floorOf(scratch) - <i32>load<u32>(scratch, S_REST));
}

/** Adds all lists. */
function addLists(scratch: usize): void {
  const terms = <usize>load<u32>(scratch, S_TERMS);
  const end = terms + <usize>load<u32>(scratch, S_TERM_COUNT) * TERM_BYTES;
  for (let term = terms; term < end; term += TERM_BYTES) addUnits(scratch, term);
  store<u32>(scratch, 0, S_REST);
}

/** Scores candidates by descending sum, until none can reach the floor. */
export function scoreCandidates(scratch: usize): bool {
  const candidates = <usize>load<u32>(scratch, S_CANDIDATES);
  let left = load<u32>(scratch, S_CANDIDATE_COUNT);
  while (left > 0 && load<u32>(scratch, S_FOUND_COUNT) <= WINDOW) {
    const least = leastSum(scratch);
    const first = <usize>load<u32>(scratch, S_FOUND) + ((<usize>load<u32>(scratch, S_FOUND_COUNT)) << 4);
    let end = first;
    for (; left > 0 && end < first + ((<usize>SCORED_MAX) << 4); end += 16) {
      const key = load<u32>(candidates + ((<usize>(left - 1)) << 2));
      if (key >> 16 < least) break;
      store<u32>(end, key & 0xffff, 8);
      left--;
    }
    if (end === first) left = 0;
    exactScores(scratch, first, <u32>(end - first) >> 4);
    // What is taken is put in the place of what has been looked at.
    for (let at = first; at < end; at += 16) take(scratch, load<u32>(at, 8), load<f64>(at));
  }
  store<u32>(scratch, left, S_CANDIDATE_COUNT);
  return left === 0;
}
