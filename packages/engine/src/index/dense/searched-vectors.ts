// What do searches know of the vectors of a dense index?
//
//   rows    full-precision vectors in memory (vector-rows.ts), as they were when the search began: those that no graph has, which every search
//           compares exactly, and those of graphs, as many as are held
//   graphs  the codes of all others
//
// Both hold *vector keys*, one for each distinct vector (duplicate-vectors.ts). The thread that owns the index has them as they are now
// (stored-vectors.ts), another one as they were described to it (stored-vectors.ts): what its version sees was in one of them, and stays
// there for it. A vector of a graph that is not in memory is read from the store.

import { readFloats } from "../../vector/floats.ts";
import type { Metric } from "../../vector/metric.ts";
import type { Visible } from "../contract.ts";
import { absent } from "../ordinal-map.ts";
import type { DuplicateVectorsReader } from "./duplicate-vectors.ts";
import type { Encoding } from "./encoding.ts";
import type { GraphSearch } from "./graph-search.ts";
import type { VectorRowsView } from "./vector-rows.ts";

/** The full-precision vector of a record: f32 values, or their bytes. Borrowed until the next call. */
export type VectorReader = (ordinal: number) => Float32Array | Uint8Array;

/** Graphs, as searches know them. */
export interface GraphsSearched {
  /** Names that are linked. */
  readonly count: number;
  /** Whether another thread owns them. Names that it links later are found, too, although they are not counted; the rows have them still. */
  readonly isAttached: boolean;
  readonly encoding: Encoding;
  readonly reader: GraphSearch;
  readonly graphs: { readonly length: number };
  has(vectorKey: number): boolean;
}

export abstract class SearchedVectors {
  readonly dimension: number;
  readonly metric: Metric;
  abstract readonly graphs: GraphsSearched | undefined;
  abstract readonly duplicates: DuplicateVectorsReader;
  /** The vector key of the vector whose values are all zero, where that has no direction; else `absent`. */
  abstract readonly directionless: number;
  /** Records held: as many as a version sees, or more. */
  abstract readonly count: number;
  /** The greatest ordinal that was ever added; -1 before the first. */
  abstract readonly last: number;
  /** Vectors that no graph has. */
  abstract readonly waitingCount: number;
  /** The rows, for a search that begins now. */
  abstract readonly rows: VectorRowsView;

  constructor(dimension: number, metric: Metric) {
    this.dimension = dimension;
    this.metric = metric;
  }

  /** Whether a version sees any record of a vector key. */
  seesVectorKey(visible: Visible): Visible {
    const { duplicates } = this;
    return visible === null || duplicates.isEmpty
      ? visible
      : (vectorKey) => duplicates.seen(vectorKey, visible) !== absent;
  }

  /** Reads the vector of a vector key through a visible record: other records may no longer be stored. */
  readerOf(visible: () => Visible, vectorOf?: VectorReader): VectorReader | undefined {
    const { duplicates } = this;
    if (vectorOf === undefined || duplicates.isEmpty) return vectorOf;
    return (vectorKey) => {
      const seen = duplicates.seen(vectorKey, visible());
      return vectorOf(seen === absent ? vectorKey : seen);
    };
  }
}

/** @throws if there is no reader; an index that does not have all vectors in memory needs one */
export function readVector(ordinal: number, vectorOf?: VectorReader): Float32Array {
  if (vectorOf === undefined) throw new Error(`the vector of ordinal ${ordinal} is not in memory`);
  const read = vectorOf(ordinal);
  return read instanceof Float32Array ? read : readFloats(read);
}
