// Which records of the runs have the greatest scores?
//
// The kernel does it, a run at a time: it is told which lists the query's terms have there, and what k scores are known to be
// reached, which is what it knows better afterwards. Here is what goes in and what comes out.
//
// A search that may miss some goes twice through the runs: first it gathers more candidates than are wanted, by their greatest
// postings alone, and then it has those scored in full.

import {
  area as fields,
  foundBytes,
  queryTerm,
  queryTermBytes,
  windowRecords,
} from "@quiver/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import { type Candidates, nothing } from "../contract.ts";
import type { Allowed } from "../ordinal-bitmap.ts";
import { firstFrom, type OrdinalSet } from "../ordinal-sets.ts";
import { Best } from "./best.ts";
import type { Formula, Hidden, WeightedTerm } from "./query.ts";
import type { Run } from "./run.ts";
import { type Mask, maskOf } from "./run-mask.ts";

/** What is searched for: see PostingIndex.search. */
export type RunSearch = {
  readonly terms: readonly WeightedTerm[];
  readonly k: number;
  readonly formula: Formula;
  readonly hidden: Hidden | null;
  /** The ordinals that may be found at all. */
  readonly allowed: Allowed;
  /** What a posting must add to count when candidates are gathered, where no amount is negative; null: every record is looked for exactly. */
  readonly least: number | null;
};

const none: readonly number[] = [];

/** Of a search that is told which records to look at. */
const unmasked = (run: Run): NonNullable<Mask> => ({ at: run.removedBits.byteOffset, missing: 0 });

/** Found records that there is room for. */
const foundMax = windowRecords;

/** How many candidates are gathered for the k best. With half and with twice the surplus for 10, a recall of 0.95 costs as much. */
const candidatesFor = (k: number): number => k + 10;

/**
 * The k best records of the runs, and of what was found before, with all ties at the boundary.
 * @param before what was found elsewhere
 */
export function searchRuns(runs: readonly Run[], search: RunSearch, before: Candidates): Candidates {
  const isExact = search.least === null || !runs.every((run) => run.arena.reserveRecords(run.recordCount));
  if (isExact) return bestOfRuns(runs, { ...search, least: null }, before);
  const gathered = bestOfRuns(runs, { ...search, k: candidatesFor(search.k) }, nothing);
  const best = new Best(search.k, before);
  addScored(runs, search, gathered, best);
  return best.bestOfAdded();
}

function bestOfRuns(runs: readonly Run[], search: RunSearch, before: Candidates): Candidates {
  const best = new Best(search.k, before);
  const hasNegative = search.terms.some(({ weight }) => weight < 0);
  let { floor } = best;
  for (let i = 0; i < runs.length; i++) floor = searchRun(runs[i], i, search, best, floor, hasNegative);
  return best.bestOfHeap();
}

/** Searches a run. @returns the floor that is known then */
function searchRun(
  run: Run,
  number: number,
  search: RunSearch,
  best: Best,
  floor: number,
  hasNegative: boolean,
): number {
  const { arena } = run;
  const mask = maskOf(run, search.hidden?.runs[number] ?? none, search.allowed);
  if (mask === null || !enter(run, number, search, mask, floor, hasNegative)) return floor;
  const floorAt = (arena.area + fields.floor) >>> 3;
  best.enter(arena);
  const { searchRun, gatherRun } = arena.kernels;
  const go = search.least === null ? searchRun : gatherRun;
  for (let isDone = false; !isDone; ) {
    isDone = go(arena.area) !== 0;
    best.take(run, arena.doubles[floorAt]);
  }
  return arena.doubles[floorAt];
}

/**
 * The k best records of the runs among some that are allowed, and of what was found before, with all ties at the boundary. Only these
 * are looked up in the lists.
 * @param ordinals ascending
 */
export function searchListed(
  runs: readonly Run[],
  search: RunSearch,
  ordinals: OrdinalSet,
  before: Candidates,
): Candidates {
  const best = new Best(search.k, before);
  for (let i = 0, at = 0; i < runs.length && at < ordinals.length; i++) {
    const run = runs[i];
    const from = at;
    at = from + firstFrom(ordinals.subarray(from), run.lastOrdinal + 1);
    const hidden = new Set(search.hidden?.runs[i]);
    const listed: number[] = [];
    for (let j = from; j < at; j++) {
      const record = run.recordOf(ordinals[j]);
      if (record >= 0 && !hidden.has(record)) listed.push(ordinals[j]);
    }
    if (listed.length > 0) best.add(scored(run, i, search, listed));
  }
  return best.bestOfAdded();
}

