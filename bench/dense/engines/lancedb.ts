// How does the benchmark use LanceDB?
//
// Its HNSW graphs are below an IVF index: one partition makes one graph of all rows. The graph compares 8-bit codes; with `refineFactor`
// the best of them are scored again from the table's vectors.

import { rival } from "../../shared/engine.ts";
import { type Engine, type EngineKind, efConstruction, m, type Shape } from "../engine.ts";

const distances = { cosine: "cosine", euclidean: "l2", dot_product: "dot" } as const;

/** Rows a batch of the table. */
const batch = 10_000;

function tableOf(rows: readonly Float32Array[], first: number, dimension: number) {
  const arrow = rival("apache-arrow");
  const values = new Float32Array(rows.length * dimension);
  rows.forEach((row, i) => void values.set(row, i * dimension));
  const type = new arrow.FixedSizeList(dimension, new arrow.Field("item", new arrow.Float32(), true));
  const child = arrow.makeVector(values).data[0];
  return new arrow.Table({
    id: arrow.makeVector(Int32Array.from(rows, (_, i) => first + i)),
    vector: new arrow.Vector([arrow.makeData({ type, length: rows.length, nullCount: 0, child })]),
  });
}

async function open({ metric, dimension, directory }: Shape, refine: number): Promise<Engine> {
  const { connect, Index } = rival("@lancedb/lancedb");
  const database = await connect(directory);
  const distanceType = distances[metric];
  let table: Awaited<ReturnType<typeof database.createTable>> | undefined;
  return {
    async add(rows, first) {
      for (let at = 0; at < rows.length; at += batch) {
        const part = tableOf(rows.slice(at, at + batch), first + at, dimension);
        if (table === undefined) table = await database.createTable("bench", part);
        else await table.add(part);
      }
    },
    async finish() {
      await table.optimize();
      await table.createIndex("vector", {
        config: Index.hnswSq({ distanceType, numPartitions: 1, m, efConstruction }),
      });
      const { numUnindexedRows } = await table.indexStats("vector_idx");
      if (numUnindexedRows > 0) throw new Error(`${numUnindexedRows} rows are not in the index`);
    },
    async search(query: Float32Array, k, ef) {
      const asked = table
        .query()
        .nearestTo(query)
        .distanceType(distanceType)
        .nprobes(1)
        // It rejects a beam width smaller than the number of results to re-score.
        .ef(Math.max(ef, k * Math.max(1, refine)))
        .limit(k)
        .select(["id", "_distance"]);
      const found = await (refine > 0 ? asked.refineFactor(refine) : asked).toArrow();
      return found.getChild("id").toArray();
    },
  };
}

export const lancedb: readonly EngineKind[] = [
  {
    name: "lancedb-sq",
    title: "LanceDB 0.39.0 HNSW_SQ",
    note: "IVF_HNSW_SQ with one partition, so that there is one graph; no re-scoring. Its searches run in threads of its own and through its query planner.",
    open: (shape) => open(shape, 0),
  },
  {
    name: "lancedb-sq-refine",
    title: "LanceDB 0.39.0 HNSW_SQ, refined",
    note: "As above, with a refine factor of 2: 2 k of what is found scored again from the vectors of the table.",
    open: (shape) => open(shape, 2),
  },
];
