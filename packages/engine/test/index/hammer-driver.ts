// How does the hammer of shared readers (runtime/testing/hammer) use an index of some kind?
//
// The content of a record follows from the seed and its ordinal alone, so every thread knows it without being told.

import type { Index } from "../../src/index/contract.ts";
import type { IndexDependencies, Kind, SearchedVersion } from "../../src/index/kind.ts";

/** The version that a reader has pinned. */
export type HammeredVersion = SearchedVersion & {
  readonly seed: number;
  /** What it sees, ascending; known without any index. */
  readonly ordinals: readonly number[];
};

/** What a question was answered. */
export type HammerAnswer = {
  /** What was asked, for reports. */
  readonly question: string;
  /** What is wrong with the answer; absent: nothing. */
  readonly wrong?: string;
  /** Of an approximate answer: how many of the best were wanted, and found. */
  readonly wanted?: number;
  readonly found?: number;
};

export interface HammerDriver {
  readonly kind: Kind;
  /** An empty index. */
  make(seed: number, dependencies: IndexDependencies): Index;
  /** Adds the record of an ordinal. */
  add(index: Index, seed: number, ordinal: number): void;
  /** Does some of what is done in the background: builds, merges, freezes, replaces. Called between publications. @param random [0, 1) */
  disturb(index: Index, random: () => number): void;
  /** Finishes what the background is in the middle of, and proves the invariants. */
  check(index: Index, seed: number): void;
  /** Makes a random search of a reader, which may be of another thread, and compares the answer with brute force. @param random [0, 1) */
  ask(reader: object, version: HammeredVersion, random: () => number): HammerAnswer;
  /** The stored dense vector of an ordinal; absent: this kind needs none. */
  vectorOf?(seed: number, ordinal: number): Uint8Array;
}
