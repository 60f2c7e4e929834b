// Which of a few allowed records are nearest to a query?
//
// Only their vectors are compared, wherever they are: in the tail, in the cache, or read by the caller. The scan uses records rather than
// names, so copies and the vector without direction need no special handling, and the result is exact. Between two steps the index may
// change: the records that the searched version sees remain, and are located again for each step.

import { bytesOfFloats } from "../../vector/floats.ts";
import { type Candidates, nothing, type Visible } from "../contract.ts";
import type { OrdinalBitmap } from "../ordinal-bitmap.ts";
import { absent } from "../ordinal-map.ts";
import { firstFrom, type OrdinalSet } from "../ordinal-sets.ts";
import { BestSoFar, readVector, type SteppedSearch, type VectorReader } from "./exact-search.ts";
import type { SearchedVectors } from "./searched-vectors.ts";
import type { TailView } from "./tail.ts";

/** Records whose vectors are compared between two looks at the clock, and how many of them a vector that is read counts for. */
const recordsPerLook = 1_024;
const recordsPerRead = 32;
/** Records that are looked for at a time. */
const pieceLength = 128;

/** Records of a piece that are in one place, with the names of their vectors. */
class Held {
  readonly records = new Uint32Array(pieceLength);
  readonly names = new Uint32Array(pieceLength);
  count = 0;

  push(record: number, name: number): void {
    this.records[this.count] = record;
    this.names[this.count++] = name;
  }
}

export class AllowedScan implements SteppedSearch {
  readonly #vectors: SearchedVectors;
  /** The places where the search began to look: later ones have no more that its version sees. */
  readonly #tail: TailView;
  readonly #graphs: SearchedVectors["graphs"];
  readonly #queries: readonly Float32Array[];
  readonly #ordinals: OrdinalSet;
  readonly #visible: () => Visible;
  readonly #vectorOf: VectorReader | undefined;
  readonly #best: readonly BestSoFar[];
  readonly #inGraphs = new Held();
  readonly #inTail = new Held();
  readonly #distances = new Float64Array(pieceLength);
  #at = 0;

  /**
   * @param queries vectors of `dimension` finite values, borrowed
   * @param k at least 1
   * @param visible returns the visibility test; called at the start of each step
   * @param vectorOf reads the vector of a record that is not in the cache; needed if not all are
   */
  constructor(
    vectors: SearchedVectors,
    queries: readonly Float32Array[],
    k: number,
    allowed: OrdinalBitmap,
    visible: () => Visible,
    vectorOf?: VectorReader,
  ) {
    this.#vectors = vectors;
    this.#tail = vectors.tailView;
    this.#graphs = vectors.graphs;
    this.#queries = queries;
    const ordinals = allowed.toOrdinals();
    // The searched version does not see records that are added later.
    this.#ordinals = ordinals.subarray(0, firstFrom(ordinals, vectors.last + 1));
    this.#visible = visible;
    this.#vectorOf = vectorOf;
    this.#best = queries.map((query) => new BestSoFar(vectors.metric.exactDistance(query), k));
  }

  run(isTimeOver: () => boolean): boolean {
    const visible = this.#visible();
    let passed = 0;
    while (this.#at < this.#ordinals.length) {
      const end = Math.min(this.#at + pieceLength, this.#ordinals.length);
      passed += end - this.#at + recordsPerRead * this.#comparePiece(this.#at, end, visible);
      this.#at = end;
      if (passed < recordsPerLook) continue;
      if (isTimeOver()) return this.#at === this.#ordinals.length;
      passed = 0;
    }
    return true;
  }

  finish(): Candidates[] {
    return this.#best.map((best) => best.best());
  }

  end(): void {}

  /** Compares the records from one place to another in the list; returns how many vectors were read. */
  #comparePiece(from: number, end: number, visible: Visible): number {
    const { copies, directionless } = this.#vectors;
    const tail = this.#tail;
    const [inTail, inGraphs] = [this.#inTail, this.#inGraphs];
    inTail.count = 0;
    inGraphs.count = 0;
    let read = 0;
    for (let i = from; i < end; i++) {
      const record = this.#ordinals[i];
      const copied = copies.nameOf(record);
      if (copied === absent && copies.isHeadless(record)) continue;
      if (visible !== null && !visible(record)) continue;
      const name = copied === absent ? record : copied;
      if (tail.has(name)) inTail.push(record, name);
      else if (this.#graphs?.has(name) && this.#vectors.holds(name)) inGraphs.push(record, name);
      else if (name === directionless) this.#take(record, new Float32Array(this.#vectors.dimension));
      else if (this.#graphs?.has(name)) {
        this.#take(record, this.#read(record, name));
        read++;
      }
    }
    this.#compareHeld(tail, inTail);
    this.#compareHeld(this.#vectors, inGraphs);
    return read;
  }

  #compareHeld(held: SearchedVectors | TailView, { records, names, count }: Held): void {
    if (count === 0) return;
    const { metric } = this.#vectors;
    for (const [i, query] of this.#queries.entries()) {
      held.distancesOf(query, names, count, this.#distances);
      for (let j = 0; j < count; j++) {
        let distance = this.#distances[j];
        // The thread that owns the vector has moved it meanwhile.
        if (Number.isNaN(distance)) distance = this.#best[i].distanceTo(this.#read(records[j], names[j]), 0);
        this.#best[i].take(records[j], metric.score(distance));
      }
    }
  }

  #take(record: number, vector: Float32Array): void {
    const { metric } = this.#vectors;
    for (const best of this.#best) best.take(record, metric.score(best.distanceTo(vector, 0)));
  }

  /** Reads a vector that is not in memory, and adds it to the cache if that has room. */
  #read(record: number, name: number): Float32Array {
    const vector = readVector(record, this.#vectorOf);
    if (this.#vectors.mayCache()) this.#vectors.cache.add(name, bytesOfFloats(vector));
    return vector;
  }
}

/** A search that is done before it begins. */
export function finished(answers: readonly Candidates[]): SteppedSearch {
  return { run: () => true, finish: () => [...answers], end: () => {} };
}

/** A search for several queries that finds nothing. */
export const nothingFor = (queries: readonly Float32Array[]): SteppedSearch =>
  finished(queries.map(() => nothing));
