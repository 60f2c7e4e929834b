// Where are the full-precision vectors of an index, and under which names?
//
//   tail    vectors that no graph has yet: every search scans them exactly
//   cache   vectors of graph nodes, as many as may stay in memory; a search reads the others
//
// Tail, cache and graphs hold *names*, one for each distinct vector (names.ts, duplicate-vectors.ts). One of them is special: by cosine, the
// vector whose values are all zero has no direction. It is in none of them, and its score is known.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { bytesOfFloats, readFloats } from "../../vector/floats.ts";
import { metrics } from "../../vector/metrics.ts";
import { nextMemoryId } from "../attached.ts";
import { FlatIndex, flatBytes } from "../flat/flat-index.ts";
import { absent } from "../ordinal-map.ts";
import type { SharedVectors } from "./attached-vectors.ts";
import type { DuplicateVectors } from "./duplicate-vectors.ts";
import type { FingerprintKey } from "./fingerprints.ts";
import type { GraphSet } from "./graph-set.ts";
import { isEqualTo, Names } from "./names.ts";
import { SearchedVectors } from "./searched-vectors.ts";
import { Tail, type TailView } from "./tail.ts";

/** The cache requests memory in units of this size. */
const cacheStepBytes = 2 ** 20;

/** Vectors that are read into the cache between two looks at the clock, and names that are looked at. */
const readsPerFill = 64;
const namesPerFill = 4_096;

export type VectorOptions = {
  readonly dimension: number;
  readonly metric: MetricName;
  readonly fingerprintKey: FingerprintKey;
  /** Threads that may search at a time. */
  readonly searchers: number;
  /** Calls when no search goes on that has begun before; default: at once. */
  readonly retire?: ((free: () => void) => void) | undefined;
  /** Vectors that the cache has at most. */
  readonly cacheMax: number;
  /** Whether this many more bytes may be allocated for the cache; default: always. */
  readonly mayTake?: ((bytes: number) => boolean) | undefined;
  /** Reads the newest vector of a record; undefined: the record is gone. */
  readonly readVector?: ((ordinal: number) => Uint8Array | undefined) | undefined;
};

export class StoredVectors extends SearchedVectors {
  names: Names;
  readonly tail: Tail;
  readonly cache: FlatIndex;
  /** The greatest ordinal that was ever added; -1 before the first. */
  last = -1;
  protected readonly isCacheLinked = true;
  readonly #id = nextMemoryId();
  readonly #options: VectorOptions;
  readonly #graphs: () => GraphSet | undefined;
  /** The first name that is still to be read into the cache; undefined when none is. */
  #fillFrom: number | undefined;
  /** Number of vectors in the cache before it requests more memory. */
  #cacheGranted = 0;

  /** @param graphs the graphs that serve searches */
  constructor(options: VectorOptions, graphs: () => GraphSet | undefined) {
    const { dimension, metric, fingerprintKey } = options;
    super(dimension, metrics[metric]);
    this.#options = options;
    this.#graphs = graphs;
    this.names = new Names(dimension, fingerprintKey, options.retire);
    this.tail = new Tail(dimension, metric, options.searchers);
    this.cache = new FlatIndex({ dimension, metric, isUnordered: true, readers: options.searchers });
  }

  get graphs(): GraphSet | undefined {
    return this.#graphs();
  }

  get copies(): DuplicateVectors {
    return this.names.copies;
  }

  get directionless(): number {
    return this.names.directionless;
  }

  get tailCount(): number {
    return this.tail.count;
  }

  get tailView(): TailView {
    return this.tail.view;
  }

  /** What another thread needs to search the vectors as they are now (attached-vectors.ts). */
  get shared(): SharedVectors {
    return {
      id: this.#id,
      dimension: this.dimension,
      metric: this.metric.name,
      graphs: this.graphs?.shared,
      tail: this.tail.shared,
      cache: this.cache.attachable,
      copies: this.copies.shared,
      directionless: this.directionless,
      count: this.count,
      last: this.last,
    };
  }

  /** Records held. */
  get count(): number {
    return this.vectorCount + this.names.copies.extraCount;
  }

  /** Distinct vectors held. */
  get vectorCount(): number {
    const directionless = this.names.directionless === absent ? 0 : 1;
    return (this.graphs?.count ?? 0) + this.tail.count + directionless;
  }

