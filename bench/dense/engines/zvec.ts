// How does the benchmark use zvec?

import { openZvec, zvecCollection } from "../../shared/zvec.ts";
import { type Engine, type EngineKind, efConstruction, m, type Shape } from "../engine.ts";

function open({ metric, dimension, directory }: Shape, isInteger: boolean): Engine {
  const zvec = openZvec();
  const { ZVecIndexType, ZVecMetricType, ZVecQuantizeType, ZVecDataType } = zvec;
  const metricType = { cosine: "COSINE", euclidean: "L2", dot_product: "IP" }[metric];
  const indexType = ZVecIndexType.HNSW;
  const vectors = {
    name: "v",
    dataType: ZVecDataType.VECTOR_FP32,
    dimension,
    indexParams: {
      indexType,
      metricType: ZVecMetricType[metricType],
      m,
      efConstruction,
      quantizeType: isInteger ? ZVecQuantizeType.INT8 : ZVecQuantizeType.UNDEFINED,
    },
  };
  const recordOf = (v: Float32Array) => ({ vectors: { v } });
  const { add, finish, idsOf } = zvecCollection(zvec, directory, { vectors }, recordOf);
  return {
    add,
    finish,
    search: (query: Float32Array, k, ef) =>
      idsOf({
        fieldName: "v",
        vector: query,
        topk: k,
        params: { indexType, ef, isUsingRefiner: isInteger },
      }),
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
