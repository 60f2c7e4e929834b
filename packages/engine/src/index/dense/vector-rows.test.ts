import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { finishAtOnce } from "../../base/steps.ts";
import { keepBest } from "../../base/top-k.ts";
import { exactScore, metrics } from "../../vector/metric.ts";
import { VectorRows, VectorRowsView } from "./vector-rows.ts";

const dimension = 5;
const metric = metrics.euclidean;
const vectorOf = (vectorKey: number) =>
  Float32Array.from({ length: dimension }, (_, i) => Math.sin((vectorKey % 40) * (i + 1)) + (vectorKey % 3));
const query = Float32Array.from([0.1, 0.5, -0.2, 0.9, 0.3]);

const asMap = ({
  count,
  ordinals,
  scores,
}: {
  count: number;
  ordinals: ArrayLike<number>;
  scores: ArrayLike<number>;
}) => new Map(Array.from({ length: count }, (_, i) => [ordinals[i], scores[i]] as const));

function bestOf(vectorKeys: readonly number[], k: number): Map<number, number> {
  const scores = Float64Array.from(vectorKeys, (vectorKey) => exactScore(metric, query, vectorOf(vectorKey)));
  return asMap(keepBest(Uint32Array.from(vectorKeys), scores, vectorKeys.length, k));
}

type Act = { kind: "add" | "link" | "remove" | "view" | "compact" | "giveUp"; at: number };
const act = fc.record({
  kind: fc.constantFrom("add", "add", "add", "add", "link", "link", "remove", "view", "compact"),
  at: fc.nat(),
}) as fc.Arbitrary<Act>;
/** Some of one kind, so that blocks are filled, copied and dropped. */
const many = fc
  .record({ kind: fc.constantFrom("add", "link", "remove", "compact", "giveUp"), times: fc.nat(600) })
  .map(({ kind, times }) => Array.from({ length: kind === "giveUp" ? 1 : times }, (_, at) => ({ kind, at })));
const acts = fc
  .array(fc.oneof(fc.array(act, { maxLength: 40 }), many), { minLength: 5, maxLength: 30 })
  .map((parts) => parts.flat() as Act[]);

