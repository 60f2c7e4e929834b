// How does a benchmark use vectorlite, inside SQLite?

import { bytesOf, type EngineKind, m, rival } from "./engine.ts";
import { hnswSpaces } from "./hnswlib.ts";

export const vectorlite: EngineKind = {
  name: "vectorlite",
  title: "vectorlite 0.2.0",
  note: "In better-sqlite3, in memory; each search is an SQL statement.",
  open({ metric, dimension, count, efConstruction }) {
    const Database = rival("better-sqlite3");
    const database = new Database(":memory:");
    database.loadExtension(rival("vectorlite").vectorlitePath());
    database.exec(
      `create virtual table t using vectorlite(v float32[${dimension}] ${hnswSpaces[metric]}, ` +
        `hnsw(max_elements=${count}, M=${m}, ef_construction=${efConstruction}))`,
    );
    const insert = database.prepare("insert into t(rowid, v) values (?, ?)");
    const select = database.prepare("select rowid from t where knn_search(v, knn_param(?, ?, ?))").pluck();
    return {
      add(items, first) {
        database.exec("begin");
        items.forEach(({ vector }, i) => void insert.run(first + i, bytesOf(vector as Float32Array)));
        database.exec("commit");
      },
      prepare: ({ vector }) => bytesOf(vector as Float32Array),
      // Numbers would be bound as REAL, which it rejects.
      search: (query: Buffer, k, ef) => select.all(query, BigInt(k), BigInt(ef)),
    };
  },
};
