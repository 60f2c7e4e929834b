// Which vectors does a dense index have, under which vector keys, and which of them are in memory?
//
// Rows and graphs hold *vector keys*, one for each distinct vector (vector-keys.ts, duplicate-vectors.ts). One of them is special: by cosine, the vector
// whose values are all zero has no direction. It is in neither of them, and its score is known.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import { readFloats } from "../../vector/floats.ts";
import { type Metric, metrics } from "../../vector/metric.ts";
import { absent } from "../ordinal-map.ts";
import type { DuplicateVectors } from "./duplicate-vectors.ts";
import type { FingerprintKey } from "./fingerprints.ts";
import type { GraphSearch } from "./graph-search.ts";
import type { GraphSet } from "./graph-set.ts";
import type { SearchedVectors, SharedVectors } from "./searched-vectors.ts";
import { isEqualTo, VectorKeys } from "./vector-keys.ts";
import { VectorRows, type VectorRowsView } from "./vector-rows.ts";

/** Vectors that are read into memory between two looks at the clock, and vector keys that are looked at. */
const readsPerFill = 64;
const keysPerFill = 4_096;

type VectorOptions = {
  readonly dimension: number;
  readonly metric: MetricName;
  readonly fingerprintKey: FingerprintKey;
  /** Threads that may search at a time. */
  readonly searchers: number;
  /** Calls when no search goes on that has begun before; default: at once. */
  readonly retire?: ((free: () => void) => void) | undefined;
  /** Vectors of graphs that are held in memory, about and at most. */
  readonly cacheMax: number;
  /** Whether this many more bytes may be allocated for them; default: always. */
  readonly mayTake?: ((bytes: number) => boolean) | undefined;
  /** Reads the newest vector of a record; undefined: the record is gone. */
  readonly readVector?: ((ordinal: number) => Uint8Array | undefined) | undefined;
};

export class StoredVectors implements SearchedVectors {
  readonly dimension: number;
  readonly metric: Metric;
  vectorKeys: VectorKeys;
  readonly held: VectorRows;
  /** The greatest ordinal that was ever added; -1 before the first. */
  last = -1;
  readonly #options: VectorOptions;
  readonly #graphSet: () => GraphSet | undefined;
  /** The first vector key that is still to be read into memory; undefined when none is. */
  #fillFrom: number | undefined;

  /** @param graphSet the graphs that serve searches */
  constructor(options: VectorOptions, graphSet: () => GraphSet | undefined) {
    const { dimension, metric, fingerprintKey, retire } = options;
    this.dimension = dimension;
    this.metric = metrics[metric];
    this.#options = options;
    this.#graphSet = graphSet;
    this.vectorKeys = new VectorKeys(dimension, fingerprintKey, retire);
    const { searchers: readers, cacheMax: heldMax, mayTake } = options;
    this.held = new VectorRows({ dimension, metric, readers, heldMax, mayTake, retire });
  }

  /** The graphs that serve searches, for who writes. */
  get graphSet(): GraphSet | undefined {
    return this.#graphSet();
  }

  get graphs(): GraphSearch | undefined {
    return this.graphSet?.reader;
  }

  get duplicates(): DuplicateVectors {
    return this.vectorKeys.duplicates;
  }

  get directionless(): number {
    return this.vectorKeys.directionless;
  }

  get waitingCount(): number {
    return this.held.waitingCount;
  }

  get rows(): VectorRowsView {
    return this.held.view;
  }

  /** What another thread needs to search the vectors as they are now. */
  get shared(): SharedVectors {
    const linked = this.graphs?.count ?? 0;
    // A row is linked only if the graphs have its vector: a thread that attaches finds it in one or the other.
    invariant(
      this.held.linkedCount <= linked,
      () => `${this.held.linkedCount} rows are marked as linked, and the graphs have ${linked} vectors`,
    );
    return {
      dimension: this.dimension,
      metric: this.metric.name,
      graphs: this.graphSet?.shared,
      rows: this.held.shared,
      duplicates: this.duplicates.shared,
      directionless: this.directionless,
      count: this.count,
      last: this.last,
    };
  }

  /** Records held. */
  get count(): number {
    return this.vectorCount + this.vectorKeys.duplicates.extraCount;
  }

  /** Distinct vectors held. */
  get vectorCount(): number {
    const directionless = this.vectorKeys.directionless === absent ? 0 : 1;
    return (this.graphs?.count ?? 0) + this.held.waitingCount + directionless;
  }

  has(ordinal: number): boolean {
    if (this.vectorKeys.duplicates.vectorKeyOf(ordinal) !== absent) return true;
    return this.isVectorKey(ordinal) && !this.vectorKeys.duplicates.isHeadless(ordinal);
  }

  isVectorKey(ordinal: number): boolean {
    if (this.held.has(ordinal) || this.graphs?.has(ordinal)) return true;
    return ordinal === this.vectorKeys.directionless;
  }

  get memoryBytes(): number {
    return this.held.memoryBytes + this.vectorKeys.memoryBytes;
  }

  /** Whether a vector key that is held has this vector. */
  isVectorOf(vectorKey: number, vector: Float32Array): boolean {
    const held = this.held.vectorOf(vectorKey);
    if (held !== undefined) return isEqualTo(held, vector);
    // For a vector that is not in memory, the code and 64 bits of its hash are compared.
    return vectorKey === this.vectorKeys.directionless || (this.graphs?.hasCode(vectorKey, vector) ?? false);
  }

  /** The vector of a vector key to link; undefined if it has no record any more or cannot be read. */
  vectorToLink(vectorKey: number): Float32Array | undefined {
    const held = this.held.vectorOf(vectorKey);
    if (held !== undefined || !this.graphs?.has(vectorKey)) return held;
    const { readVector: read } = this.#options;
    let bytes: Uint8Array | undefined;
    this.vectorKeys.duplicates.each(vectorKey, (ordinal) => {
      bytes = read?.(ordinal);
      return bytes === undefined;
    });
    return bytes && readFloats(bytes);
  }

  /** After a restore: vectors of graphs are read into memory, as many as may be held. */
  beginFilling(): void {
    if (this.canRead) this.#fillFrom = 0;
  }

  /** Reads some of them. @returns whether there are more; none after one that cannot be read */
  fill(): boolean {
    const from = this.#fillFrom;
    if (from === undefined) return false;
    this.#fillFrom = undefined;
    const end = Math.min(this.last + 1, from + keysPerFill);
    let vectorKey = from;
    for (let reads = 0; vectorKey < end && reads < readsPerFill; vectorKey++) {
      if (!this.graphs?.has(vectorKey) || this.held.has(vectorKey)) continue;
      if (!this.held.mayHold()) return false;
      const vector = this.vectorToLink(vectorKey);
      if (vector !== undefined) this.held.hold(vectorKey, vector);
      reads++;
    }
    if (vectorKey <= this.last) this.#fillFrom = vectorKey;
    return this.#fillFrom !== undefined;
  }

  /** Whether vectors can be read that are not in memory. */
  get canRead(): boolean {
    return this.#options.readVector !== undefined;
  }

  /** A vector key has no record any more. */
  forget(vectorKey: number): void {
    if (vectorKey === this.vectorKeys.directionless) this.vectorKeys.directionless = absent;
    this.held.remove(vectorKey);
  }

  close(): void {
    this.vectorKeys.clear();
    this.held.close();
  }
}
