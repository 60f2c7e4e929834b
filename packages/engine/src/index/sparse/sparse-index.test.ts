import assert from "node:assert/strict";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type AllowedShare, allowedOf, anyAllowed } from "../../../test/index/allowed-sets.ts";
import { bestOf } from "../../../test/index/best-of.ts";
import { asMap, expectSame } from "../../../test/index/reference.ts";
import { finishAtOnce } from "../../base/steps.ts";
import { seenAndAllowed, type Visible } from "../contract.ts";
import { SparseIndex, type SparseOptions } from "./sparse-index.ts";
import type { SparseMatch, SparseVector } from "./sparse-reader.ts";

function sparse(entries: readonly (readonly [number, number])[]): SparseVector {
  return {
    indices: Uint32Array.from(entries, ([index]) => index),
    values: Float32Array.from(entries, ([, value]) => value),
  };
}

/** All records scored one by one, as the index promises: products added by ascending dimension. */
class Reference {
  readonly records = new Map<number, SparseVector>();

  search(query: SparseVector, k: number, threshold: number, visible: Visible): Map<number, number> {
    const scored = new Map<number, number>();
    const greatest = Math.max(0, ...this.products(query, visible));
    const limit = threshold > 0 && greatest > 0 ? threshold * greatest : Number.NEGATIVE_INFINITY;
    for (const [ordinal, record] of this.records) {
      const products = productsOf(query, record);
      if (products.length === 0 || (visible !== null && !visible(ordinal))) continue;
      if (products.every((product) => product < limit)) continue;
      scored.set(
        ordinal,
        products.reduce((sum, product) => sum + product, 0),
      );
    }
    return bestOf(scored, k);
  }

  products(query: SparseVector, visible: Visible): number[] {
    return [...this.records].flatMap(([ordinal, record]) =>
      visible === null || visible(ordinal) ? productsOf(query, record) : [],
    );
  }
}

function productsOf(query: SparseVector, record: SparseVector): number[] {
  const weights = new Map([...record.indices].map((index, i) => [index, record.values[i]]));
  return [...query.indices.keys()]
    .filter((i) => weights.has(query.indices[i]))
    .sort((a, b) => query.indices[a] - query.indices[b])
    .map((i) => query.values[i] * (weights.get(query.indices[i]) as number));
}

/** Explanations have every shared dimension once, and add up to the scores bit for bit. */
function expectExplained(
  index: SparseIndex,
  reference: Reference,
  query: SparseVector,
  found: ReadonlyMap<number, number>,
): void {
  const ordinals = [...found.keys()];
  const matches = ordinals.map((): SparseMatch[] => []);
  const steps = index.reader.explain(ordinals, query, (at, match) => matches[at].push(match));
  for (let step = steps.next(); !step.done; step = steps.next());
  for (const [at, ordinal] of ordinals.entries()) {
    const record = reference.records.get(ordinal) as SparseVector;
    assert.deepEqual(
      matches[at].map(({ product }) => product),
      productsOf(query, record),
    );
    assert.equal(
      matches[at].reduce((sum, { product }) => sum + product, 0),
      found.get(ordinal),
    );
    for (const { dimension, queryWeight, weight } of matches[at])
      assert.deepEqual(
        [queryWeight, weight],
        [query.values[query.indices.indexOf(dimension)], record.values[record.indices.indexOf(dimension)]],
      );
  }
}

const anyWeight = fc.oneof(
  fc.integer({ min: -2, max: 2 }),
  fc.float({ min: -10, max: 10, noNaN: true }),
  fc.float({ noNaN: true, noDefaultInfinity: true }),
);
const anyDimension = fc.oneof(fc.nat(8), fc.constantFrom(0xffff_ffff, 0x8000_0000, 30_000));
const anyVector = fc
  .uniqueArray(fc.tuple(anyDimension, anyWeight), { selector: ([dimension]) => dimension, maxLength: 8 })
  .map(sparse);

type Act =
  | { kind: "add"; gap: number; vector: SparseVector }
  | { kind: "retire" | "remove"; pick: number }
  | {
      kind: "search";
      vector: SparseVector;
      k: number;
      threshold: number;
      modulus: number;
      allowed: AllowedShare;
    };

const anyAct: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant("add" as const), gap: fc.nat(3), vector: anyVector }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("retire" as const), pick: fc.nat(1_000) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("remove" as const), pick: fc.nat(1_000) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("search" as const),
      vector: anyVector,
      k: fc.nat(12),
      threshold: fc.oneof(fc.constantFrom(0, 1), fc.double({ min: 0, max: 1, noNaN: true })),
      modulus: fc.integer({ min: 1, max: 4 }),
      allowed: anyAllowed,
    }),
  },
);

const anyOptions: fc.Arbitrary<SparseOptions> = fc.record({
  debug: fc.boolean(),
  levels: fc.constantFrom(16, 64, 256),
  bufferRecordsMax: fc.constantFrom(1, 4, 20, 1_000),
});

