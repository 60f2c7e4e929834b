// Which vectors does a dense index have, under which names, and which of them are in memory?
//
// Rows and graphs hold *names*, one for each distinct vector (names.ts, duplicate-vectors.ts). One of them is special: by cosine, the vector
// whose values are all zero has no direction. It is in neither of them, and its score is known.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { readFloats } from "../../vector/floats.ts";
import { metrics } from "../../vector/metric.ts";
import { absent } from "../ordinal-map.ts";
import {
  type DuplicateVectors,
  DuplicateVectorsReader,
  type SharedDuplicateVectors,
} from "./duplicate-vectors.ts";
import type { FingerprintKey } from "./fingerprints.ts";
import { AttachedGraphs, type GraphSet, type SharedGraphs } from "./graph-set.ts";
import { isEqualTo, Names } from "./names.ts";
import { SearchedVectors } from "./searched-vectors.ts";
import { type SharedVectorRows, VectorRows, VectorRowsView } from "./vector-rows.ts";

/** Vectors that are read into memory between two looks at the clock, and names that are looked at. */
const readsPerFill = 64;
const namesPerFill = 4_096;

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

export class StoredVectors extends SearchedVectors {
  names: Names;
  readonly held: VectorRows;
  /** The greatest ordinal that was ever added; -1 before the first. */
  last = -1;
  readonly #options: VectorOptions;
  readonly #graphs: () => GraphSet | undefined;
  /** The first name that is still to be read into memory; undefined when none is. */
  #fillFrom: number | undefined;

  /** @param graphs the graphs that serve searches */
  constructor(options: VectorOptions, graphs: () => GraphSet | undefined) {
    const { dimension, metric, fingerprintKey, retire } = options;
    super(dimension, metrics[metric]);
    this.#options = options;
    this.#graphs = graphs;
    this.names = new Names(dimension, fingerprintKey, retire);
    const { searchers: readers, cacheMax: heldMax, mayTake } = options;
    this.held = new VectorRows({ dimension, metric, readers, heldMax, mayTake, retire });
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

  get waitingCount(): number {
    return this.held.waitingCount;
  }

  get rows(): VectorRowsView {
    return this.held.view;
  }

  /** What another thread needs to search the vectors as they are now (stored-vectors.ts). */
  get shared(): SharedVectors {
    return {
      dimension: this.dimension,
      metric: this.metric.name,
      graphs: this.graphs?.shared,
      rows: this.held.shared,
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
    return (this.graphs?.count ?? 0) + this.held.waitingCount + directionless;
  }

  has(ordinal: number): boolean {
    if (this.names.copies.nameOf(ordinal) !== absent) return true;
    return this.isName(ordinal) && !this.names.copies.isHeadless(ordinal);
  }

  isName(ordinal: number): boolean {
    if (this.held.has(ordinal) || this.graphs?.has(ordinal)) return true;
    return ordinal === this.names.directionless;
  }

  get memoryBytes(): number {
    return this.held.memoryBytes + this.names.memoryBytes;
  }

  /** Whether a name that is held has this vector. */
  isVectorOf(name: number, vector: Float32Array): boolean {
    const held = this.held.vectorOf(name);
    if (held !== undefined) return isEqualTo(held, vector);
    // For a vector that is not in memory, the code and 64 bits of its hash are compared.
    return name === this.names.directionless || (this.graphs?.reader.hasCode(name, vector) ?? false);
  }

  /** The vector of a name to link; undefined if it has no record any more or cannot be read. */
  vectorToLink(name: number): Float32Array | undefined {
    const held = this.held.vectorOf(name);
    if (held !== undefined || !this.graphs?.has(name)) return held;
    const { readVector: read } = this.#options;
    let bytes: Uint8Array | undefined;
    this.names.copies.each(name, (ordinal) => {
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
    const end = Math.min(this.last + 1, from + namesPerFill);
    let name = from;
    for (let reads = 0; name < end && reads < readsPerFill; name++) {
      if (!this.graphs?.has(name) || this.held.has(name)) continue;
      if (!this.held.mayHold()) return false;
      const vector = this.vectorToLink(name);
      if (vector !== undefined) this.held.hold(name, vector);
      reads++;
    }
    if (name <= this.last) this.#fillFrom = name;
    return this.#fillFrom !== undefined;
  }

  /** Whether vectors can be read that are not in memory. */
  get canRead(): boolean {
    return this.#options.readVector !== undefined;
  }

  /** A name has no record any more. */
  forget(name: number): void {
    if (name === this.names.directionless) this.names.directionless = absent;
    this.held.remove(name);
  }

  close(): void {
    this.names.clear();
    this.held.close();
  }
}

// ---- What does a thread know of the vectors of a dense index that another one owns?

/** What a thread needs to search the vectors of an index as they were at a time. Can be posted to it. */
export type SharedVectors = {
  readonly dimension: number;
  readonly metric: MetricName;
  readonly graphs: SharedGraphs | undefined;
  readonly rows: SharedVectorRows;
  readonly copies: SharedDuplicateVectors;
  readonly directionless: number;
  readonly count: number;
  readonly last: number;
};

export class AttachedVectors extends SearchedVectors {
  readonly graphs: AttachedGraphs | undefined;
  readonly rows: VectorRowsView;
  readonly copies: DuplicateVectorsReader;
  readonly directionless: number;
  readonly count: number;
  readonly last: number;

  /** @param slot of this thread */
  constructor({ dimension, metric, graphs, rows, copies, ...others }: SharedVectors, slot: number) {
    super(dimension, metrics[metric]);
    this.graphs = graphs && new AttachedGraphs(graphs, slot);
    this.rows = VectorRowsView.attach(this.metric, rows, slot);
    this.copies = DuplicateVectorsReader.attach(copies);
    this.directionless = others.directionless;
    this.count = others.count;
    this.last = others.last;
  }

  get waitingCount(): number {
    return this.rows.waitingCount;
  }
}
