// Does the graph find what the exact index finds, with every metric and every type of codes?

import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clustered } from "../../../test/index/dense/clustered.ts";
import { add, pairOf, recallOf, remove } from "../../../test/index/graph-pair.ts";
import { hnswDataTypes } from "./code-types.ts";

/**
 * Recall that each type must reach: one bit per value says little about a vector of 24 dimensions, and re-scoring cannot add vectors that
 * were not visited.
 */
const floors = { f32: 0.97, f16: 0.97, u8: 0.97, octal: 0.97, quaternary: 0.95, binary: 0.9 } as const;

describe.each(metricNames)("%s", (metric) => {
  describe.each(hnswDataTypes)("%s", (dataType) => {
    test("[N1] recall on clusters, before and after every vector is replaced, and with a filter", () => {
      const pair = pairOf(24, metric, { dataType, sampleCount: 300 });
      const rows = clustered(4_000, 24, 1);
      const queries = clustered(60, 24, 1).concat(rows.slice(0, 20));
      for (let i = 0; i < 2_000; i++) add(pair, i, rows[i]);
      pair.hnsw.check();
      expect(recallOf(pair, queries, 100)).toBeGreaterThan(floors[dataType]);
      expect(recallOf(pair, queries, 100, (ordinal) => ordinal % 50 === 7)).toBeGreaterThan(floors[dataType]);
      const filled = pair.hnsw.memoryBytes;
      for (let i = 2_000; i < 4_000; i++) {
        add(pair, i, rows[i]);
        remove(pair, (i * 7) % 2_000);
      }
      expect(pair.hnsw.count).toBe(2_000);
      pair.hnsw.check();
      expect(recallOf(pair, queries, 100)).toBeGreaterThan(floors[dataType]);
      while (pair.hnsw.tidy());
      pair.hnsw.check();
      expect(pair.hnsw.memoryBytes).toBeLessThan(1.35 * filled);
    });

    test("random changes and searches against the exact index", () => {
      const value = fc.float({ min: -2, max: 2, noNaN: true });
      const values = fc.array(value, { minLength: 3, maxLength: 3 }).map((row) => Float32Array.from(row));
      const act = fc.oneof(
        { weight: 6, arbitrary: fc.record({ kind: fc.constant("add" as const), gap: fc.nat(3), values }) },
        { weight: 3, arbitrary: fc.record({ kind: fc.constant("remove" as const), pick: fc.nat(200) }) },
        {
          weight: 2,
          arbitrary: fc.record({
            kind: fc.constant("search" as const),
            values,
            modulus: fc.integer({ min: 1, max: 3 }),
          }),
        },
      );
      fc.assert(
        fc.property(fc.array(act, { maxLength: 150, size: "max" }), (acts) => {
          const pair = pairOf(3, metric, { dataType, sampleCount: 5, m: 4, efConstruction: 20 });
          let next = 0;
          for (const act of acts) {
            if (act.kind === "add") {
              next += act.gap;
              add(pair, next++, act.values);
            } else if (act.kind === "remove") {
              remove(pair, act.pick % Math.max(1, next));
              expect(pair.hnsw.has(act.pick % Math.max(1, next))).toBe(false);
            } else {
              const visible = act.modulus === 1 ? null : (ordinal: number) => ordinal % act.modulus !== 0;
              recallOf(pair, [act.values], 20, visible);
            }
            expect(pair.hnsw.count).toBe(pair.flat.count);
          }
          pair.hnsw.check();
          for (const ordinal of pair.rows.keys()) expect(pair.hnsw.has(ordinal)).toBe(true);
          const query = Float32Array.of(1, 0, 0);
          expect(pair.hnsw.reader.search(query, 1_000, { ef: 1_000 }).count).toBe(pair.flat.count);
        }),
        { numRuns: 25 },
      );
    });
  });
});
