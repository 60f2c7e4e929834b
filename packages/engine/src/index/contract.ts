// What have all indexes in common?
//
// An index is a pure, synchronous structure derived from the change log: it knows ordinals and contents, and
// nothing of ids, versions, disk or time. The corridor that feeds it calls `add`, `retire` and `remove` in the
// order of the log; the corridor that searches passes in what the searched version can see.
//
//              add                retire                 remove
//   (unknown) -----> (current) ------------> (closed) ------------> (unknown; the space is reused)
//                        \_______________________________________/
//                                        remove
//
// Invariants:
//   1. Ordinals are u32 below the sentinel and are added in ascending order, with gaps, each at most once.
//   2. A search answers with exact scores, and never with an ordinal that was not added or has been removed.
//   3. Records that were retired are found like others: whether a version sees them is for `visible` to say.
//   4. A search finds only what is `allowed`, of which the searched version may see a part: the best k of what is both. It finds fewer than k
//      only where fewer are both. `allowed` changes no score.

import { invariant } from "../base/invariant.ts";
import { keepBest, type Scored } from "../base/top-k.ts";
import type { Allowed } from "./ordinal-bitmap.ts";

/**
 * What a search found: the k best by score, and every further record whose score equals the k-th (ties are decided
 * by id, which an index does not know). Fewer than k only where fewer were there to find. In no particular order.
 * The arrays belong to the receiver.
 */
export type Candidates = Scored;

/**
 * Whether the searched version sees an ordinal; null: it sees all. Pure for the length of a search, and must not
 * call the index. Called only for records that could matter.
 *
 * What is held and not seen was retired, or is younger than all that is seen: an index may rely on it, and ask about no others.
 */
export type Visible = ((ordinal: number) => boolean) | null;

/** Whether a record is seen and allowed, as one test; null: all are. Made anew as often as `visible`. */
export function seenAndAllowed(visible: Visible, allowed: Allowed): Visible {
  if (allowed === null) return visible;
  if (visible === null) return (ordinal) => allowed.has(ordinal);
  return (ordinal) => allowed.has(ordinal) && visible(ordinal);
}

/** What every index can do besides taking and finding records of its own kind. */
export interface Index {
  /** Records held: current and closed ones. */
  readonly count: number;
  /** Whether the record is held. */
  has(ordinal: number): boolean;
  /** The record is no longer part of the current version; older versions still find it. Unknown: ignored. */
  retire(ordinal: number): void;
  /** No version sees the record any more: it is never found again, and its space is reused. Unknown: ignored. */
  remove(ordinal: number): void;
  /** Every record with a smaller ordinal is in its final place; absent: all of them. */
  readonly linkedEnd?: number;
  /** Why the index can no longer be built, where it cannot; its answers stay right. */
  readonly failure?: unknown;
  /** Whether something waits for memory (`mayTake`); absent: never. */
  readonly isPostponed?: boolean;
  /**
   * Goes on with what can wait, such as merging, for about so many postings; absent where there is never any. Changes no answer.
   * @returns whether there is more to do
   */
  tidy?(postings: number): boolean;
  /** Bytes that the index really holds, as far as they were ever written. */
  readonly memoryBytes: number;
  /** Bytes that it would hold after it was checkpointed and restored, searches and background work aside. */
  readonly restoredBytes: number;
  /** Bytes that it will hold when so many further records and all background work are done; absent: it is to be estimated. */
  expectedBytes?(records: number): number;
  /** Of `memoryBytes`, what it can do without; absent: nothing. */
  readonly spareBytes?: number;
  /** Gives up of that so many bytes, or all there are. Searches are slower afterwards, and as exact. */
  giveUp?(bytes: number): void;
  /** What a search of the version that is current now has to be told when that is past; absent: nothing. */
  statistics?(): unknown;
  /** Proves the invariants; throws with what is wrong. Takes time in proportion to the whole index. */
  check(): void;
  /** Drops everything. The index must not be used afterwards. */
  close(): void;
}

export const nothing: Candidates = Object.freeze({
  count: 0,
  ordinals: [],
  scores: [],
});

/** Asserts invariant 1 for an ordinal that is added after `last` (-1: the first). */
export function assertAscending(ordinal: number, last: number): void {
  if (Number.isInteger(ordinal) && ordinal > last && ordinal < 0xffff_ffff) return;
  invariant(false, `ordinal ${ordinal} is added after ${last}; ordinals are u32 and ascend`);
}

/** The k best of several answers, each record once, and what ties with the k-th. */
export function bestOf(answers: readonly Candidates[], k: number): Candidates {
  const scores = new Map<number, number>();
  for (const answer of answers)
    for (let i = 0; i < answer.count; i++) scores.set(answer.ordinals[i], answer.scores[i]);
  return keepBest(Uint32Array.from(scores.keys()), Float64Array.from(scores.values()), scores.size, k);
}
