// Are exact scores those of the ground truth of public data sets?

import { expect, test } from "vitest";
import { exactNearest } from "../../../test/index/exact-nearest.ts";
import { asMap } from "../../../test/index/reference.ts";
import { onSet, readF32, readFvecs, readIvecs } from "../../../test/index/reference-data.ts";
import { exactScore, metrics } from "../../vector/metric.ts";
import { VectorRows } from "./vector-rows.ts";

onSet("siftsmall", () => {
  test("the distances are those of the ground truth", () => {
    const base = readFvecs("siftsmall/siftsmall_base.fvecs");
    const truth = readIvecs("siftsmall/siftsmall_groundtruth.ivecs");
    const index = new VectorRows({ dimension: 128, metric: "euclidean", blockBytesMax: 2 ** 21 });
    base.forEach((row, i) => {
      index.add(i, row);
    });
    readFvecs("siftsmall/siftsmall_query.fvecs").forEach((query, i) => {
      const found = exactNearest(index, query, 100);
      const expected = [...truth[i]].map((row) => exactScore(metrics.euclidean, query, base[row]));
      expect([...found.scores].sort((a, b) => b - a).slice(0, 100)).toEqual(expected.sort((a, b) => b - a));
    });
  });
});

onSet("glove100-100k", () => {
  test.each([
    ["cosine", "gt_cosine_top100"],
    ["dot_product", "gt_dot_top100"],
    ["euclidean", "gt_l2_top100"],
  ] as const)("%s: the scores are those of the ground truth, up to its f32 near-ties", (metric, file) => {
    const base = readF32("glove100-100k/base.f32", 100).rows;
    const queries = readF32("glove100-100k/queries.f32", 100).rows;
    const truth = readIvecs(`glove100-100k/${file}.ivecs`);
    const index = new VectorRows({ dimension: 100, metric });
    base.forEach((row, i) => {
      index.add(i, row);
    });
    let agreeing = 0;
    for (let i = 0; i < 100; i++) {
      const found = asMap(exactNearest(index, queries[i], 100));
      const worst = Math.min(...found.values());
      for (const row of truth[i]) {
        if (found.has(row)) agreeing++;
        const score = exactScore(metrics[metric], queries[i], base[row]);
        expect(score).toBeGreaterThanOrEqual(worst - 1e-6 * Math.max(1, Math.abs(worst)));
      }
    }
    // Brute force in f32 swaps near-ties at the hundredth place.
    expect(agreeing).toBeGreaterThan(9_990);
  });
});
