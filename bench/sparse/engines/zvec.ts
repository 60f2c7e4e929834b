// How does the benchmark use zvec's sparse search?

import { openZvec, zvecCollection } from "../../shared/zvec.ts";
import type { EngineKind, Shape, SparseVector } from "../engine.ts";

const m = 16;
const efConstruction = 100;
const beam = 300;

/** As zvec wants it: an object with dimensions as keys. */
const recordOf = ({ indices, values }: SparseVector): Record<number, number> =>
  Object.fromEntries(Array.from(indices, (index, i) => [index, values[i]]));

function open({ directory }: Shape, isGraph: boolean) {
  const zvec = openZvec();
  const { ZVecIndexType, ZVecMetricType, ZVecDataType } = zvec;
  const indexType = isGraph ? ZVecIndexType.HNSW : ZVecIndexType.FLAT;
  const indexParams = {
    indexType,
    metricType: ZVecMetricType.IP,
    ...(isGraph ? { m, efConstruction } : {}),
  };
  const vectors = { name: "v", dataType: ZVecDataType.SPARSE_VECTOR_FP32, indexParams };
  const { add, finish, idsOf, bytes } = zvecCollection(zvec, directory, { vectors }, (row: SparseVector) => ({
    vectors: { v: recordOf(row) },
  }));
  return {
    add,
    finish,
    prepare: recordOf,
    search: (vector: Record<number, number>, k: number, ef: number) =>
      idsOf({
        fieldName: "v",
        vector,
        topk: k,
        // A flat index takes no parameters.
        ...(isGraph ? { params: { indexType, ef } } : {}),
      }),
    bytes: () => bytes(),
  };
}

export const zvec: readonly EngineKind[] = [
  {
    name: "zvec-flat",
    title: "zvec 0.7.0, FLAT",
    efforts: [0],
    note: "A collection on disk of one sparse vector; it compares the query with every row. Bytes are those of all files.",
    open: (shape) => open(shape, false),
  },
  {
    name: "zvec-hnsw",
    title: "zvec 0.7.0, HNSW",
    efforts: [beam],
    note: `A collection on disk of one sparse vector, with a graph: M = ${m}, ef_construction = ${efConstruction}. Its beam is that of its own default, ${beam}: sparse searches find the same, in the same time, with every \`ef\` from 10 to 1,000. Bytes are those of all files.`,
    open: (shape) => open(shape, true),
  },
];
