// Which postings does an index hold, all of them, and does it hold them as it should?
//
// For comparisons with the truth and for `check`: they take time in proportion to the whole index.

import { invariant } from "../../base/invariant.ts";
import { absent } from "../ordinal-map.ts";
import type { AnyTail, PostingParts } from "./posting-parts.ts";
import { checkRun } from "./run-check.ts";
import type { AmountOf } from "./run-writer.ts";

/**
 * All postings of records that are held, a list at each step. Between steps the index may be used and changed: what is added
 * meanwhile is left out.
 * @returns whether all were told; false where runs were merged meanwhile, and it has to begin anew
 */
export function* postingsOf(
  parts: PostingParts,
  onPosting: (term: number, ordinal: number, value: number) => void,
): Generator<void, boolean> {
  const runs = [...parts.runs];
  for (const { postings, lists, ordinals } of parts.tails)
    for (const term of lists.terms) {
      const { count, slots, values } = postings.read(lists.get(term) as number);
      for (let i = 0; i < count; i++) {
        const ordinal = ordinals.values[slots[i]];
        if (ordinal !== absent) onPosting(term, ordinal, values[i]);
      }
    }
  for (const run of runs)
    for (let list = 0; list < run.listCount; list++) {
      yield;
      if (!parts.runs.includes(run)) return false;
      for (let i = 0; i < run.countOf(list); i++) {
        const record = run.recordAt(list, i);
        if (!run.isRemoved(record)) onPosting(run.terms[list], run.ordinals[record], run.valueOf(list, i));
      }
    }
  return true;
}

/** How often `onTermUsed` was called for each term, less `onTermUnused`. */
export function usesOfTerms(parts: PostingParts): Map<number, number> {
  const uses = new Map<number, number>();
  const use = (term: number) => uses.set(term, (uses.get(term) ?? 0) + 1);
  for (const run of parts.runs) run.terms.forEach(use);
  for (const { lists } of parts.tails) lists.terms.forEach(use);
  return uses;
}

/**
 * Proves that runs and tails are as they should be, and in their order.
 * @param sealedEnd every record with a smaller ordinal is in a run
 * @param isMerged whether a run is being merged: then it may have no record left
 */
export function checkParts(
  parts: PostingParts,
  sealedEnd: number,
  isMerged: (run: PostingParts["runs"][number]) => boolean,
  amountOf: (averageLength: number) => AmountOf,
): void {
  let last = -1;
  for (const run of parts.runs) {
    invariant(
      run.count > 0 || isMerged(run),
      `the run from ordinal ${run.firstOrdinal} on has no record left`,
    );
    invariant(run.firstOrdinal > last, `a run begins with ordinal ${run.firstOrdinal} after ${last}`);
    last = run.lastOrdinal;
    checkRun(run, amountOf(run.averageLength));
  }
  for (const tail of parts.tails) {
    tail.check();
    const [first] = ordinalsOf(tail);
    invariant(first === undefined || first >= sealedEnd, `ordinal ${first} is in a tail below ${sealedEnd}`);
    invariant(first === undefined || first > last, `a tail begins with ordinal ${first} after ${last}`);
    last = ordinalsOf(tail).at(-1) ?? last;
  }
  for (const ordinal of parts.retired)
    invariant(parts.has(ordinal), `ordinal ${ordinal} is retired and gone`);
}

/** The records of a tail that were not removed, ascending. */
function ordinalsOf({ ordinals, slotsEnd }: AnyTail): Uint32Array {
  return ordinals.values.subarray(0, slotsEnd).filter((ordinal) => ordinal !== absent);
}
