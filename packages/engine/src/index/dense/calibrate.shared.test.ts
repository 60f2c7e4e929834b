// Does `auto` hold recall on words?

import { expect, test } from "vitest";
import { BruteForce } from "../../../test/index/brute-force.ts";
import { onSet, readF32 } from "../../../test/index/reference-data.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { HnswIndex } from "./hnsw-index.ts";

onSet("glove100-100k", () => {
  test("[N9] what auto chooses has a recall within 0.01 of f32's", () => {
    const base = readF32("glove100-100k/base.f32", 100).rows.slice(0, 20_000);
    const queries = readF32("glove100-100k/queries.f32", 100).rows.slice(0, 200);
    const flat = new BruteForce({ metric: "cosine" });
    const indexes = (["auto", "f32"] as const).map(
      (dataType) => new HnswIndex({ dimension: 100, metric: "cosine", dataType, memoryBytesMax: 2 ** 27 }),
    );
    for (const [i, row] of base.entries())
      for (const index of [flat, ...indexes]) index.add(i, bytesOfFloats(row));
    const [chosen, f32] = indexes.map((index) => {
      let met = 0;
      for (const query of queries) {
        const truth = new Set(flat.search(query, 10, null).ordinals);
        for (const ordinal of index.reader.search(query, 10, { ef: 160 }).ordinals)
          if (truth.has(ordinal)) met++;
      }
      return met / (10 * queries.length);
    });
    expect(indexes[0].encoding?.dataType).not.toBe("f32");
    expect(chosen).toBeGreaterThan(f32 - 0.01);
  }, 120_000);
});