  has(ordinal: number): boolean {
    if (this.names.copies.nameOf(ordinal) !== absent) return true;
    return this.isName(ordinal) && !this.names.copies.isHeadless(ordinal);
  }

  isName(ordinal: number): boolean {
    if (this.tail.has(ordinal) || this.graphs?.has(ordinal)) return true;
    return ordinal === this.names.directionless;
  }

  get memoryBytes(): number {
    return this.tail.memoryBytes + this.cache.memoryBytes + this.names.memoryBytes;
  }

  /** Whether the cache may hold one more vector; it requests memory in units of a MiB. */
  mayCache(): boolean {
    const { cacheMax, mayTake } = this.#options;
    const { count } = this.cache;
    if (count >= cacheMax) return false;
    if (mayTake === undefined || count < this.#cacheGranted) return true;
    const rows = Math.ceil(cacheStepBytes / (4 * this.dimension));
    if (!mayTake(flatBytes(this, rows, Math.ceil(rows / 1_024)))) return false;
    this.#cacheGranted = count + rows;
    return true;
  }

  /** Evicts vectors, at least a sixteenth of the cache at a time, because the rest is copied. */
  giveUp(bytes: number): void {
    const { cache } = this;
    if (cache.count === 0) return;
    const rowBytes = cache.memoryBytes / cache.count;
    const gone = Math.max(Math.ceil(bytes / rowBytes), Math.ceil(cache.count / 16));
    for (let left = Math.min(gone, cache.count); left > 0; left--)
      cache.remove(cache.ordinalAt(cache.count - 1));
    cache.shrink();
    this.#cacheGranted = cache.count;
  }

  /** Whether a name that is held has this vector. */
  isVectorOf(name: number, vector: Float32Array): boolean {
    const held = this.cache.vectorOf(name) ?? this.tail.vectorOf(name);
    if (held !== undefined) return isEqualTo(held, vector);
    // For a vector that is not in memory, the code and 64 bits of its hash are compared.
    return name === this.names.directionless || (this.graphs?.reader.hasCode(name, vector) ?? false);
  }

  /** The vector of a name to link; undefined if it has no record any more or cannot be read. */
  vectorToLink(name: number): Float32Array | undefined {
    const held = this.tail.vectorOf(name) ?? this.cache.vectorOf(name);
    if (held !== undefined || !this.graphs?.has(name)) return held;
    const { readVector: read } = this.#options;
    let bytes: Uint8Array | undefined;
    this.names.copies.each(name, (ordinal) => {
      bytes = read?.(ordinal);
      return bytes === undefined;
    });
    return bytes && readFloats(bytes);
  }

  /** Whether vectors of graphs are to be read into the cache. */
  get isFilling(): boolean {
    return this.#fillFrom !== undefined;
  }

  /**
   * After a restore: vectors of graphs are read into the cache, as many as it may have. Searches of this thread would do that as they go;
   * those of other threads cannot, and would read each vector from the store.
   */
  beginFilling(): void {
    if (this.#options.searchers > 1 && this.canRead) this.#fillFrom = 0;
  }

  /** Reads some of them. */
  fill(): void {
    let name = this.#fillFrom ?? 0;
    this.#fillFrom = undefined;
    const end = Math.min(this.last + 1, name + namesPerFill);
    for (let reads = 0; name < end && reads < readsPerFill; name++) {
      if (!this.graphs?.has(name) || this.cache.has(name)) continue;
      if (!this.mayCache()) return;
      const vector = this.vectorToLink(name);
      if (vector !== undefined) this.cache.add(name, bytesOfFloats(vector));
      reads++;
    }
    if (name <= this.last) this.#fillFrom = name;
  }

  /** Whether vectors can be read that are not in memory. */
  get canRead(): boolean {
    return this.#options.readVector !== undefined;
  }

  /** The serving graphs now contain a vector of the tail. */
  onLinked(name: number): void {
    if (this.mayCache()) this.cache.add(name, bytesOfFloats(this.tail.vectorOf(name) as Float32Array));
    this.tail.onLinked(name);
  }

  /** A name has no record any more. */
  forget(name: number): void {
    if (name === this.names.directionless) this.names.directionless = absent;
    this.tail.remove(name);
    this.cache.remove(name);
  }

  close(): void {
    this.names.clear();
    this.tail.close();
    this.cache.close();
  }
}
