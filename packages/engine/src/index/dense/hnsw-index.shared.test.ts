// Which recall has the graph on public data sets?

import { type MetricName, metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { describe, expect, test } from "vitest";
import { add, pairOf, recallOf } from "../../../test/index/graph-pair.ts";
import { onSet, readBytes, readF32, readFvecs, readIvecs } from "../../../test/index/reference-data.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { exactScore, metrics } from "../../vector/metric.ts";
import { hnswDataTypes } from "./code-types.ts";
import { HnswIndex } from "./hnsw-index.ts";

onSet("siftsmall", () => {
  test("recall", () => {
    const base = readFvecs("siftsmall/siftsmall_base.fvecs");
    const queries = readFvecs("siftsmall/siftsmall_query.fvecs");
    const truth = readIvecs("siftsmall/siftsmall_groundtruth.ivecs");
    for (const dataType of hnswDataTypes) {
      const index = new HnswIndex({ dimension: 128, metric: "euclidean", dataType });
      base.forEach((row, i) => {
        index.add(i, bytesOfFloats(row));
      });
      index.check();
      const floor = { binary: 0.95, quaternary: 0.98 }[dataType as string] ?? 0.99;
      expect(recallOfTruth(index, queries, truth, metrics.euclidean, base)).toBeGreaterThan(floor);
    }
  });
});

// Lower bounds slightly below the observed values: they detect a broken graph, not random variation.
const floorsOnWords = {
  cosine: { f32: 0.97, f16: 0.97, u8: 0.97, octal: 0.96, quaternary: 0.95, binary: 0.82 },
  dot_product: { f32: 0.97, f16: 0.97, u8: 0.97, octal: 0.97, quaternary: 0.96, binary: 0.91 },
  euclidean: { f32: 0.965, f16: 0.965, u8: 0.96, octal: 0.955, quaternary: 0.95, binary: 0.86 },
} as const;

onSet("glove100-100k", () => {
  const base = readF32("glove100-100k/base.f32", 100).rows.slice(0, 6_000);
  const queries = readF32("glove100-100k/queries.f32", 100).rows.slice(0, 100);
  describe.each(metricNames)("%s", (metric) => {
    test.each(hnswDataTypes)("%s: recall", (dataType) => {
      const pair = pairOf(100, metric, { dataType });
      for (const [i, row] of base.entries()) add(pair, i, row);
      pair.hnsw.check();
      expect(recallOf(pair, queries, 160)).toBeGreaterThan(floorsOnWords[metric][dataType]);
    });
  });
});

const floorOnImages = 0.99;

onSet("fashion-mnist", () => {
  const base = readBytes("fashion-mnist/train-images-idx3-ubyte.gz", 16, 784).slice(0, 2_000);
  const queries = readBytes("fashion-mnist/queries-t10k-first1000.u8.gz", 0, 784).slice(0, 50);
  describe.each(metricNames)("%s", (metric) => {
    test.each(hnswDataTypes)("%s: recall", (dataType) => {
      const pair = pairOf(784, metric, { dataType });
      for (const [i, row] of base.entries()) add(pair, i, row);
      pair.hnsw.check();
      expect(recallOf(pair, queries, 100)).toBeGreaterThan(floorOnImages);
    });
  });
});

function recallOfTruth(
  index: HnswIndex,
  queries: readonly Float32Array[],
  truth: readonly Int32Array[],
  metric: (typeof metrics)[MetricName],
  base: readonly Float32Array[],
): number {
  let met = 0;
  queries.forEach((query, i) => {
    const worst = exactScore(metric, query, base[truth[i][9]]);
    const { scores } = index.reader.search(query, 10, { ef: 100 });
    met += scores.filter((score) => score >= worst).length;
  });
  return met / (10 * queries.length);
}
