// Which records of a segment of texts have the greatest scores?
//
// MaxScore (Turtle and Flood, Information Processing and Management 31(6), 1995), a list at a time. The lists with the least bounds are left
// aside while their bounds together stay far below the floor. The others are added to sums of 16 bits (units.ts). The moment a sum reaches
// what a record needs besides the lists left aside, the record is listed: few do, so nothing has to look through the sums.
//
//   add        the lists that are not left aside
//   probe      where many records are listed, those with about the k greatest sums get their exact scores, which raises the floor
//   rule out   those of the others that cannot reach it once they are looked up in the lists left aside
//   score      what remains, by descending sum, until none can reach the floor

import { firstFrom, floorOf, keepReaching, leastSum, probe, scoreCandidates } from "./by-units";
import { sortCandidates } from "./collect";
import {
  S_CANDIDATE_COUNT,
  S_CANDIDATES,
  S_ESSENTIAL,
  S_HEAP_COUNT,
  S_HIDDEN,
  S_K,
  S_LISTED,
  S_RECORD_COUNT,
  S_RECORD_SUMS,
  S_REST,
  S_STAGE,
  S_SUMS,
  S_TERM_COUNT,
  S_TERMS,
  T_COUNT,
  T_MOST_UNITS,
  T_QUANTIZED,
  T_RECORDS,
  TERM_BYTES,
} from "./layout";
import { postingIn } from "./posting-of";
import { addUnitsUpTo, enterUnits, shiftOf, unitsOf } from "./units";

const ADD: u32 = 0;
const PROBE: u32 = 1;
const SCORE: u32 = 2;

/**
 * The fraction of the floor that the lists left aside may contribute together. With all of it most lists would be left aside, and then
 * nearly any record could still reach the floor and would have to be looked up, which takes as long as adding up some dozens of postings.
 * With 0.35, texts take 1.04 times as long; with 0.75, 1.16 times; with 0.95, 1.35 times.
 */
export const ASIDE: f32 = 0.55;

/** Searches the entered segment, from the start or from where it stopped: see `searchSegment`. */
export function searchReaching(scratch: usize): bool {
  if (load<u32>(scratch, S_STAGE) === ADD) {
    enterUnits(scratch);
    leaveAside(scratch);
    probeFirst(scratch, addLists(scratch));
    store<u32>(scratch, PROBE, S_STAGE);
  }
  if (load<u32>(scratch, S_STAGE) === PROBE) {
    if (!scoreCandidates(scratch)) return false;
    keepReaching(scratch);
    ruleOut(scratch);
    store<u32>(scratch, SCORE, S_STAGE);
  }
  return scoreCandidates(scratch);
}

/** Chooses the lists that are left aside: the first ones. */
function leaveAside(scratch: usize): void {
  const termsEnd = <usize>load<u32>(scratch, S_TERMS) + <usize>load<u32>(scratch, S_TERM_COUNT) * TERM_BYTES;
  const most = <u32>(<f32>floorOf(scratch) * ASIDE);
  let term = <usize>load<u32>(scratch, S_TERMS);
  let rest: u32 = 0;
  for (; term < termsEnd; term += TERM_BYTES) {
    const more = rest + load<u32>(term, T_MOST_UNITS);
    if (more >= most) break;
    rest = more;
  }
  store<u32>(scratch, <u32>term, S_ESSENTIAL);
  store<u32>(scratch, rest, S_REST);
}

/** Adds the lists that are not left aside, and clears the sums again. @returns where the listed candidates end */
function addLists(scratch: usize): usize {
  const essential = <usize>load<u32>(scratch, S_ESSENTIAL);
  const termsEnd = <usize>load<u32>(scratch, S_TERMS) + <usize>load<u32>(scratch, S_TERM_COUNT) * TERM_BYTES;
  const sums = <usize>load<u32>(scratch, S_RECORD_SUMS);
  const candidates = <usize>load<u32>(scratch, S_CANDIDATES);
  const needed = leastSum(scratch);
  let postings: u32 = 0;
  let top = candidates;
  for (let term = termsEnd; term > essential; ) {
    term -= TERM_BYTES;
    top = addUnitsUpTo(scratch, term, needed, top);
    postings += load<u32>(term, T_COUNT);
  }
  const hidden = <usize>load<u32>(scratch, S_HIDDEN);
  let kept = candidates;
  for (let at = candidates; at < top; at += 4) {
    const record = load<u32>(at);
    if (((load<u8>(hidden + <usize>(record >> 3)) >> <u8>(record & 7)) & 1) !== 0) continue;
    store<u32>(kept, ((<u32>load<u16>(sums + ((<usize>record) << 1))) << 16) | record);
    kept += 4;
  }
  const records = load<u32>(scratch, S_RECORD_COUNT);
  if (postings > records >> 4) memory.fill(sums, 0, (<usize>records) << 1);
  else for (let term = essential; term < termsEnd; term += TERM_BYTES) clearList(term, sums);
  return kept;
}

function clearList(term: usize, sums: usize): void {
  let at = <usize>load<u32>(term, T_RECORDS);
  const end = at + ((<usize>load<u32>(term, T_COUNT)) << 1);
  for (; at < end; at += 2) store<u16>(sums + ((<usize>load<u16>(at)) << 1), 0);
}

/** Where k scores are not known yet, so few candidates are all scored at once; where they are, four times as many need no probe. */
const FEW: u32 = 64;

const BIN_BITS: u32 = 4;
const BINS: u32 = 1 << (16 - BIN_BITS);

/** Puts the candidates with about the k greatest sums first, sorted; those are scored before the others. */
function probeFirst(scratch: usize, end: usize): void {
  const candidates = <usize>load<u32>(scratch, S_CANDIDATES);
  const count = <u32>(end - candidates) >> 2;
  const k = load<u32>(scratch, S_K);
  store<u32>(scratch, count, S_LISTED);
  const isKnown = load<u32>(scratch, S_HEAP_COUNT) === k;
  let first = candidates;
  if (!isKnown && count <= max<u32>(FEW, k)) first = end;
  else if (count > (isKnown ? 4 * FEW : FEW))
    first = firstFrom(candidates, end, leastOfGreatest(scratch, candidates, end, k));
  probe(scratch, first);
}

/** A sum that at least k candidates have, and few more. */
function leastOfGreatest(scratch: usize, candidates: usize, end: usize, k: u32): u32 {
  const bins = <usize>load<u32>(scratch, S_SUMS);
  for (let at = candidates; at < end; at += 4) {
    const bin = bins + ((<usize>(load<u32>(at) >> (16 + BIN_BITS))) << 2);
    store<u32>(bin, load<u32>(bin) + 1);
  }
  let bin = BINS;
  for (let above: u32 = 0; bin > 0 && above < k; ) above += load<u32>(bins + ((<usize>--bin) << 2));
  memory.fill(bins, 0, (<usize>BINS) << 2);
  return bin << BIN_BITS;
}

/** Looks the candidates up in the lists that were not added, the greatest bound first, and drops those that cannot reach the floor. */
function ruleOut(scratch: usize): void {
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
