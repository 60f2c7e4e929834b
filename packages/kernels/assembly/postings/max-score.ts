// Which records of a segment of sparse vectors have the greatest scores?
//
// MaxScore (Turtle and Flood, Information Processing and Management 31(6), 1995), a list at a time: lists are added to sums of 16 bits
// (units.ts) by descending bound, until what the others can add is so little that it is less work to look some records up in them. How many
// records that would be is counted, and how many postings are left is known, so the choice does not rely on what the data are like.
//
//   add        lists by descending bound
//   probe      the records with about the k greatest sums get their exact scores, which raises the floor
//   rule out   those of the others that cannot reach it once they are looked up in the lists that are left
//   score      what remains, by descending bound, until none can reach the floor

import { clearSums, collectGreatest, collectRest, countReaching, sortCandidates } from "./collect";
import { exactScores } from "./exact";
import { take } from "./found";
import {
  S_CANDIDATE_COUNT,
  S_CANDIDATES,
  S_ESSENTIAL,
  S_FLOOR,
  S_FOUND,
  S_FOUND_COUNT,
  S_HEAP_COUNT,
  S_K,
  S_LISTED,
  S_RECORD_COUNT,
  S_REST,
  S_STAGE,
  S_TERM_COUNT,
  S_TERMS,
  S_UNITS,
  SCORED_MAX,
  T_COUNT,
  T_MOST_UNITS,
  T_QUANTIZED,
  TERM_BYTES,
  WINDOW,
} from "./layout";
import { postingIn } from "./posting-of";
import { addUnits, enterUnits, shiftOf, unitsOf } from "./units";

const ADD: u32 = 0;
const PROBE: u32 = 1;
const SCORE: u32 = 2;

/** Searches the entered segment, from the start or from where it stopped: see `searchSegment`. */
export function searchUnits(scratch: usize): bool {
  if (load<u32>(scratch, S_STAGE) === ADD) {
    enterUnits(scratch);
    addLists(scratch);
    store<u32>(scratch, collectGreatest(scratch, leastSum(scratch)), S_LISTED);
    store<u32>(scratch, PROBE, S_STAGE);
  }
  if (load<u32>(scratch, S_STAGE) === PROBE) {
    if (!scoreCandidates(scratch)) return false;
    collectRest(scratch, leastSum(scratch), load<u32>(scratch, S_LISTED));
    clearSums(scratch);
    ruleOut(scratch);
    store<u32>(scratch, SCORE, S_STAGE);
  }
  return scoreCandidates(scratch);
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

/** Looking a record up in the lists that are left takes about as long as adding so many postings. Two fifths and three times as many are as fast. */
const LOOK_UP: u32 = 150;

/** Adds lists by descending bound, as long as that is less work than looking records up in the others. */
function addLists(scratch: usize): void {
  const terms = <usize>load<u32>(scratch, S_TERMS);
  let term = terms + <usize>load<u32>(scratch, S_TERM_COUNT) * TERM_BYTES;
  let rest: u32 = 0;
  let left: u32 = 0;
  for (let each = terms; each < term; each += TERM_BYTES) {
    rest += load<u32>(each, T_MOST_UNITS);
    left += load<u32>(each, T_COUNT);
  }
  // Going through all sums takes as long as adding one posting for each eight of them.
  const check = load<u32>(scratch, S_RECORD_COUNT) >> 3;
  const isKnown = load<u32>(scratch, S_HEAP_COUNT) === load<u32>(scratch, S_K);
  let floor = floorOf(scratch);
  let added: u32 = 0;
  let next = check;
  while (term > terms) {
    term -= TERM_BYTES;
    addUnits(scratch, term);
    const count = load<u32>(term, T_COUNT);
    added += count;
    left -= count;
    rest -= load<u32>(term, T_MOST_UNITS);
    if (added < next || left <= check) continue;
    next = added + max<u32>(check, added >> (isKnown ? 3 : 1));
    // Until k scores are known, the k-th greatest sum is an estimate.
    if (!isKnown) floor = collectGreatest(scratch, max<u32>(1, floor));
    if (rest < floor && <u64>countReaching(scratch, floor - rest) * LOOK_UP < left) break;
  }
  store<u32>(scratch, <u32>term, S_ESSENTIAL);
  store<u32>(scratch, rest, S_REST);
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

/** Looks the candidates up in the lists that were not added, the greatest bound first, and drops those that cannot reach the floor. */
export function ruleOut(scratch: usize): void {
  const candidates = <usize>load<u32>(scratch, S_CANDIDATES);
  const terms = <usize>load<u32>(scratch, S_TERMS);
  const shift = shiftOf(scratch);
  const floor = <i32>floorOf(scratch);
  let rest = <i32>load<u32>(scratch, S_REST);
  let end = candidates + ((<usize>load<u32>(scratch, S_CANDIDATE_COUNT)) << 2);
  for (let term = <usize>load<u32>(scratch, S_ESSENTIAL); term > terms && end > candidates; ) {
    term -= TERM_BYTES;
    rest -= <i32>load<u32>(term, T_MOST_UNITS);
    const quantized = <usize>load<u32>(term, T_QUANTIZED);
    let kept = candidates;
    for (let at = candidates; at < end; at += 4) {
      let key = load<u32>(at);
      const posting = postingIn(term, key & 0xffff);
      if (posting >= 0) key += unitsOf(term, load<u8>(quantized + <usize>posting), shift) << 16;
      if (<i32>(key >> 16) + rest < floor) continue;
      store<u32>(kept, key);
      kept += 4;
    }
    end = kept;
  }
  store<u32>(scratch, rest, S_REST);
  sortCandidates(candidates, end);
  store<u32>(scratch, <u32>(end - candidates) >> 2, S_CANDIDATE_COUNT);
}
