// What does a thread know of the vectors of a dense index that another one owns?

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { metrics } from "../../vector/metrics.ts";
import { attachOnce } from "../attached.ts";
import { type AttachableRows, AttachedRows } from "../flat/attached-rows.ts";
import { FlatIndex } from "../flat/flat-index.ts";
import { AttachedGraphs, type SharedGraphs } from "./attached-graphs.ts";
import { DuplicateVectorsReader, type SharedDuplicateVectors } from "./duplicate-vectors.ts";
import { SearchedVectors } from "./searched-vectors.ts";
import { type SharedTail, TailView } from "./tail.ts";

/** What a thread needs to search the vectors of an index as they were at a time. Can be posted to it. */
export type SharedVectors = {
  readonly id: number;
  readonly dimension: number;
  readonly metric: MetricName;
  readonly graphs: SharedGraphs | undefined;
  readonly tail: SharedTail;
  readonly cache: AttachableRows;
  readonly copies: SharedDuplicateVectors;
  readonly directionless: number;
  readonly count: number;
  readonly last: number;
};

/** Bytes of full-precision vectors that a thread keeps of an index of another, at most: of those that the owner does not keep. */
const cacheBytesMax = 2 ** 24;

/** The places, names and distances of vectors that the owner's cache has not, of one search at a time. */
let places = new Uint32Array(256);
let names = new Uint32Array(256);
let distances = new Float64Array(256);

export class AttachedVectors extends SearchedVectors {
  readonly graphs: AttachedGraphs | undefined;
  /** Of what is in graphs, or was: a name is never another vector's, so what was read once is right for every version. */
  readonly cache: FlatIndex;
  readonly copies: DuplicateVectorsReader;
  readonly directionless: number;
  readonly count: number;
  readonly last: number;
  readonly tailView: TailView;
  protected readonly isCacheLinked = false;
  /** What the owner keeps. */
  readonly #ownersCache: AttachedRows;

  /** @param slot of this thread */
  constructor(
    { id, dimension, metric, graphs, tail, cache, copies, ...others }: SharedVectors,
    slot: number,
  ) {
    super(dimension, metrics[metric]);
    this.graphs = graphs && new AttachedGraphs(graphs, slot);
    this.cache = attachOnce(id, slot, () => new FlatIndex({ dimension, metric, isUnordered: true }));
    this.#ownersCache = new AttachedRows(this.metric, cache, slot);
    this.copies = DuplicateVectorsReader.attach(copies);
    this.tailView = TailView.attach(this.metric, dimension, tail, slot);
    this.directionless = others.directionless;
    this.count = others.count;
    this.last = others.last;
  }

  get tailCount(): number {
    return this.tailView.count;
  }

  override holds(name: number): boolean {
    return this.#ownersCache.has(name) || this.cache.has(name);
  }

  override get heldCount(): number {
    return Math.max(this.#ownersCache.count, this.cache.count);
  }

  override distancesOf(query: Float32Array, of: Uint32Array, count: number, to: Float64Array): void {
    this.#ownersCache.distancesOf(query, of, count, to);
    if (this.cache.count === 0) return;
    if (places.length < count) {
      places = new Uint32Array(2 * count);
      names = new Uint32Array(2 * count);
      distances = new Float64Array(2 * count);
    }
    let missing = 0;
    for (let i = 0; i < count; i++) {
      if (!Number.isNaN(to[i])) continue;
      places[missing] = i;
      names[missing++] = of[i];
    }
    if (missing === 0) return;
    this.cache.distancesOf(query, names, missing, distances);
    for (let i = 0; i < missing; i++) to[places[i]] = distances[i];
  }

  mayCache(): boolean {
    return 4 * this.dimension * (this.cache.count + 1) <= cacheBytesMax;
  }
}