/** With a threshold: all have their scores, and there are as many as a posting gave a chance. */
function expectEnough(
  found: ReadonlyMap<number, number>,
  reference: Reference,
  { vector, k, threshold }: { vector: SparseVector; k: number; threshold: number },
  visible: Visible,
): void {
  const all = reference.search(vector, reference.records.size, 0, visible);
  for (const [ordinal, score] of found) assert.equal(score + 0, (all.get(ordinal) as number) + 0);
  const considered = reference.search(vector, reference.records.size, threshold, visible);
  expect(found.size).toBeGreaterThanOrEqual(Math.min(k, considered.size));
}

test("explanations in steps equal those made at once, whatever changes meanwhile", () => {
  const index = new SparseIndex({ bufferRecordsMax: 64 });
  const reference = new Reference();
  const add = (ordinal: number) => {
    const entries = Array.from({ length: 20 }, (_, i) => [(31 * ordinal + 97 * i) % 401, 1 + i] as const);
    const vector = sparse([...new Map(entries)]);
    index.add(ordinal, vector.indices, vector.values);
    reference.records.set(ordinal, vector);
  };
  for (let ordinal = 0; ordinal < 400; ordinal++) add(ordinal);
  // Dimensions in descending order.
  const query = sparse(Array.from({ length: 401 }, (_, i) => [400 - i, 1 + (i % 3)] as const));
  const ordinals = Array.from({ length: 400 }, (_, ordinal) => ordinal).filter((ordinal) => ordinal % 5 > 0);
  const products = ordinals.map((): number[] => []);
  const steps = index.reader.explain(ordinals, query, (at, { product }) => products[at].push(product));
  let count = 0;
  for (let step = steps.next(); !step.done; step = steps.next(), count++) {
    for (let i = 0; i < 30; i++) add(400 + 30 * count + i);
    for (let ordinal = 50 * count; ordinal < 50 * count + 50 && ordinal < 400; ordinal += 5)
      index.remove(ordinal);
    index.tidy(1_000);
  }
  expect(count).toBeGreaterThan(5);
  for (const [at, ordinal] of ordinals.entries())
    expect(products[at]).toEqual(productsOf(query, reference.records.get(ordinal) as SparseVector));
});

test("records hidden from a search do not affect the largest contribution", () => {
  for (const isFrozen of [false, true]) {
    const index = new SparseIndex();
    for (let ordinal = 0; ordinal < 2_000; ordinal++) {
      const { indices, values } = sparse([[1, ordinal === 0 ? 10 : 1 + ordinal / 4_000]]);
      index.add(ordinal, indices, values);
    }
    if (isFrozen) finishAtOnce(index.freeze());
    index.retire(0);
    const found = index.reader.search(sparse([[1, 1]]), 3, 0.9, (ordinal) => ordinal !== 0);
    expect([...found.ordinals].sort((a, b) => a - b)).toEqual([1_997, 1_998, 1_999]);
  }
});

test("[Q7] where a weight is negative a search with a threshold is exact, in the mutable buffer and in segments", () => {
  for (const isFrozen of [false, true])
    for (const sign of [1, -1]) {
      const index = new SparseIndex();
      const records = [
        sparse([
          [1, 10],
          [2, -100 * sign],
        ]),
        sparse([[1, 1]]),
        sparse([[1, 2]]),
      ];
      for (const [ordinal, { indices, values }] of records.entries()) index.add(ordinal, indices, values);
      if (isFrozen) finishAtOnce(index.freeze());
      const query = sparse([
        [1, 1],
        [2, sign],
      ]);
      expect(asMap(index.reader.search(query, 10, 0.5, null))).toEqual(
        asMap(index.reader.search(query, 10, 0, null)),
      );
    }
});

test.each([false, true])(
  "a query of thousands of dimensions finds what brute force does; all in segments: %s",
  (isFrozen) => {
    const index = new SparseIndex({ bufferRecordsMax: 64 });
    const reference = new Reference();
    for (let ordinal = 0; ordinal < 200; ordinal++) {
      const entries = Array.from({ length: 20 + (ordinal % 9) }, (_, i) => {
        const at = 31 * ordinal + i;
        return [(at * 97 + i) % 4_001, ((at * 7) % 23) - (ordinal % 2)] as const;
      });
      const vector = sparse([...new Map(entries)]);
      index.add(ordinal, vector.indices, vector.values);
      reference.records.set(ordinal, vector);
    }
    for (let ordinal = 0; ordinal < 200; ordinal += 7) {
      index.remove(ordinal);
      reference.records.delete(ordinal);
    }
    if (isFrozen) finishAtOnce(index.freeze());
    expect(index.bufferedCount > 0).toBe(!isFrozen);
    const query = sparse(Array.from({ length: 3_000 }, (_, i) => [i, 1 + (i % 5)] as const));
    for (const visible of [null, (ordinal: number) => ordinal < 198]) {
      expectSame(asMap(index.reader.search(query, 10, 0, visible)), reference.search(query, 10, 0, visible));
      const limited = asMap(index.reader.search(query, 10, 0.9, visible));
      expectEnough(limited, reference, { vector: query, k: 10, threshold: 0.9 }, visible);
    }
  },
);

