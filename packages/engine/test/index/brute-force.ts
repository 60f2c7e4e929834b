// Which records are nearest to a query, by comparing all of them one by one? What dense indexes are held against.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { keepBest } from "../../src/base/top-k.ts";
import type { Candidates, Visible } from "../../src/index/contract.ts";
import { readFloats } from "../../src/vector/floats.ts";
import { exactScore, metrics } from "../../src/vector/metric.ts";

export class BruteForce {
  readonly rows = new Map<number, Float32Array>();
  readonly #metric: MetricName;

  constructor({ metric }: { metric: MetricName }) {
    this.#metric = metric;
  }

  get count(): number {
    return this.rows.size;
  }

  add(ordinal: number, values: Uint8Array): void {
    this.rows.set(ordinal, readFloats(values));
  }

  retire(_ordinal: number): void {}

  remove(ordinal: number): void {
    this.rows.delete(ordinal);
  }

  /** The scores of all visible records. */
  scored(query: Float32Array, visible: Visible): Map<number, number> {
    const scored = new Map<number, number>();
    for (const [ordinal, values] of this.rows)
      if (visible === null || visible(ordinal))
        scored.set(ordinal, exactScore(metrics[this.#metric], query, values));
    return scored;
  }

  /** The k best, and what ties with the k-th. */
  search(query: Float32Array, k: number, visible: Visible): Candidates {
    const scored = this.scored(query, visible);
    return keepBest(Uint32Array.from(scored.keys()), Float64Array.from(scored.values()), scored.size, k);
  }
}