/** Adds records that were gathered, with their exact scores. */
function addScored(runs: readonly Run[], search: RunSearch, { ordinals }: Candidates, best: Best): void {
  const ascending = ordinals.toSorted((a, b) => a - b);
  let at = 0;
  for (let i = 0; i < runs.length && at < ascending.length; i++) {
    const run = runs[i];
    const from = at;
    while (at < ascending.length && ascending[at] <= run.lastOrdinal) at++;
    if (at > from) best.add(scored(run, i, search, ascending.slice(from, at)));
  }
}

/** Those of some records of a run that have one of the terms, with their exact scores. */
function scored(run: Run, number: number, search: RunSearch, ordinals: readonly number[]): Candidates {
  const { arena } = run;
  const found = { ordinals: [] as number[], scores: [] as number[] };
  if (!enter(run, number, search, unmasked(run), Number.NEGATIVE_INFINITY, false)) return nothing;
  const foundAt = arena.field("found");
  for (let from = 0; from < ordinals.length; from += foundMax) {
    const count = Math.min(foundMax, ordinals.length - from);
    for (let i = 0; i < count; i++)
      arena.words[(foundAt + i * foundBytes + 8) >>> 2] = run.recordOf(ordinals[from + i]);
    arena.words[(arena.area + fields.foundCount) >>> 2] = count;
    arena.kernels.scoreRecords(arena.area);
    for (let i = 0; i < count; i++) {
      const score = arena.doubles[(foundAt + i * foundBytes) >>> 3];
      if (Number.isNaN(score)) continue;
      found.ordinals.push(ordinals[from + i]);
      found.scores.push(score);
    }
  }
  arena.words[(arena.area + fields.foundCount) >>> 2] = 0;
  return { count: found.ordinals.length, ...found };
}

/** Writes what is searched for where the kernel reads it. @returns whether the run has any of the terms */
function enter(
  run: Run,
  number: number,
  { terms, k, formula, least }: RunSearch,
  mask: NonNullable<Mask>,
  floor: number,
  hasNegative: boolean,
): boolean {
  const { arena } = run;
  invariant(arena.reserve(terms.length, k), "there is no memory for a search");
  const count = writeQuery(run, number, terms);
  if (count === 0) return false;
  const { words, doubles } = arena;
  const at = arena.area >>> 2;
  const doublesAt = arena.area >>> 3;
  words[at + fields.queryCount / 4] = count;
  words[at + fields.run / 4] = run.at;
  words[at + fields.hidden / 4] = mask.at;
  words[at + fields.missing / 4] = mask.missing;
  words[at + fields.lengths / 4] = run.lengths.byteOffset;
  words[at + fields.kind / 4] = run.kind;
  words[at + fields.levels / 4] = run.levels;
  words[at + fields.k / 4] = k;
  words[at + fields.sinks / 4] = run.hasNegative || hasNegative ? 1 : 0;
  words[at + fields.foundCount / 4] = 0;
  words[at + fields.recordCount / 4] = run.recordCount;
  words[at + fields.isEntered / 4] = 0;
  doubles[doublesAt + fields.floor / 8] = floor;
  doubles[doublesAt + fields.least / 8] = least ?? Number.NEGATIVE_INFINITY;
  doubles[doublesAt + fields.fixed / 8] = formula.fixed;
  doubles[doublesAt + fields.perTerm / 8] = formula.perTerm;
  doubles[doublesAt + fields.growth / 8] = growthOf(run, formula);
  doubles[doublesAt + fields.shrinkage / 8] = shrinkageOf(run, formula);
  return true;
}

/** Writes where the run has the query's terms; returns how many it has. */
function writeQuery(run: Run, number: number, terms: readonly WeightedTerm[]): number {
  const { arena } = run;
  const { words, doubles } = arena;
  const from = arena.field("query");
  let at = from;
  for (let i = 0; i < terms.length; i++) {
    const list = terms[i].located.runs[number];
    if (list < 0) continue;
    words[(at + queryTerm.entry) >>> 2] = run.entryOf(list);
    doubles[(at + queryTerm.weight) >>> 3] = terms[i].weight;
    at += queryTermBytes;
  }
  return (at - from) / queryTermBytes;
}

/** How much more a posting can add than when the codes were made: with longer texts on average, a text is shorter beside them. */
function growthOf(run: Run, { averageLength }: Formula): number {
  if (run.averageLength === 0) return 1;
  // Without an average the length does not count at all.
  if (averageLength === 0) return Number.MAX_SAFE_INTEGER;
  return Math.max(1, averageLength / run.averageLength);
}

/** ... and how much less. */
function shrinkageOf(run: Run, { averageLength }: Formula): number {
  return averageLength > 0 && averageLength < run.averageLength ? averageLength / run.averageLength : 1;
}
