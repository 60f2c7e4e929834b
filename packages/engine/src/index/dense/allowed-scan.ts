// Which of a few allowed records are nearest to a query?
//
// Only their vectors are compared: those in memory, and others as they are read. The scan uses records rather than vector keys, so duplicates and the
// vector without direction need no special handling, and the result is exact. Between two steps the index may change: the vectors of the
// records that the searched version sees remain where they were, or can be read.

import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { Candidates, Visible } from "../contract.ts";
import type { OrdinalBitmap } from "../ordinal-bitmap.ts";
import { absent } from "../ordinal-map.ts";
import { firstFrom, type OrdinalSet } from "../ordinal-sets.ts";
import { BestSoFar } from "./exact-search.ts";
import { readVector, type SearchedVectors, type VectorReader } from "./searched-vectors.ts";
import type { VectorRowsView } from "./vector-rows.ts";

/** Records whose vectors are compared at a step, and how many of them a vector that is read counts for. */
const recordsPerStep = 1_024;
const recordsPerRead = 32;
/** Records that are looked for at a time. */
const pieceLength = 128;

/**
 * Records of a piece whose vectors are in memory, with the vector keys of those and their distances to one query. A piece is compared without a
 * pause, so that all scans of a thread use the same arrays: to make them took longer than to compare a hundred records.
 */
const held = {
  records: new Uint32Array(pieceLength),
  vectorKeys: new Uint32Array(pieceLength),
  distances: new Float64Array(pieceLength),
};

export class AllowedScan {
  readonly #vectors: SearchedVectors;
  /** Those there were when the search began: its version sees no more. */
  readonly #rows: VectorRowsView;
  readonly #graphs: SearchedVectors["graphs"];
  readonly #queries: readonly Float32Array[];
  readonly #ordinals: OrdinalSet;
  readonly #visible: () => Visible;
  readonly #vectorOf: VectorReader | undefined;
  readonly #best: readonly BestSoFar[];

  /**
   * @param queries vectors of `dimension` finite values, borrowed
   * @param k at least 1
   * @param visible returns the visibility test; called at the start of each step
   * @param vectorOf reads the vector of a record that is not in memory; needed if not all are
   */
  constructor(
    vectors: SearchedVectors,
    queries: readonly Float32Array[],
    k: number,
    allowed: OrdinalBitmap,
    visible: () => Visible,
    vectorOf?: VectorReader,
  ) {
    invariant(k >= 1, () => `the ${k} nearest of ${allowed.count} records are searched`);
    this.#vectors = vectors;
    this.#rows = vectors.rows;
    this.#graphs = vectors.graphs;
    this.#queries = queries;
    const ordinals = allowed.toOrdinals();
    // The searched version does not see records that are added later.
    this.#ordinals = ordinals.subarray(0, firstFrom(ordinals, vectors.last + 1));
    this.#visible = visible;
    this.#vectorOf = vectorOf;
    this.#best = queries.map(
      (query) => new BestSoFar(vectors.metric.exactDistance(query), k, this.#ordinals.length),
    );
  }

  /** The results of each query. The index may change between two steps. */
  *search(): Steps<Candidates[]> {
    let visible = this.#visible();
    let passed = 0;
    for (let at = 0; at < this.#ordinals.length; at += pieceLength) {
      const end = Math.min(at + pieceLength, this.#ordinals.length);
      passed += end - at + recordsPerRead * this.#comparePiece(at, end, visible);
      if (passed < recordsPerStep || end === this.#ordinals.length) continue;
      passed = 0;
      yield;
      visible = this.#visible();
    }
    return this.#best.map((best) => best.best());
  }

  /** Compares the records from one place to another in the list; returns how many vectors were read. */
  #comparePiece(from: number, end: number, visible: Visible): number {
    const { duplicates, directionless } = this.#vectors;
    let count = 0;
    let read = 0;
    for (let i = from; i < end; i++) {
      const record = this.#ordinals[i];
      const copied = duplicates.vectorKeyOf(record);
      if (copied === absent && duplicates.isHeadless(record)) continue;
      if (visible !== null && !visible(record)) continue;
      const vectorKey = copied === absent ? record : copied;
      if (this.#rows.has(vectorKey)) {
        held.records[count] = record;
        held.vectorKeys[count++] = vectorKey;
      } else if (vectorKey === directionless) this.#take(record, new Float32Array(this.#vectors.dimension));
      else if (this.#graphs?.has(vectorKey)) {
        this.#take(record, readVector(record, this.#vectorOf));
        read++;
      }
    }
    this.#compareHeld(count);
    return read;
  }

  #compareHeld(count: number): void {
    if (count === 0) return;
    const { records, vectorKeys, distances } = held;
    const { metric } = this.#vectors;
    for (const [i, query] of this.#queries.entries()) {
      this.#rows.distancesOf(query, vectorKeys, count, distances);
      for (let j = 0; j < count; j++) {
        let distance = distances[j];
        // The thread that owns the vector has copied its row meanwhile.
        if (Number.isNaN(distance))
          distance = this.#best[i].distanceTo(readVector(records[j], this.#vectorOf), 0);
        this.#best[i].take(records[j], metric.score(distance));
      }
    }
  }

  #take(record: number, vector: Float32Array): void {
    const { metric } = this.#vectors;
    for (const best of this.#best) best.take(record, metric.score(best.distanceTo(vector, 0)));
  }
}
