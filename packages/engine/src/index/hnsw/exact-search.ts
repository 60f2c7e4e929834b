// How are all vectors of a dense index read, in steps between which the index changes?
//
// A record is in the tail or in a graph, and some records of graphs are also in the cache. Between two steps a record may move from
// the tail to a graph, and into or out of the cache. The search misses none: it scans the tail as it was when it began (tail.ts). The scan
// of the cache begins with the search and reports the records that left before it reached them (flat/scan.ts). A pass over all
// ordinals finds the records that are neither in the tail nor in the cache. Only after this pass do the scans run to their ends:
//
//   begin: scans of tail and cache        ordinals 0 ... last                      scans
//   |-------------------------------------|------------------------------------->|------------------>| finish
//                                            not cached: into the cache while there is room,
//                                            else compared at once with every query
//
// A record that is met twice counts once. Vectors that do not fit the cache bypass it: otherwise a pass over all records would evict
// every vector that searches need.

import { Growable } from "../../base/growable.ts";
import type { Steps } from "../../base/steps.ts";
import { keepBest } from "../../base/top-k.ts";
import { bytesOfFloats, readFloats } from "../../vector/floats.ts";
import type { ExactDistance, Metric } from "../../vector/metric.ts";
import { bestOf, type Candidates, type Visible } from "../contract.ts";
import type { FlatIndex } from "../flat/flat-index.ts";
import type { FlatScan } from "../flat/scan.ts";
import type { TailView } from "./tail.ts";

/** A search in steps; the index may change between two steps. The caller must call `end`. */
export interface SteppedSearch {
  /** Continues until all is done or the time is over, but at least for a minimum; returns whether all is done. */
  run(isTimeOver: () => boolean): boolean;
  /** The results of each query, when all is done. */
  finish(): Candidates[];
  /** Lets go of the index, done or not. */
  end(): void;
}

/** A search as steps, which lets go of the index however it ends. */
export function* stepsOf(search: SteppedSearch): Steps<Candidates[]> {
  try {
    while (!search.run(() => true)) yield;
    return search.finish();
  } finally {
    search.end();
  }
}

/** The full-precision vector of a record: f32 values, or their bytes. Borrowed until the next call. */
export type VectorReader = (ordinal: number) => Float32Array | Uint8Array;

/** Where the records of an index are. */
export type Places = {
  readonly metric: Metric;
  /** Whether a name is in a graph, and how many are. */
  isLinked(name: number): boolean;
  readonly linkedCount: number;
  readonly tail: TailView;
  readonly cache: FlatIndex;
  /** Whether the cache has names of graphs alone; else some that it has are gone. */
  readonly isCacheLinked: boolean;
  /** Whether the cache may have one more vector. */
  mayCache(): boolean;
  /** All ordinals of the index are smaller. */
  readonly ordinalEnd: number;
};

/** Ordinals passed between two looks at the clock, and how many of them a vector that is read counts for. */
const ordinalsPerLook = 4_096;
const ordinalsPerRead = 128;

/** The best results of one query among the vectors that are compared one by one. */
export class BestSoFar {
  readonly #k: number;
  readonly #ordinals = new Growable(Uint32Array);
  readonly #scores = new Growable(Float64Array);
  readonly distanceTo: ExactDistance;
  #keepAt: number;

  constructor(distanceTo: ExactDistance, k: number) {
    this.distanceTo = distanceTo;
    this.#k = k;
    this.#keepAt = Math.max(4_096, 2 * k);
  }