describe("rows of vectors", () => {
  test("what a search began with it finds for as long as it goes on, in the owner's thread and through its own scratch memory", () => {
    fc.assert(
      fc.property(acts, fc.constantFrom(100, 700, undefined), (acts, heldMax) => {
        // What nobody can find any more is freed at the end of a search: here, of all.
        const retired: (() => void)[] = [];
        const rows = new VectorRows({
          dimension,
          metric: "euclidean",
          readers: 2,
          blockBytesMax: 2 ** 17,
          ...(heldMax !== undefined && { heldMax }),
          retire: (free) => retired.push(free),
        });
        const waiting: number[] = [];
        const linked: number[] = [];
        const views: {
          view: VectorRowsView;
          attached: VectorRowsView;
          waiting: number[];
          linked: number[];
        }[] = [];
        const removed = new Set<number>();
        let next = 0;
        for (const { kind, at } of acts) {
          if (kind === "add") {
            next += 1 + (at % 3);
            rows.add(next, vectorOf(next));
            waiting.push(next);
          } else if (kind === "link" && waiting.length > 0) {
            // About in their order.
            const [vectorKey] = waiting.splice(at % Math.min(4, waiting.length), 1);
            rows.onLinked(vectorKey);
            linked.push(vectorKey);
          } else if (kind === "remove") {
            const from = at % 2 === 0 ? waiting : linked;
            if (from.length === 0) continue;
            const [vectorKey] = from.splice(at % from.length, 1);
            rows.remove(vectorKey);
            removed.add(vectorKey);
          } else if (kind === "compact") rows.compact();
          else if (kind === "giveUp") rows.giveUp(1);
          else if (kind === "view" && views.length < 20) {
            const attached = VectorRowsView.attach(metric, rows.shared, 1);
            const held = linked.filter((vectorKey) => rows.has(vectorKey));
            views.push({ view: rows.view, attached, waiting: [...waiting], linked: held });
          }
        }
        rows.check();
        expect(rows.waitingCount).toBe(waiting.length);
        expect(rows.waitingNames()).toEqual([...waiting].sort((a, b) => a - b));
        for (const vectorKey of waiting) assert.deepEqual(rows.vectorOf(vectorKey), vectorOf(vectorKey));
        const held = linked.filter((vectorKey) => rows.has(vectorKey));
        expect(rows.linkedCount).toBe(held.length);
        for (const vectorKey of held) assert.deepEqual(rows.vectorOf(vectorKey), vectorOf(vectorKey));
        for (const { view, attached, ...vectorKeys } of views)
          for (const searched of [view, attached]) {
            expect(searched.waitingCount).toBe(vectorKeys.waiting.length);
            expect(searched.linkedCount).toBe(vectorKeys.linked.length);
            const seen = vectorKeys.waiting.filter((vectorKey) => !removed.has(vectorKey));
            // Whatever was linked, copied or dropped since: the graphs that were described with the rows may not have it.
            for (const vectorKey of seen) assert(searched.has(vectorKey));
            const isSeen = new Set(seen);
            expect(asMap(searched.searchWaiting(query, 7, (vectorKey) => isSeen.has(vectorKey)))).toEqual(
              bestOf(seen, 7),
            );
            const all = [...seen, ...vectorKeys.linked.filter((vectorKey) => !removed.has(vectorKey))];
            const isHeld = new Set(all);
            const scan = searched.scanAll(query, 7, () => (vectorKey) => isHeld.has(vectorKey));
            expect(asMap(finishAtOnce(scan.search()))).toEqual(bestOf(all, 7));
            // A row that was copied or dropped since is not found by its vector key, or is where it was.
            const distances = new Float64Array(all.length);
            searched.distancesOf(query, Uint32Array.from(all), all.length, distances);
            for (const [i, vectorKey] of all.entries()) {
              assert.equal(searched.has(vectorKey), !Number.isNaN(distances[i]));
              if (!searched.has(vectorKey)) continue;
              assert.equal(metric.score(distances[i]), exactScore(metric, query, vectorOf(vectorKey)));
              assert.deepEqual(searched.vectorOf(vectorKey), vectorOf(vectorKey));
            }
          }
        for (const free of retired.splice(0)) free();
        const limit = heldMax ?? Number.POSITIVE_INFINITY;
        if (waiting.length === 0) expect(rows.linkedCount).toBeLessThanOrEqual(limit);
      }),
      { numRuns: 60 },
    );
  });

  test("a vector that is removed after it was linked is not found any more by a search that begins later", () => {
    const rows = new VectorRows({ dimension, metric: "euclidean" });
    for (const vectorKey of [1, 2, 3]) rows.add(vectorKey, vectorOf(vectorKey));
    rows.onLinked(2);
    rows.remove(2);
    // Nobody remembers that it was closed.
    expect([...asMap(rows.view.searchWaiting(query, 3, null)).keys()].sort()).toEqual([1, 3]);
    expect(rows.view.has(2)).toBe(false);
  });

  test("being linked moves nothing and takes no memory", () => {
    const rows = new VectorRows({ dimension: 64, metric: "dot_product" });
    for (let vectorKey = 0; vectorKey < 5_000; vectorKey++)
      rows.add(vectorKey, new Float32Array(64).fill(vectorKey));
    const { memoryBytes, view } = rows;
    expect(memoryBytes).toBeLessThan(1.1 * 5_000 * 4 * 64);
    for (let vectorKey = 0; vectorKey < 5_000; vectorKey++) rows.onLinked(vectorKey);
    expect(rows.memoryBytes).toBe(memoryBytes);
    expect(rows.view.waiting).toEqual([]);
    expect(rows.view.blocks).toEqual(view.blocks);
  });

  test("no more linked vectors are held than may be, but for those of one block, and memory that is asked back is given", () => {
    const rows = new VectorRows({ dimension: 64, metric: "dot_product", heldMax: 10_000 });
    const values = new Float32Array(64).fill(1);
    for (let vectorKey = 0; vectorKey < 50_000; vectorKey++) {
      rows.add(vectorKey, values);
      rows.onLinked(vectorKey);
      if (vectorKey % 1_000 === 0) expect(rows.linkedCount).toBeLessThanOrEqual(10_000);
    }
    expect(rows.linkedCount).toBeGreaterThan(5_000);
    // The newest.
    expect(rows.has(49_999)).toBe(true);
    expect(rows.spareBytes).toBeGreaterThan(0.9 * rows.linkedCount * 4 * 64);
    const before = rows.memoryBytes;
    rows.giveUp(1_000_000);
    expect(rows.memoryBytes).toBeLessThan(before - 1_000_000);
    rows.check();
  });

  test("where memory is refused, linked vectors make room for those that wait", () => {
    let bytes = 2 ** 23;
    const rows: VectorRows = new VectorRows({
      dimension: 64,
      metric: "dot_product",
      heldMax: 20_000,
      mayTake: (more) => rows.memoryBytes + more <= bytes,
    });
    const values = new Float32Array(64).fill(1);
    for (let vectorKey = 0; vectorKey < 100_000; vectorKey++) {
      rows.add(vectorKey, values);
      rows.onLinked(vectorKey);
    }
    expect(rows.memoryBytes).toBeLessThan(bytes + 2 ** 21);
    expect(rows.linkedCount).toBeGreaterThan(10_000);
    bytes = 0;
    rows.giveUp(1);
    expect(rows.mayHold()).toBe(false);
  });
});
