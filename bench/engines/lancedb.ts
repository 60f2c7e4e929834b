// How does a benchmark use LanceDB?
//
// Its HNSW graphs are below an IVF index: one partition makes one graph of all rows. The graph compares 8-bit codes; with `refineFactor`
// the best of them are scored again from the table's vectors.

import { bytesBelow } from "../shared/files.ts";
import { type Engine, type EngineKind, type Item, m, rival, type Shape } from "./engine.ts";
import { sqlOf } from "./filter.ts";

const distances = { cosine: "cosine", euclidean: "l2", dot_product: "dot" } as const;

function tableOf(items: readonly Item[], first: number, { kind, dimension, fields }: Shape) {
  const arrow = rival("apache-arrow");
  const columns: Record<string, unknown> = {
    id: arrow.makeVector(Int32Array.from(items, (_, i) => first + i)),
  };
  if (kind === "dense") {
    const values = new Float32Array(items.length * dimension);
    items.forEach(({ vector }, i) => void values.set(vector as Float32Array, i * dimension));
    const type = new arrow.FixedSizeList(dimension, new arrow.Field("item", new arrow.Float32(), true));
    const child = arrow.makeVector(values).data[0];
    columns.vector = new arrow.Vector([arrow.makeData({ type, length: items.length, nullCount: 0, child })]);
  } else
    columns.text = arrow.vectorFromArray(
      items.map(({ text }) => text),
      new arrow.Utf8(),
    );
  for (const field of fields)
    columns[field] = arrow.makeVector(Float64Array.from(items, (item) => item.fields?.[field] ?? 0));
  return new arrow.Table(columns);
}

/** @param refine the refine factor; 0: what the codes find is not scored again */
async function open(shape: Shape, refine: number): Promise<Engine> {
  const { kind, metric, directory, fields, efConstruction, language } = shape;
  const { connect, Index, MatchQuery } = rival("@lancedb/lancedb");
  const database = await connect(directory);
  const distanceType = distances[metric];
  const isEnglish = language === "english";
  let table: Awaited<ReturnType<typeof database.createTable>> | undefined;
  return {
    async add(items, first) {
      const part = tableOf(items, first, shape);
      if (table === undefined) table = await database.createTable("bench", part);
      else await table.add(part);
    },
    async finish() {
      await table.optimize();
      const [column, config] =
        kind === "dense"
          ? ["vector", Index.hnswSq({ distanceType, numPartitions: 1, m, efConstruction })]
          : [
              "text",
              Index.fts({
                withPosition: false,
                baseTokenizer: "simple",
                language: "English",
                lowercase: true,
                stem: isEnglish,
                removeStopWords: isEnglish,
                asciiFolding: isEnglish,
              }),
            ];
      await table.createIndex(column, { config });
      for (const field of fields) await table.createIndex(field, { config: Index.btree() });
      const { numUnindexedRows } = await table.indexStats(`${column}_idx`);
      if (numUnindexedRows > 0) throw new Error(`${numUnindexedRows} rows are not in the index`);
    },
    async search({ vector, text, filters }: Item, k, effort) {
      const tree = filters?.[effort];
      const dense = () => {
        const asked = table
          .query()
          .nearestTo(vector)
          .distanceType(distanceType)
          .nprobes(1)
          // It rejects a beam width smaller than the number of results to re-score.
          .ef(Math.max(shape.ef ?? effort, k * Math.max(1, refine)))
          .limit(k)
          .select(["id", "_distance"]);
        return refine > 0 ? asked.refineFactor(refine) : asked;
      };
      const asked =
        kind === "dense"
          ? dense()
          : table.query().fullTextSearch(new MatchQuery(text, "text")).limit(k).select(["id", "_score"]);
      const found = await (tree ? asked.where(sqlOf(tree)) : asked).toArrow();
      // An empty result has no columns.
      return found.getChild("id")?.toArray() ?? [];
    },
    ...(kind === "text" && { bytes: () => bytesBelow(directory, (path) => path.includes("_indices")) }),
  };
}

const sq = "IVF_HNSW_SQ with one partition, so that there is one graph";
const threads = "Its searches run in threads of its own and through its query planner.";

export const lancedb: EngineKind = {
  name: "lancedb-sq",
  title: "LanceDB 0.39.0 HNSW_SQ",
  note: `${sq}; no re-scoring. ${threads}`,
  open: (shape) => open(shape, 0),
};

export const lancedbRefined: EngineKind = {
  name: "lancedb-sq-refine",
  title: "LanceDB 0.39.0 HNSW_SQ, refined",
  note: `${sq}, with a refine factor of 2: 2 k of what is found scored again from the vectors of the table. ${threads} Fields have a BTREE index; filters are applied before the search, as by default.`,
  open: (shape) => open(shape, 2),
};

export const lancedbText: EngineKind = {
  name: "lancedb",
  title: "LanceDB 0.39.0",
  note: `A table on disk, its text index without positions; bytes are those of the index's files. k1 and b cannot be set. English: its stemmer and its stop words. ${threads}`,
  open: (shape) => open(shape, 0),
};
