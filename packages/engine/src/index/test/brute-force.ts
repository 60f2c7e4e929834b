// Which records are nearest to a query, by comparing all of them one by one? What dense indexes are held against.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { keepBest } from "../../base/top-k.ts";
import { readFloats } from "../../vector/floats.ts";
import { metrics } from "../../vector/metrics.ts";
import type { Candidates, Visible } from "../contract.ts";

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

  /** The k best, and what ties with the k-th. */
  search(query: Float32Array, k: number, visible: Visible): Candidates {
    const metric = metrics[this.#metric];
    const distanceTo = metric.exactDistance(query);
    const ordinals = [...this.rows.keys()].filter((ordinal) => visible === null || visible(ordinal));
    const scores = ordinals.map((ordinal) =>
      metric.score(distanceTo(this.rows.get(ordinal) as Float32Array, 0)),
    );
    return keepBest(Uint32Array.from(ordinals), Float64Array.from(scores), ordinals.length, k);
  }
}
