// Dense searches among allowed ordinals: exact ones have the k best of these, and the graph never fewer than k.

import assert from "node:assert/strict";
import { seedsMax } from "@quiverdb/kernels/hnsw";
import { randomNumbers } from "@quiverdb/kernels/random";
import { type MetricName, metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { describe, expect, test } from "vitest";
import { allowedSets, bitmapOf } from "../../../test/index/allowed-sets.ts";
import { bestOf } from "../../../test/index/best-of.ts";
import { LateBuilders } from "../../../test/index/dense/late-builders.ts";
import { asMap, expectSame } from "../../../test/index/reference.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { exactScore } from "../../vector/metric.ts";
import type { Candidates, Visible } from "../contract.ts";
import type { OrdinalBitmap } from "../ordinal-bitmap.ts";
import { absent, OrdinalMap } from "../ordinal-map.ts";
import { AllowedNodes } from "./allowed-nodes.ts";
import { HnswIndex } from "./hnsw-index.ts";
import type { HnswOptions } from "./hnsw-options.ts";
import { nodesOf } from "./node-map.ts";

const dimension = 12;
const centreCount = 8;

/** Clustered vectors, with duplicates, and the zero vector now and then. */
class Scene {
  readonly index: HnswIndex;
  readonly rows = new Map<number, Float32Array>();
  readonly retired = new Set<number>();
  readonly next = randomNumbers(5);
  readonly centres = Array.from({ length: centreCount }, () => this.#normal(4));
  readonly #options: HnswOptions;
  #last = -1;

  constructor(metric: MetricName, options: Partial<HnswOptions>) {
    this.#options = {
      dimension,
      metric,
      dataType: "u8",
      sampleCount: 200,
      memoryBytesMax: 2 ** 26,
      readVector: (ordinal) => bytesOfFloats(this.vectorOf(ordinal)),
      ...options,
    };
    this.index = new HnswIndex(this.#options);
  }

  #normal(length: number): Float32Array {
    const sum = () => this.next() + this.next() + this.next() + this.next() - 2;
    return Float32Array.from({ length: dimension }, () => length * sum());
  }

  /** A vector near a centre. */
  near(centre: number): Float32Array {
    const noise = this.#normal(1);
    return this.centres[centre].map((value, i) => value + noise[i]);
  }

  add(row: Float32Array): number {
    this.#last += this.next() < 0.05 ? 3 : 1;
    this.index.add(this.#last, bytesOfFloats(row));
    this.rows.set(this.#last, row);
    return this.#last;
  }

  fill(count: number): void {
    const known: Float32Array[] = [];
    for (let i = 0; i < count; i++) {
      const draw = this.next();
      const row =
        draw < 0.1 && known.length > 0
          ? known[Math.floor(this.next() * known.length)]
          : draw < 0.11
            ? new Float32Array(dimension)
            : this.near(Math.floor(this.next() * centreCount));
      known.push(row);
      this.add(row);
    }
  }

  removeSome(share: number): void {
    for (const ordinal of [...this.rows.keys()]) {
      if (this.next() >= share) continue;
      this.index.remove(ordinal);
      this.rows.delete(ordinal);
    }
  }

  retireSome(share: number): void {
    for (const ordinal of this.rows.keys()) {
      if (this.next() >= share) continue;
      this.index.retire(ordinal);
      this.retired.add(ordinal);
    }
  }

  readonly vectorOf = (ordinal: number): Float32Array => {
    const row = this.rows.get(ordinal);
    if (row === undefined) throw new Error(`ordinal ${ordinal} is read, which is gone`);
    return row;
  };

  /** The visible records of two versions: all, and those that were neither retired nor added last. */
  versions(): Visible[] {
    const end = this.#last - 150;
    return [null, (ordinal) => ordinal < end && !this.retired.has(ordinal)];
  }

  get ordinals(): number[] {
    return [...this.rows.keys()];
  }

  scored(query: Float32Array, visible: Visible, allowed: OrdinalBitmap): Map<number, number> {
    const scored = new Map<number, number>();
    for (const [ordinal, row] of this.rows)
      if (allowed.has(ordinal) && (visible === null || visible(ordinal)))
        scored.set(ordinal, exactScore(this.index.metric, query, row));
    return scored;
  }

  /** An approximate result has exact scores, only permitted records, and never fewer than required. */
  expectFair(found: ReadonlyMap<number, number>, scored: ReadonlyMap<number, number>, k: number): void {
    for (const [ordinal, score] of found) assert.equal(score, scored.get(ordinal));
    expect(found.size).toBeGreaterThanOrEqual(Math.min(k, scored.size));
  }
}

/** Does a search in the smallest steps. */
function inSteps(search: Steps<Candidates[]>): Map<number, number>[] {
  return finishAtOnce(search).map(asMap);
}

const storages = [
  { name: "all in memory", cacheMax: Number.POSITIVE_INFINITY, jobs: Number.POSITIVE_INFINITY },
  { name: "none in memory", cacheMax: 0, jobs: Number.POSITIVE_INFINITY },
  { name: "a part in memory, and a part not linked yet", cacheMax: 300, jobs: 3 },
  { name: "nothing linked yet", cacheMax: 0, jobs: 0 },
];

describe.each(metricNames)("%s", (metric) => {
  test.each(storages)("every kind of search is right for every set, $name", ({ cacheMax, jobs }) => {
    const builders = new LateBuilders();
    const scene = new Scene(metric, { cacheMax, builders, measures: false });
    const { index, vectorOf } = scene;
    scene.fill(900);
    for (let job = 0; job < jobs && index.tailCount > 0; job++) builders.work();
    scene.removeSome(0.1);
    scene.retireSome(0.05);
    scene.fill(200);
    while (jobs === Number.POSITIVE_INFINITY && index.tailCount > 0) builders.work();
    expect(index.tailCount > 0).toBe(jobs < Number.POSITIVE_INFINITY);
    // By cosine the zero vector is in no graph.
    const linked = index.vectorCount - index.tailCount - (metric === "cosine" ? 1 : 0);
    expect(linked > 0).toBe(jobs > 0);
    const queries = [scene.near(0), new Float32Array(dimension)];
    for (const visible of scene.versions())
      for (const { allowed } of allowedSets(scene.ordinals, scene.next)) {
        const truths = queries.map((query) => scene.scored(query, visible, allowed));
        for (const k of [1, 60]) {
          const exact = inSteps(index.reader.beginExactly(queries, k, () => visible, vectorOf, allowed));
          for (const [i, query] of queries.entries()) {
            const best = bestOf(truths[i], k);
            expectSame(exact[i], best);
            expectSame(asMap(index.reader.searchExactly(query, k, visible, vectorOf, allowed)), best);
            for (const way of [undefined, "graph", "scan"] as const) {
              const options = { ef: 32, allowed, vectorOf, way };
              scene.expectFair(asMap(index.reader.search(query, k, { ...options, visible })), truths[i], k);
              scene.expectFair(
                inSteps(index.reader.begin(query, k, () => visible, options))[0],
                truths[i],
                k,
              );
            }
          }
        }
      }
  });

  test("sets that lie where the query is, or far from it, are searched as well as all", () => {
    const scene = new Scene(metric, { dataType: "f32", measures: false });
    const clusters = Array.from({ length: 4_000 }, (_, i) => i % centreCount);
    const ordinals = clusters.map((centre) => scene.add(scene.near(centre)));
    const far = (centre: number) => bitmapOf(ordinals.filter((_, i) => clusters[i] !== centre));
    const near = (centre: number) => bitmapOf(ordinals.filter((_, i) => clusters[i] === centre));
    const other = (centre: number) => near((centre + 1) % centreCount);
    for (const setOf of [near, far, other]) {
      let met = 0;
      for (const way of [undefined, "graph"] as const)
        for (let i = 0; i < 24; i++) {
          const centre = i % centreCount;
          const query = scene.near(centre);
          const allowed = setOf(centre);
          const best = bestOf(scene.scored(query, null, allowed), 10);
          const found = asMap(scene.index.reader.search(query, 10, { ef: 64, allowed, way }));
          expect(found.size).toBeGreaterThanOrEqual(10);
          for (const ordinal of found.keys()) if (best.has(ordinal)) met++;
        }
      expect(met / 480).toBeGreaterThan(0.97);
    }
  });
});

test("a set that is used again is searched among its own nodes, also after records came and went", () => {
  const scene = new Scene("euclidean", { measures: false });
  scene.fill(6_000);
  const { reader } = scene.index;
  let [met, expected] = [0, 0];
  for (const share of [0.5, 0.2, 0.1]) {
    const allowed = bitmapOf(scene.ordinals.filter(() => scene.next() < share));
    const first = reader.estimate(allowed, 10, 32).graphUs;
    for (let i = 0; i < 60; i++) {
      const query = scene.near(i % centreCount);
      // Some are not allowed, some are gone.
      if (i % 20 === 19) {
        scene.add(scene.near(i % centreCount));
        scene.removeSome(0.01);
      }
      const scored = scene.scored(query, null, allowed);
      const found = asMap(reader.search(query, 10, { ef: 32, allowed, way: "graph" }));
      scene.expectFair(found, scored, 10);
      const best = bestOf(scored, 10);
      for (const ordinal of best.keys()) if (found.has(ordinal)) met++;
      expected += best.size;
    }
    // Finding the nodes costs nothing any more.
    expect(reader.estimate(allowed, 10, 32).graphUs).toBeLessThan(first);
  }
  expect(met / expected).toBeGreaterThan(0.97);
});

test("nodes of a set are each there once, with seeds among them", () => {
  const next = randomNumbers(8);
  const slots = 3_000;
  // Nodes in any order, records without a node, pages without a record, and duplicates that have no place of their own.
  const places = new OrdinalMap();
  const vectorKeys = new Map<number, number>();
  const nodes = new Map<number, number>();
  const free = Array.from({ length: slots }, (_, node) => node).sort(() => next() - 0.5);
  for (let ordinal = 0; ordinal < 8_000; ordinal += ordinal === 1_500 ? 3_000 : 1) {
    const draw = next();
    const known = [...nodes.keys()];
    if (draw < 0.1 && known.length > 0) {
      const vectorKey = known[Math.floor(next() * known.length)];
      if (vectorKeys.has(vectorKey)) continue;
      vectorKeys.set(ordinal, vectorKey);
      nodes.set(ordinal, nodes.get(vectorKey) as number);
    } else if (draw < 0.9 && free.length > 0) {
      const node = free.pop() as number;
      // The only graph need not be the first partition.
      places.set(ordinal, 3 * 2 ** 24 + node);
      nodes.set(ordinal, node);
    }
  }
  const ordinals = [...nodes.keys(), 8_001, 20_000];
  expect(vectorKeys.size).toBeGreaterThan(100);
  for (const share of [0, 0.01, 0.3, 0.9, 1]) {
    const wanted = ordinals.filter(() => next() < share);
    // Others are linked meanwhile.
    let there = 100;
    const now = () => {
      const before = there;
      there = slots;
      return before;
    };
    const made = new AllowedNodes(
      nodesOf(now, bitmapOf(wanted), places, (ordinal) => vectorKeys.get(ordinal) ?? absent),
    );
    const expected = new Set(wanted.flatMap((ordinal) => nodes.get(ordinal) ?? []));
    expect(made.count).toBe(expected.size);
    for (let node = 0; node < slots; node++)
      assert.equal(((made.bits[node >> 3] ?? 0) >> (node & 7)) & 1, expected.has(node) ? 1 : 0);
    expect([...made.seeds].every((node) => expected.has(node))).toBe(true);
    expect(new Set(made.seeds).size).toBe(Math.min(seedsMax, expected.size));
    const alone = new AllowedNodes(nodesOf(() => slots, bitmapOf(wanted), places, null));
    expect(alone.count).toBe(wanted.filter((ordinal) => places.get(ordinal) !== absent).length);
  }
});

test("several graphs are searched as one", () => {
  const scene = new Scene("euclidean", { measures: false, memoryBytesMax: 2 ** 19, dataType: "u8" });
  scene.fill(6_000);
  expect(scene.index.partitionCount).toBeGreaterThan(1);
  for (const { allowed } of allowedSets(scene.ordinals, scene.next)) {
    const query = scene.near(2);
    const scored = scene.scored(query, null, allowed);
    for (const k of [1, 30])
      scene.expectFair(
        asMap(scene.index.reader.search(query, k, { ef: 40, allowed, way: "graph" })),
        scored,
        k,
      );
  }
});

test("few are compared, many are found by links: both ways are taken", () => {
  const scene = new Scene("euclidean", { measures: false });
  scene.fill(6_000);
  const { index } = scene;
  const first = (count: number) => bitmapOf(scene.ordinals.slice(0, count));
  const [few, half] = [index.reader.estimate(first(20), 10, 32), index.reader.estimate(first(3_000), 10, 32)];
  expect(few.allowedUs).toBeLessThan(few.graphUs);
  expect(half.graphUs).toBeLessThan(Math.min(half.allowedUs, half.allUs));
  expect(few.allUs).toBe(half.allUs);
});

test("records that are added and removed while few allowed ones are compared do not change the result", () => {
  const scene = new Scene("cosine", { cacheMax: 100, measures: false });
  scene.fill(2_000);
  scene.retireSome(0.1);
  const { index, vectorOf } = scene;
  const seen = new Set(scene.ordinals.filter((ordinal) => !scene.retired.has(ordinal)));
  const visible: Visible = (ordinal) => seen.has(ordinal);
  const allowed = bitmapOf(scene.ordinals.filter((ordinal) => ordinal % 3 === 0));
  const query = scene.near(1);
  const best = bestOf(scene.scored(query, visible, allowed), 10);
  const search = index.reader.beginExactly([query], 10, () => visible, vectorOf, allowed);
  let steps = 0;
  let step = search.next();
  for (; !step.done; step = search.next(), steps++) {
    scene.fill(30);
    for (const ordinal of scene.retired) {
      index.remove(ordinal);
      scene.retired.delete(ordinal);
      break;
    }
  }
  expect(steps).toBeGreaterThan(2);
  expectSame(asMap(step.value[0]), best);
});
