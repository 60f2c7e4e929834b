import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { keepBest } from "../../base/top-k.ts";
import { exactScore } from "../../vector/metric.ts";
import { metrics } from "../../vector/metrics.ts";
import { Tail, TailView } from "./tail.ts";

const dimension = 5;
const metric = metrics.euclidean;
const vectorOf = (name: number) =>
  Float32Array.from({ length: dimension }, (_, i) => Math.sin((name % 40) * (i + 1)) + (name % 3));
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

function bestOf(names: readonly number[], k: number): Map<number, number> {
  const scores = Float64Array.from(names, (name) => exactScore(metric, query, vectorOf(name)));
  return asMap(keepBest(Uint32Array.from(names), scores, names.length, k));
}

type Act = { kind: "add" | "link" | "remove" | "view"; at: number };
const act = fc.record({
  kind: fc.constantFrom("add", "add", "add", "link", "remove", "view"),
  at: fc.nat(),
}) as fc.Arbitrary<Act>;

describe("a tail", () => {
  test("what a search began with it finds for as long as it goes on, in the owner's thread and through its own scratch memory", () => {
    fc.assert(
      fc.property(fc.array(act, { minLength: 20, maxLength: 1_500 }), (acts) => {
        const tail = new Tail(dimension, "euclidean", 2);
        const waiting: number[] = [];
        const linked: number[] = [];
        const views: { view: TailView; attached: TailView; names: number[] }[] = [];
        const removed = new Set<number>();
        let next = 0;
        for (const { kind, at } of acts) {
          if (kind === "add") {
            next += 1 + (at % 3);
            tail.add(next, vectorOf(next));
            waiting.push(next);
          } else if (kind === "link" && waiting.length > 0) {
            // About in their order.
            const [name] = waiting.splice(at % Math.min(4, waiting.length), 1);
            tail.onLinked(name);
            linked.push(name);
          } else if (kind === "remove") {
            const from = at % 2 === 0 ? waiting : linked;
            if (from.length === 0) continue;
            const [name] = from.splice(at % from.length, 1);
            tail.remove(name);
            removed.add(name);
          } else if (kind === "view" && waiting.length > 0) {
            const attached = TailView.attach(metric, dimension, tail.shared, 1);
            views.push({ view: tail.view, attached, names: [...waiting] });
          }
        }
        tail.check();
        expect(tail.count).toBe(waiting.length);
        expect(tail.ordinals()).toEqual([...waiting].sort((a, b) => a - b));
        for (const name of waiting) expect(tail.vectorOf(name)).toEqual(vectorOf(name));
        for (const name of linked) expect(tail.has(name)).toBe(false);
        for (const { view, attached, names } of views) {
          const seen = names.filter((name) => !removed.has(name));
          const isSeen = new Set(seen);
          for (const searched of [view, attached]) {
            expect(searched.count).toBe(names.length);
            expect(asMap(searched.search(query, 7, (name) => isSeen.has(name)))).toEqual(bestOf(seen, 7));
            const distances = new Float64Array(seen.length);
            searched.distancesOf(query, Uint32Array.from(seen), seen.length, distances);
            for (const [i, name] of seen.entries()) {
              expect(metric.score(distances[i])).toBe(exactScore(metric, query, vectorOf(name)));
              expect(searched.vectorOf(name)).toEqual(vectorOf(name));
            }
          }
        }
      }),
      { numRuns: 30 },
    );
  });

  test("a vector that is removed after it was linked is not found any more by a search that begins later", () => {
    const tail = new Tail(dimension, "euclidean", 1);
    for (const name of [1, 2, 3]) tail.add(name, vectorOf(name));
    tail.onLinked(2);
    tail.remove(2);
    // Nobody remembers that it was closed.
    expect([...asMap(tail.view.search(query, 3, null)).keys()].sort()).toEqual([1, 3]);
    expect(tail.view.has(2)).toBe(false);
  });

  test("memory is given back while rows come and go, and when all are gone", () => {
    const tail = new Tail(64, "dot_product", 1);
    const values = new Float32Array(64).fill(1);
    tail.add(0, values);
    const least = tail.memoryBytes;
    let name = 1;
    for (let round = 0; round < 40; round++) {
      for (let i = 0; i < 1_000; i++) tail.add(name + i, values);
      expect(tail.view.count).toBe(1_001);
      for (let i = 0; i < 1_000; i++) tail.onLinked(name + i);
      name += 1_000;
      tail.check();
    }
    expect(tail.memoryBytes).toBeLessThan(2 * 1_000 * 4 * 64);
    tail.onLinked(0);
    for (let i = 0; i < 1_000; i++) tail.add(name + i, values);
    for (let i = 0; i < 1_000; i++) tail.remove(name + i);
    expect(tail.count).toBe(0);
    expect(tail.memoryBytes).toBeLessThanOrEqual(least);
  });
});
