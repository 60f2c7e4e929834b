// Does a search in steps miss nothing while records are added, removed and moved?

import { randomNumbers } from "@quiverdb/kernels/random";
import { type MetricName, metricNames } from "@quiverdb/protocol/shapes/index-definition";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LateBuilders } from "../../../test/index/dense/late-builders.ts";
import { asMap } from "../../../test/index/reference.ts";
import type { Steps } from "../../base/steps.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { exactScore } from "../../vector/metric.ts";
import type { Candidates, Visible } from "../contract.ts";
import { efMax } from "./graph-layout.ts";
import { HnswIndex } from "./hnsw-index.ts";

const dimension = 6;
const k = 7;

/** An index with a version of it that a search sees, and what happens meanwhile. */
class Scene {
  readonly builders = new LateBuilders();
  readonly index: HnswIndex;
  readonly #next: () => number;
  /** Every record that was ever added. */
  readonly #rows: Float32Array[] = [];
  readonly #died = new Set<number>();
  #end = 0;
  #changes = 0;

  constructor(metric: MetricName, cacheMax: number, seed: number, count: number, jobs: number) {
    this.#next = randomNumbers(seed);
    this.index = new HnswIndex({
      dimension,
      metric,
      dataType: "f32",
      sampleCount: 100,
      memoryBytesMax: 2 ** 24,
      cacheMax,
      builders: this.builders,
    });
    for (let i = 0; i < count; i++) this.add();
    for (let i = 0; i < jobs; i++) this.builders.work();
    this.#end = count;
    for (let i = 0; i < count / 10; i++) this.#die();
  }

  vector(): Float32Array {
    return Float32Array.from({ length: dimension }, () => Math.round(8 * this.#next()) - 4);
  }

  add(): void {
    const row = this.vector();
    this.index.add(this.#rows.length, bytesOfFloats(row));
    this.#rows.push(row);
  }

  #die(): void {
    const ordinal = Math.floor(this.#next() * this.#end);
    this.index.retire(ordinal);
    this.#died.add(ordinal);
  }

  /** Valid until the next change. */
  readonly visible = (): Visible => {
    const changes = this.#changes;
    return (ordinal) => {
      if (changes !== this.#changes) throw new Error("a visibility test of an earlier step is used");
      return ordinal < this.#end && !this.#died.has(ordinal);
    };
  };

  readonly vectorOf = (ordinal: number): Float32Array => {
    if (ordinal >= this.#rows.length) throw new Error(`ordinal ${ordinal} is read`);
    return this.#rows[ordinal];
  };

  /** A random change that does not affect the results. */
  change(): void {
    const draw = this.#changes++ === 0 ? 0 : this.#next();
    if (draw < 0.3) this.builders.work();
    else if (draw < 0.5) this.add();
    else if (draw < 0.8)
      this.index.reader.search(this.vector(), k, {
        ef: 16,
        visible: this.visible(),
        vectorOf: this.vectorOf,
      });
    else
      for (const ordinal of this.#died) {
        this.index.remove(ordinal);
        break;
      }
  }

  /** Does a search in the smallest steps, with changes between them. */
  answer(search: Steps<Candidates[]>): Map<number, number>[] {
    for (;;) {
      const step = search.next();
      if (step.done) return step.value.map(asMap);
      for (let i = 0; i < 3; i++) this.change();
    }
  }

  /** The k best of all that is seen, and what ties with the k-th. */
  truth(query: Float32Array): Map<number, number> {
    const scored = this.#rows
      .map((row, ordinal) => [ordinal, exactScore(this.index.metric, query, row)] as const)
      .filter(([ordinal]) => ordinal < this.#end && !this.#died.has(ordinal))
      .sort((a, b) => b[1] - a[1]);
    const floor = scored[Math.min(k, scored.length) - 1][1];
    return new Map(scored.filter(([, score]) => score >= floor));
  }
}

const scenes = {
  cacheMax: fc.constantFrom(0, 30, 400, Number.POSITIVE_INFINITY),
  seed: fc.nat(),
  jobs: fc.nat(60),
};

describe.each(metricNames)("%s", (metric) => {
  test("[Q20] an exact search in steps finds the records at its start, whatever is linked, copied, dropped, added and removed meanwhile", () => {
    fc.assert(
      fc.property(fc.record(scenes), ({ cacheMax, seed, jobs }) => {
        const scene = new Scene(metric, cacheMax, seed, 3_000, jobs);
        const queries = [scene.vector(), scene.vector(), scene.vector()];
        const search = scene.index.reader.beginExactly(queries, k, scene.visible, scene.vectorOf);
        expect(scene.answer(search)).toEqual(queries.map((query) => scene.truth(query)));
        scene.index.close();
      }),
      { numRuns: 8, seed: 1 },
    );
  });

  test("[Q20] a search whose waiting vectors are scanned in steps finds what waited", () => {
    fc.assert(
      fc.property(fc.record(scenes), ({ cacheMax, seed, jobs }) => {
        const scene = new Scene(metric, cacheMax, seed, 3_000, jobs);
        const query = scene.vector();
        // A beam of this width visits every node, and everything that it visits is scored exactly.
        const options = { ef: efMax, rescore: efMax, vectorOf: scene.vectorOf };
        const search = scene.index.reader.begin(query, k, scene.visible, options);
        expect(scene.answer(search)).toEqual([scene.truth(query)]);
        scene.index.close();
      }),
      { numRuns: 8, seed: 1 },
    );
  });
});