  take(ordinal: number, score: number): void {
    this.#ordinals.push(ordinal);
    this.#scores.push(score);
    if (this.#ordinals.length < this.#keepAt) return;
    const best = this.best();
    this.#ordinals.length = 0;
    this.#scores.length = 0;
    for (let i = 0; i < best.count; i++) {
      this.#ordinals.push(best.ordinals[i]);
      this.#scores.push(best.scores[i]);
    }
    this.#keepAt = Math.max(this.#keepAt, 2 * best.count);
  }

  best(): Candidates {
    return keepBest(this.#ordinals.values, this.#scores.values, this.#ordinals.length, this.#k);
  }
}

export class ExactSearch implements SteppedSearch {
  readonly #places: Places;
  readonly #k: number;
  readonly #visible: () => Visible;
  readonly #vectorOf: VectorReader | undefined;
  readonly #outside: readonly BestSoFar[];
  /** Of each query: the scan of the cache, and of the tail where it has any. */
  readonly #scans: readonly (readonly FlatScan[])[];
  #ordinal = 0;
  #scan = 0;

  /**
   * @param queries vectors of `dimension` finite values, borrowed
   * @param k at least 1
   * @param visible returns the visibility test; called at the start of each step
   * @param vectorOf reads vectors that are not in the cache; needed if not all are
   */
  constructor(
    places: Places,
    queries: readonly Float32Array[],
    k: number,
    visible: () => Visible,
    vectorOf?: VectorReader,
  ) {
    this.#places = places;
    this.#k = k;
    this.#visible = visible;
    this.#vectorOf = vectorOf;
    const { metric, cache, tail, isCacheLinked, linkedCount, ordinalEnd } = places;
    const elsewhere = (ordinal: number) => vectorIn(places, ordinal, vectorOf);
    const seesCached = isCacheLinked ? visible : () => linkedAnd(places, visible());
    this.#outside = queries.map((query) => new BestSoFar(metric.exactDistance(query), k));
    this.#scans = queries.map((query) => [
      cache.scan(query, k, seesCached, elsewhere),
      ...(tail.count === 0 ? [] : [tail.scan(query, k, visible)]),
    ]);
    // With all in the cache, or none in graphs, there is nothing to look for.
    if (isCacheLinked ? cache.count === linkedCount : linkedCount === 0) this.#ordinal = ordinalEnd;
  }

  run(isTimeOver: () => boolean): boolean {
    if (!this.#readOthers(isTimeOver)) return false;
    const scans = this.#scans.flat();
    for (; this.#scan < scans.length; this.#scan++) {
      if (!scans[this.#scan].run(isTimeOver)) return false;
    }
    return true;
  }

  finish(): Candidates[] {
    return this.#scans.map((scans, i) =>
      bestOf([this.#outside[i].best(), ...scans.map((scan) => scan.finish())], this.#k),
    );
  }

  end(): void {
    for (const scan of this.#scans.flat()) scan.end();
  }

  /** Walks the ordinals of the graphs and compares vectors that are not in the cache; returns whether the walk is complete. */
  #readOthers(isTimeOver: () => boolean): boolean {
    const { cache, ordinalEnd } = this.#places;
    const visible = this.#visible();
    let passed = 0;
    while (this.#ordinal < ordinalEnd) {
      const ordinal = this.#ordinal++;
      const isOutside = this.#places.isLinked(ordinal) && !cache.has(ordinal);
      if (isOutside && (visible === null || visible(ordinal))) {
        this.#take(ordinal);
        passed += ordinalsPerRead;
      }
      if (++passed < ordinalsPerLook) continue;
      if (isTimeOver()) return false;
      passed = 0;
    }
    return true;
  }

  #take(ordinal: number): void {
    const { cache, metric } = this.#places;
    const vector = readVector(ordinal, this.#vectorOf);
    if (this.#places.mayCache()) {
      cache.add(ordinal, bytesOfFloats(vector));
      return;
    }
    for (const outside of this.#outside) outside.take(ordinal, metric.score(outside.distanceTo(vector, 0)));
  }
}

/** What is seen of names that are in graphs. */
const linkedAnd =
  ({ isLinked }: Places, visible: Visible): Visible =>
  (name) =>
    isLinked(name) && (visible === null || visible(name));

/** A record's vector, wherever it is; undefined where the index has it no more. */
export function vectorIn(
  { cache, tail, isLinked }: Places,
  ordinal: number,
  vectorOf?: VectorReader,
): Float32Array | undefined {
  const held = cache.vectorOf(ordinal) ?? tail.vectorOf(ordinal);
  // No version sees a record that has left the index.
  if (held !== undefined || !isLinked(ordinal)) return held;
  return readVector(ordinal, vectorOf);
}

/** @throws if there is no reader; an index whose cache does not contain all vectors needs one */
export function readVector(ordinal: number, vectorOf?: VectorReader): Float32Array {
  if (vectorOf === undefined) throw new Error(`the vector of ordinal ${ordinal} is not in the cache`);
  const read = vectorOf(ordinal);
  return read instanceof Float32Array ? read : readFloats(read);
}
