// Which of the vector keys found by the graphs are best by their exact scores?

import type { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { keepBest } from "../../base/top-k.ts";
import type { ExactDistance } from "../../vector/metric.ts";
import type { Candidates } from "../contract.ts";
import { readVector, type SearchedVectors, type VectorReader } from "./searched-vectors.ts";

export class Rescoring {
  readonly #vectors: SearchedVectors;
  #scores = new Float64Array(0);

  constructor(vectors: SearchedVectors) {
    this.#vectors = vectors;
  }

  /**
   * The k best of the first `depth` vector keys, with exact scores. The depth is doubled while any of the k best is in the last quarter by code.
   * So few vector keys are scored if the codes distinguish them, and more for an out-of-distribution query, to which all are about equally far.
   */
  best(
    query: Float32Array,
    vectorKeys: Growable<Uint32Array>,
    depth: number,
    k: number,
    vectorOf: VectorReader | undefined,
  ): Candidates {
    const all = vectorKeys.length;
    invariant(depth >= 1 || all === 0, () => `${depth} of ${all} vectors are scored exactly`);
    let scored = 0;
    for (let count = Math.min(depth, all); ; count = Math.min(2 * count, all)) {
      this.#score(query, vectorKeys.values, scored, count, vectorOf);
      scored = count;
      const best = keepBest(vectorKeys.values, this.#scores, count, k);
      if (count === all) return best;
      const last = best.ordinals[best.count - 1];
      const late = (3 * count) >> 2;
      let at = count - 1;
      while (at >= late && vectorKeys.values[at] !== last) at--;
      if (at < late) return best;
    }
  }

  /** Exact scores of the vector keys from `from` to `end`. */
  #score(
    query: Float32Array,
    vectorKeys: Uint32Array,
    from: number,
    end: number,
    vectorOf: VectorReader | undefined,
  ): void {
    if (this.#scores.length < end) {
      const scores = new Float64Array(2 * end);
      scores.set(this.#scores);
      this.#scores = scores;
    }
    const scores = from === 0 ? this.#scores : this.#scores.subarray(from);
    const some = from === 0 ? vectorKeys : vectorKeys.subarray(from);
    const count = end - from;
    this.#vectors.rows.distancesOf(query, some, count, scores);
    let distanceTo: ExactDistance | undefined;
    for (let i = 0; i < count; i++) {
      if (Number.isNaN(scores[i])) {
        distanceTo ??= this.#vectors.metric.exactDistance(query);
        scores[i] = distanceTo(readVector(some[i], vectorOf), 0);
      }
      scores[i] = this.#vectors.metric.score(scores[i]);
    }
  }
}
