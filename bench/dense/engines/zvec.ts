// How is zvec asked?

import { join } from "node:path";
import { rival } from "../../shared/engine.ts";
import { type Engine, type EngineKind, efConstruction, m, type Shape } from "../engine.ts";

const batch = 1_000;

function open({ metric, dimension, directory }: Shape, isInteger: boolean): Engine {
  const zvec = rival("@zvec/zvec");
  const { ZVecIndexType, ZVecMetricType, ZVecQuantizeType, ZVecDataType, ZVecLogLevel } = zvec;
  zvec.ZVecInitialize({ queryThreads: 1, optimizeThreads: 1, logLevel: ZVecLogLevel.ERROR });
  const metricType = { cosine: "COSINE", euclidean: "L2", dot_product: "IP" }[metric];
  const schema = new zvec.ZVecCollectionSchema({
    name: "bench",
    vectors: {
      name: "v",
      dataType: ZVecDataType.VECTOR_FP32,
      dimension,
      indexParams: {
        indexType: ZVecIndexType.HNSW,
        metricType: ZVecMetricType[metricType],
        m,
        efConstruction,
        quantizeType: isInteger ? ZVecQuantizeType.INT8 : ZVecQuantizeType.UNDEFINED,
      },
    },
  });
  const collection = zvec.ZVecCreateAndOpen(join(directory, "collection"), schema);
  return {
    add(rows, first) {
      for (let at = 0; at < rows.length; at += batch) {
        const records = rows
          .slice(at, at + batch)
          .map((row, i) => ({ id: String(first + at + i), vectors: { v: row } }));
        const refused = collection.insertSync(records).find(({ ok }: { ok: boolean }) => !ok);
        if (refused !== undefined) throw new Error(refused.message);
      }
    },
    finish: () => collection.optimizeSync({ concurrency: 1 }),
    search: (query: Float32Array, k, ef) =>
      collection
        .querySync({
          fieldName: "v",
          vector: query,
          topk: k,
          outputFields: [],
          params: { indexType: ZVecIndexType.HNSW, ef, isUsingRefiner: isInteger },
        })
        .map(({ id }: { id: string }) => id),
  };
}

export const zvec: readonly EngineKind[] = [
  {
    name: "zvec-f32",
    title: "zvec 0.7.0 f32",
    note: "A collection on disk, of one field and one segment; its answers are whole documents.",
    open: (shape) => open(shape, false),
  },
  {
    name: "zvec-int8",
    title: "zvec 0.7.0 int8",
    note: "With its refiner, which scores what the codes find from the full vectors.",
    open: (shape) => open(shape, true),
  },
];
