// What do the parts of building ask of the index whose graphs they build?

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import type { Steps } from "../../base/steps.ts";
import type { Builders } from "../builders.ts";
import type { Candidates } from "../contract.ts";
import type { Beam } from "./beam.ts";
import type { HnswDataType } from "./code-types.ts";
import type { Measured, Question } from "./quality.ts";
import type { GraphSetOptions } from "./set-shape.ts";
import type { TruthRequest } from "./tasks.ts";

export type MaintenanceOptions = Omit<GraphSetOptions, "scratchCount"> & {
  readonly dimension: number;
  readonly metric: MetricName;
  readonly dataType: HnswDataType | "auto";
  readonly range?: { readonly min: number; readonly max: number } | undefined;
  readonly sampleCount: number;
  readonly searchers: number;
  readonly builders: Builders;
  readonly efSearch: number;
  readonly measures: boolean;
  /** Smaller graphs are not ordered (node-order.ts). */
  readonly orderedBytesMin: number;
  /** Whether this many more bytes may be allocated; default: always. */
  readonly mayTake?: ((bytes: number) => boolean) | undefined;
  readonly retire?: ((free: () => void) => void) | undefined;
  readonly onError?: ((error: unknown) => void) | undefined;
  readonly onProgress?: (() => void) | undefined;
  readonly onMore?: (() => void) | undefined;
  readonly onNotice?: ((notice: string) => void) | undefined;
};

/** Names with their vectors, one after the other. */
export type Sample = { readonly vectorKeys: number[]; readonly vectors: Float32Array };

/** One of its vectors. */
export const vectorAt = ({ vectors }: Sample, i: number, dimension: number): Float32Array =>
  vectors.subarray(i * dimension, (i + 1) * dimension);

/** The vectors of the index, by vector key. */
export interface Vectors {
  /** Vectors that no graph has, ascending. */
  waiting(): number[];
  waitingCount(): number;
  /** Borrowed until the next call; undefined where the vector key has no record any more, or its vector cannot be read. */
  vectorOf(vectorKey: number): Float32Array | undefined;
  /** The graphs that serve have a vector key now. */
  onLinked(vectorKey: number): void;
  /** Some vector keys of the graphs, evenly drawn, with their vectors: new arrays. */
  sample(count: number, fresh?: readonly number[]): Sample;
  /** All linked vectors, if they are in memory; otherwise undefined. */
  shared(): TruthRequest["rows"] | undefined;
  /** Begins an exact search for vector keys; undefined where vectors cannot be read. */
  beginTruth(queries: readonly Float32Array[], k: number): Steps<Candidates[]> | undefined;
  /** Runs one query on the graphs. */
  ask(question: Question, beam: Beam, isNew: (vectorKey: number) => boolean): Measured;
  /** The best vector keys by the graphs, one more than a question wants, with exact scores. */
  nearest(vector: Float32Array, ef: number): Candidates;
}
