// What do searches know of the vectors of a dense index?
//
//   tail    vectors that no graph has yet, as they were when the search began: every search scans them exactly
//   graphs  all others, by codes
//   cache   full-precision vectors of graphs, as many as this thread keeps; a search reads the others
//
// All three hold *names*, one for each distinct vector (duplicate-vectors.ts). The thread that owns the index has the first two as they are now
// (stored-vectors.ts), another one as they were described to it (attached-vectors.ts): what its version sees was in one of them, and stays
// there for it.

import { bytesOfFloats } from "../../vector/floats.ts";
import type { Metric } from "../../vector/metric.ts";
import type { Visible } from "../contract.ts";
import type { FlatIndex } from "../flat/flat-index.ts";
import { absent } from "../ordinal-map.ts";
import type { DuplicateVectorsReader } from "./duplicate-vectors.ts";
import type { Encoding } from "./encoding.ts";
import { type Places, readVector, type VectorReader } from "./exact-search.ts";
import type { GraphSearch } from "./graph-search.ts";
import { hash } from "./level.ts";
import type { TailView } from "./tail.ts";

/** Graphs, as searches know them. */
export interface GraphsSearched {
  /** Names that are linked. */
  readonly count: number;
  /** Whether another thread owns them. Names that it links later are found, too, although they are not counted; the tail has them still. */
  readonly isAttached: boolean;
  readonly encoding: Encoding;
  readonly reader: GraphSearch;
  readonly graphs: { readonly length: number };
  has(name: number): boolean;
}

export abstract class SearchedVectors {
  readonly dimension: number;
  readonly metric: Metric;
  abstract readonly graphs: GraphsSearched | undefined;
  abstract readonly cache: FlatIndex;
  abstract readonly copies: DuplicateVectorsReader;
  /** The name of the vector whose values are all zero, where that has no direction; else `absent`. */
  abstract readonly directionless: number;
  /** Records held: as many as a version sees, or more. */
  abstract readonly count: number;
  /** The greatest ordinal that was ever added; -1 before the first. */
  abstract readonly last: number;
  /** Vectors that wait in the tail. */
  abstract readonly tailCount: number;
  /** The tail, for a search that begins now. */
  abstract readonly tailView: TailView;
  /** Whether the cache has names of graphs alone. */
  protected abstract readonly isCacheLinked: boolean;

  constructor(dimension: number, metric: Metric) {
    this.dimension = dimension;
    this.metric = metric;
  }

  /** Whether the cache may have one more vector. */
  abstract mayCache(): boolean;

  /** Whether a version sees any record of a name. */
  seesName(visible: Visible): Visible {
    const { copies } = this;
    return visible === null || copies.isEmpty ? visible : (name) => copies.seen(name, visible) !== absent;
  }

  /** Reads the vector of a name through a visible record: other records may no longer be stored. */
  readerOf(visible: () => Visible, vectorOf?: VectorReader): VectorReader | undefined {
    const { copies } = this;
    if (vectorOf === undefined || copies.isEmpty) return vectorOf;
    return (name) => {
      const seen = copies.seen(name, visible());
      return vectorOf(seen === absent ? name : seen);
    };
  }

  /** Whether `distancesOf` knows a name of graphs, probably. */
  holds(name: number): boolean {
    return this.cache.has(name);
  }

  /** Vectors of graphs whose distances need no read, about. */
  get heldCount(): number {
    return this.cache.count;
  }

  /** Writes the exact distances of the first `count` names of graphs; NaN for those whose vectors must be read. `query` is borrowed. */
  distancesOf(query: Float32Array, names: Uint32Array, count: number, distances: Float64Array): void {
    this.cache.distancesOf(query, names, count, distances);
  }

  /** Reads a vector that is not in the cache, and lets it take the place of another there. */
  read(name: number, vectorOf?: VectorReader): Float32Array {
    const vector = readVector(name, vectorOf);
    const { cache } = this;
    const isFull = !this.mayCache();
    if (isFull && cache.count === 0) return vector;
    // Evicts a pseudo-random entry, chosen by a hash of the ordinals: the cache does not track what is used.
    if (isFull) cache.remove(cache.ordinalAt(hash(name) % cache.count));
    cache.add(name, bytesOfFloats(vector));
    return vector;
  }

  /** What an exact search that begins now passes over. */
  get places(): Places {
    const { graphs } = this;
    return {
      metric: this.metric,
      isLinked: (name) => graphs?.has(name) ?? false,
      linkedCount: graphs?.count ?? 0,
      tail: this.tailView,
      cache: this.cache,
      isCacheLinked: this.isCacheLinked,
      mayCache: () => this.mayCache(),
      ordinalEnd: this.last + 1,
    };
  }
}
