// What have all indexes in common?
//
// An index is a pure, synchronous structure derived from the change log: it knows ordinals and contents, and
// nothing of ids, versions, disk or time. The write side calls `add`, `retire` and `remove` in the order of the
// log. The read side passes in what the searched version can see.
//
//              add                retire                 remove
//   (unknown) -----> (current) ------------> (closed) ------------> (unknown; the space is reused)
//                        \_______________________________________/
//                                        remove
//
// Invariants:
//   1. Ordinals are u32 below the sentinel and are added in ascending order, with gaps, each at most once.
//   2. A search returns exact scores, and never an ordinal that was not added or has been removed.
//   3. A search finds retired records like others: `visible` decides whether the searched version sees them.
//   4. A search finds the best k of the records that are both `allowed` and visible. It finds fewer than k only if there
//      are fewer. `allowed` changes no score.

import { invariant } from "../base/invariant.ts";
import { keepBest, type Scored } from "../base/top-k.ts";
import type { Allowed } from "./ordinal-bitmap.ts";

/**
 * What a search found: the k best by score, and every further record whose score equals the k-th (ties are decided
 * by id, which an index does not know). Fewer than k only where fewer were there to find. In no particular order.
 * The arrays belong to the receiver.
 */
export type Candidates = Scored;

/** A text as it is stored: as it was written, or its words with a space between. */
export type StoredText = { readonly kind: "raw" | "processed"; readonly value: string };
/** The same in UTF-8. */
export type StoredTextBytes = { readonly kind: StoredText["kind"]; readonly bytes: Uint8Array };

/**
 * Whether the searched version sees an ordinal; null: it sees all. Pure for the length of a search, and must not
 * call the index. Called only for records that could matter, and for some that were removed, where any answer will do.
 *
 * A record that is held but not visible is either retired or younger than every visible record. An index may rely on this and call
 * `visible` for no others.
 */
export type Visible = ((ordinal: number) => boolean) | null;

/** Combines both tests into one; null: every record passes. Call it again whenever `visible` changes. */
export function seenAndAllowed(visible: Visible, allowed: Allowed): Visible {
  if (allowed === null) return visible;
  if (visible === null) return (ordinal) => allowed.has(ordinal);
  return (ordinal) => allowed.has(ordinal) && visible(ordinal);
}

/**
 * How much time there is: records are changing, and only what was begun goes on; none is for the moment; or none was for a while, and what
 * only makes searches faster is worth its time.
 */
export type Leisure = "busy" | "idle" | "resting";

/** The operations of every index, besides adding and searching records of its own kind. */
export interface Index {
  /** What searches of the thread that owns the index read; absent: the index itself. */
  readonly reader?: object;
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
  /** Whether the structure that serves from now on is in place, as far as the index knows its records; absent: it always is. */
  readonly isSettled?: boolean;
  /** Why the index can no longer be built, if so; its results stay correct. */
  readonly failure?: unknown;
  /** Whether something waits for memory (`mayTake`); absent: false. */
  readonly isPostponed?: boolean;
  /**
   * Does deferred work, such as merging, for about this many postings; absent if there is never any. Does not change results.
   * @param leisure default: idle
   * @returns whether there is more to do
   */
  tidy?(postings: number, leisure?: Leisure): boolean;
  /** Bytes that the index holds in memory; pages that were never written do not count. */
  readonly memoryBytes: number;
  /** Bytes that it would hold right after a checkpoint and a restore, before searches and background work. */
  readonly restoredBytes: number;
  /** Bytes that it will hold after `records` more records and all background work; absent: the caller estimates. */
  expectedBytes?(records: number): number;
  /** The part of `memoryBytes` that the index can give up; absent: none. */
  readonly spareBytes?: number;
  /** Frees that many of its spare bytes, or all of them. Searches get slower; their results stay the same. */
  giveUp?(bytes: number): void;
  /** Statistics of the current version, which searches of it need once it is an older version; absent: none. */
  statistics?(): unknown;
  /** Ends what a thread that has died was doing in its reader slot; absent: readers leave nothing behind. */
  abandon?(slot: number): void;
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

/** The k best of several result sets, each record once, with all ties with the k-th. */
export function bestOf(answers: readonly Candidates[], k: number): Candidates {
  const scores = new Map<number, number>();
  for (const answer of answers)
    for (let i = 0; i < answer.count; i++) scores.set(answer.ordinals[i], answer.scores[i]);
  return keepBest(Uint32Array.from(scores.keys()), Float64Array.from(scores.values()), scores.size, k);
}
