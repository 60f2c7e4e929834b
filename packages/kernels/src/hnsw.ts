/// <reference path="./webassembly.d.ts" />

// How does a program get at the kernels of the HNSW graph?
//
// Where things lie in the graph's memory is drawn in assembly/hnsw/layout.ts; the numbers here are the same.

import { instantiateBuild } from "./loader.ts";

/** Byte offsets of the header's fields, each four bytes. */
export const header = {
  codeBytes: 0,
  dataType: 4,
  m: 8,
  m0: 12,
  efConstruction: 16,
  slotBytes: 20,
  levelsPerSlot: 24,
  nodesAt: 28,
  slots: 32,
  entry: 36,
  queryBytes: 40,
  buildMode: 44,
  epoch: 48,
  entryLock: 52,
  locksAt: 56,
  root: 60,
} as const;

/** Locks of four bytes each: node n has that of n modulo this. */
export const lockCount = 4_096;

/** Byte offsets of the fields of a searcher's scratch memory, each four bytes; the arrays' places are absolute. */
export const scratch = {
  epoch: 0,
  found: 4,
  banned: 12,
  compared: 16,
  tags: 20,
  beam: 24,
  batch: 28,
  keys: 32,
  kept: 36,
  shrink: 40,
  query: 44,
  owner: 48,
  candidate: 52,
  active: 56,
  allowed: 60,
  seeds: 64,
} as const;

/** Nodes at which a search among allowed nodes begins, at most. */
export const seedsMax = 256;

/** The values for no node, and for the ordinal of a removed one. */
export const none = 0xffff_ffff;

/** The functions of one instance. Offsets are bytes in its memory; nothing is checked in the release build. */
export type HnswKernels = {
  /** Announces that links are followed in scratch memory; see the memory protocol in assembly/hnsw/layout.ts. */
  readonly hnswEnter: (scratch: number) => void;
  readonly hnswLeave: (scratch: number) => void;
  /** Links a node, whose slot and upper slots are filled but for links, into the graph. */
  readonly hnswInsert: (scratch: number, node: number, level: number) => void;
  /** Searches for the query code in the scratch memory, which is entered; leaves the beam there and returns its length. */
  readonly hnswSearch: (scratch: number, ef: number) => number;
  /**
   * The same with a cutoff: entries behind the first `least` ones, at least 10, stay in the beam only if their squared distance is no more
   * than 1 + `spread` times that of the tenth. Keys must be of distances.
   */
  readonly hnswSearchWithin: (scratch: number, ef: number, least: number, spread: number) => number;
  /**
   * The same among the nodes whose bits are set in the scratch memory, beginning also at so many nodes that are listed there. Besides those
   * the beam can have the node that the upper levels lead to.
   */
  readonly hnswSearchAllowed: (scratch: number, ef: number, seeds: number) => number;
  /** Adds links so that a search by a node's own code finds it with a beam of `ef`. */
  readonly hnswReconnect: (scratch: number, node: number, ef: number) => void;
  /** Replaces a node's links to removed nodes. */
  readonly hnswRepair: (scratch: number, node: number, candidatesMax: number) => void;
  /**
   * Merges `count` u64 entries (at least one) into the sorted beam of `found` and keeps the `ef` smallest; returns the position of the
   * smallest new one. The entries get sorted. Searches do this internally; exported for tests.
   */
  readonly hnswMerge: (beam: number, found: number, ef: number, entries: number, count: number) => number;
  /** Keys of `count` nodes, whose ids are padded to a multiple of four. */
  readonly keysOf: (query: number, ids: number, count: number, keys: number) => void;
  /** Writes a node's code as a query code. */
  readonly queryOfNode: (node: number, to: number) => void;
};

/** `plain`: without relaxed SIMD; by default only if it is not available. All builds compute the same, bit for bit. */
export type HnswBuild = { debug?: boolean; plain?: boolean };

/** A module whose one function computes a relaxed dot product. */
const probe = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
  // One type, () -> (), of one function.
  ...[1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0],
  // Its code: three times v128.const 0 (by i32.const 0, i8x16.splat), i32x4.relaxed_dot_i8x16_i7x16_add_s, drop, end.
  ...[10, 20, 1, 18, 0, 0x41, 0, 0xfd, 15, 0x41, 0, 0xfd, 15, 0x41, 0, 0xfd, 15, 0xfd, 0x93, 2, 0x1a, 0x0b],
);

/** Whether this machine's WebAssembly has relaxed SIMD. */
export const hasRelaxedSimd = WebAssembly.validate(probe);

/** The kernels, bound to a shared memory that the caller lays out and grows. Throws if they have not been built. */
export function instantiateHnsw(memory: WebAssembly.Memory, options: HnswBuild = {}): HnswKernels {
  const { debug = false, plain = !hasRelaxedSimd } = options;
  const build = `hnsw-${plain ? "plain-" : ""}${debug ? "debug" : "release"}`;
  return instantiateBuild(build, memory) as HnswKernels;
}