test("every search equals brute force, through all changes", () => {
  fc.assert(
    fc.property(anyOptions, fc.array(anyAct, { maxLength: 200, size: "max" }), (options, acts) => {
      const index = new SparseIndex(options);
      const reference = new Reference();
      const retired = new Set<number>();
      let next = 0;
      for (const act of acts) {
        if (act.kind === "add") {
          next += act.gap;
          index.add(next, act.vector.indices, act.vector.values);
          reference.records.set(next++, act.vector);
        } else if (act.kind === "search") {
          const end = next - (act.modulus % 3);
          const visible =
            act.modulus === 1
              ? null
              : (ordinal: number) => ordinal < end && !(retired.has(ordinal) && ordinal % act.modulus !== 0);
          const allowed = allowedOf(act.allowed, [...reference.records.keys()]);
          const found = asMap(index.reader.search(act.vector, act.k, act.threshold, visible, allowed));
          const may = seenAndAllowed(visible, allowed);
          if (act.threshold === 0) expectSame(found, reference.search(act.vector, act.k, 0, may));
          else expectEnough(found, reference, act, may);
          expectExplained(index, reference, act.vector, found);
        } else {
          const ordinal = act.pick % Math.max(1, next);
          index[act.kind](ordinal);
          if (reference.records.has(ordinal)) retired.add(ordinal);
          if (act.kind === "remove") reference.records.delete(ordinal);
          assert.equal(index.has(ordinal), reference.records.has(ordinal));
        }
        assert.equal(index.count, reference.records.size);
      }
      index.check();
    }),
    { numRuns: 300 },
  );
});

test("removed records are swept: memory stays when everything is replaced, and dimensions go", () => {
  const index = new SparseIndex();
  const vectorOf = (ordinal: number) =>
    sparse(Array.from({ length: 20 }, (_, i) => [(ordinal * 31 + i * i * 17) % 4_000, 1 + (i % 5)]));
  const add = (ordinal: number) => {
    const { indices, values } = vectorOf(ordinal);
    const unique = new Map([...indices].map((index, i) => [index, values[i]]));
    index.add(ordinal, Uint32Array.from(unique.keys()), Float32Array.from(unique.values()));
  };
  for (let ordinal = 0; ordinal < 5_000; ordinal++) add(ordinal);
  index.reader.search(vectorOf(1), 10, 0, null);
  const filled = index.memoryBytes;
  for (let ordinal = 5_000; ordinal < 20_000; ordinal++) {
    add(ordinal);
    index.retire(ordinal - 5_000);
    index.remove(ordinal - 5_000);
  }
  index.check();
  expect(index.count).toBe(5_000);
  // A quarter of a segment may be dead, a merge needs room for its result, and memory never shrinks.
  expect(index.memoryBytes).toBeLessThan(3 * filled);
  for (let ordinal = 15_000; ordinal < 20_000; ordinal++) index.remove(ordinal);
  index.check();
  expect(index.reader.search(vectorOf(1), 10, 0, null).count).toBe(0);
});

test("all records tie: all are returned", () => {
  const index = new SparseIndex();
  for (let ordinal = 0; ordinal < 30_000; ordinal++)
    index.add(ordinal, Uint32Array.of(9, 4), Float32Array.of(0.1, 0.7));
  for (let ordinal = 0; ordinal < 30_000; ordinal++) if (ordinal % 3 !== 0) index.retire(ordinal);
  const found = index.reader.search(
    sparse([
      [4, 0.3],
      [9, 0.2],
      [5, 1],
    ]),
    3,
    0,
    (ordinal) => ordinal % 3 === 0,
  );
  expect(found.count).toBe(10_000);
  expect(new Set(found.scores)).toEqual(
    new Set([Math.fround(0.3) * Math.fround(0.7) + Math.fround(0.2) * Math.fround(0.1)]),
  );
});

test("wrong input is rejected and changes nothing", () => {
  const index = new SparseIndex();
  expect(() => index.add(0, Uint32Array.of(1, 2), Float32Array.of(1))).toThrow("2 dimensions have 1 weights");
  expect(() => index.add(0, Uint32Array.of(1), Float32Array.of(Number.NaN))).toThrow("NaN");
  expect(() => index.reader.search(sparse([[1, 1]]), 1, 1.5, null)).toThrow("threshold 1.5");
  expect(index.count).toBe(0);
  index.add(3, Uint32Array.of(1), Float32Array.of(2));
  expect(() => index.add(3, Uint32Array.of(1), Float32Array.of(2))).toThrow("ascend");
  const failing = () => {
    throw new Error("no view");
  };
  expect(() => index.reader.search(sparse([[1, 1]]), 1, 0, failing)).toThrow("no view");
  expect(asMap(index.reader.search(sparse([[1, 1]]), 1, 0, null))).toEqual(new Map([[3, 2]]));
  index.check();
  index.close();
  expect(index.memoryBytes).toBeLessThan(30_000);
});
