// How are all vectors of a dense index read, in steps between which the index changes?
//
// Those in memory are scanned as they were when the search began (vector-rows.ts). Where that are not all, a pass over the ordinals reads the
// vectors of graphs that have no row, and compares each at once with every query: what a version sees was in a row then, or in a graph. A
// vector that is met twice, because its row was copied meanwhile, counts once.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import { keepBest } from "../../base/top-k.ts";
import type { ExactDistance, Metric } from "../../vector/metric.ts";
import { bestOf, type Candidates, type Visible } from "../contract.ts";
import type { RowScan } from "./row-scan.ts";
import { readVector, type SearchedVectors, type VectorReader } from "./searched-vectors.ts";
import type { VectorRowsView } from "./vector-rows.ts";

/** Ordinals that are passed at a step, and how many of them a vector that is read counts for. */
const ordinalsPerStep = 4_096;
const ordinalsPerRead = 128;

/** The best results of one query among the vectors that are compared one by one. */
export class BestSoFar {
  readonly #k: number;
  readonly #ordinals: Growable<Uint32Array>;
  readonly #scores: Growable<Float64Array>;
  readonly distanceTo: ExactDistance;
  #keepAt: number;

  /** @param takenMax vectors that are compared at most, if that is known */
  constructor(distanceTo: ExactDistance, k: number, takenMax?: number) {
    this.distanceTo = distanceTo;
    this.#k = k;
    this.#keepAt = Math.max(4_096, 2 * k);
    const capacity = takenMax && Math.min(takenMax, this.#keepAt);
    this.#ordinals = new Growable(Uint32Array, capacity);
    this.#scores = new Growable(Float64Array, capacity);
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

export class ExactSearch {
  readonly #rows: VectorRowsView;
  readonly #graphs: SearchedVectors["graphs"];
  readonly #metric: Metric;
  readonly #k: number;
  readonly #visible: () => Visible;
  readonly #vectorOf: VectorReader | undefined;
  readonly #outside: readonly BestSoFar[];
  readonly #scans: readonly RowScan[];
  /** Where the pass over the ordinals ends. */
  readonly #ordinalEnd: number;

  /**
   * @param queries vectors of `dimension` finite values, borrowed
   * @param k at least 1
   * @param visible returns the visibility test; called at the start of each step
   * @param vectorOf reads vectors that are not in memory; needed if not all are
   */
  constructor(
    { rows, graphs, metric, last }: SearchedVectors,
    queries: readonly Float32Array[],
    k: number,
    visible: () => Visible,
    vectorOf?: VectorReader,
  ) {
    invariant(
      k >= 1 && queries.length > 0,
      () => `the ${k} nearest of ${queries.length} queries are searched`,
    );
    this.#rows = rows;
    this.#graphs = graphs;
    this.#metric = metric;
    this.#k = k;
    this.#visible = visible;
    this.#vectorOf = vectorOf;
    this.#outside = queries.map((query) => new BestSoFar(metric.exactDistance(query), k));
    this.#scans = queries.map((query) => rows.scanAll(query, k, visible));
    this.#ordinalEnd = rows.linkedCount === (graphs?.count ?? 0) ? 0 : last + 1;
  }

  /** The results of each query. The index may change between two steps. */
  *search(): Steps<Candidates[]> {
    yield* this.#readOthers();
    const found: Candidates[] = [];
    for (const [i, scan] of this.#scans.entries())
      found.push(bestOf([this.#outside[i].best(), yield* scan.search()], this.#k));
    return found;
  }

  /** Compares the vectors of graphs that have no row. */
  *#readOthers(): Steps<void> {
    let visible = this.#visible();
    let passed = 0;
    for (let vectorKey = 0; vectorKey < this.#ordinalEnd; vectorKey++) {
      const isOutside = this.#graphs?.has(vectorKey) === true && !this.#rows.has(vectorKey);
      if (isOutside && (visible === null || visible(vectorKey))) {
        const vector = readVector(vectorKey, this.#vectorOf);
        for (const outside of this.#outside)
          outside.take(vectorKey, this.#metric.score(outside.distanceTo(vector, 0)));
        passed += ordinalsPerRead;
      }
      if (++passed < ordinalsPerStep) continue;
      passed = 0;
      yield;
      visible = this.#visible();
    }
  }
}
