// What do searches know of the vectors of a dense index?
//
//   rows    full-precision vectors in memory (vector-rows.ts), as they were when the search began: those that no graph has, which every search
//           compares exactly, and those of graphs, as many as are held
//   graphs  the codes of all others
//
// Both hold *vector keys*, one for each distinct vector (duplicate-vectors.ts). The thread that owns the index has them as they are now
// (stored-vectors.ts), another one as they were described to it (`attachVectors`): what its version sees was in one of them, and stays
// there for it. A vector of a graph that is not in memory is read from the store.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { readFloats } from "../../vector/floats.ts";
import { type Metric, metrics } from "../../vector/metric.ts";
import { DuplicateVectorsReader, type SharedDuplicateVectors } from "./duplicate-vectors.ts";
import { GraphSearch, type SharedGraphs } from "./graph-search.ts";
import { type SharedVectorRows, VectorRowsView } from "./vector-rows.ts";

/** The full-precision vector of a record: f32 values, or their bytes. Borrowed until the next call. */
export type VectorReader = (ordinal: number) => Float32Array | Uint8Array;

export type SearchedVectors = {
  readonly dimension: number;
  readonly metric: Metric;
  readonly graphs: GraphSearch | undefined;
  readonly duplicates: DuplicateVectorsReader;
  /** The vector key of the vector whose values are all zero, where that has no direction; else `absent`. */
  readonly directionless: number;
  /** Records held: as many as a version sees, or more. */
  readonly count: number;
  /** The greatest ordinal that was ever added; -1 before the first. */
  readonly last: number;
  /** Vectors that no graph has. */
  readonly waitingCount: number;
  /** The rows, for a search that begins now. */
  readonly rows: VectorRowsView;
};

/** What a thread needs to search the vectors of an index as they were at a time. Can be posted to it. */
export type SharedVectors = Pick<SearchedVectors, "dimension" | "directionless" | "count" | "last"> & {
  readonly metric: MetricName;
  readonly graphs: SharedGraphs | undefined;
  readonly rows: SharedVectorRows;
  readonly duplicates: SharedDuplicateVectors;
};

/** The vectors of an index that another thread owns. @param slot of this one */
export function attachVectors(shared: SharedVectors, slot: number): SearchedVectors {
  const metric = metrics[shared.metric];
  const rows = VectorRowsView.attach(metric, shared.rows, slot);
  return {
    ...shared,
    metric,
    graphs: shared.graphs && GraphSearch.attach(shared.graphs, slot),
    rows,
    duplicates: DuplicateVectorsReader.attach(shared.duplicates),
    waitingCount: rows.waitingCount,
  };
}

/** @throws if there is no reader; an index that does not have all vectors in memory needs one */
export function readVector(ordinal: number, vectorOf?: VectorReader): Float32Array {
  if (vectorOf === undefined) throw new Error(`the vector of ordinal ${ordinal} is not in memory`);
  const read = vectorOf(ordinal);
  return read instanceof Float32Array ? read : readFloats(read);
}
