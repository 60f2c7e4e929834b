// How does the benchmark use vectorlite, inside SQLite?

import { rival } from "../../shared/engine.ts";
import { type EngineKind, efConstruction, m } from "../engine.ts";

const spaces = { cosine: "cosine", euclidean: "l2", dot_product: "ip" } as const;

const bytesOf = (values: Float32Array): Buffer =>
  Buffer.from(values.buffer, values.byteOffset, values.byteLength);

export const vectorlite: readonly EngineKind[] = [
  {
    name: "vectorlite",
    title: "vectorlite 0.2.0",
    note: "In better-sqlite3, in memory; each search is an SQL statement.",
    open({ metric, dimension, count }) {
      const Database = rival("better-sqlite3");
      const database = new Database(":memory:");
      database.loadExtension(rival("vectorlite").vectorlitePath());
      database.exec(
        `create virtual table t using vectorlite(v float32[${dimension}] ${spaces[metric]}, ` +
          `hnsw(max_elements=${count}, M=${m}, ef_construction=${efConstruction}))`,
      );
      const insert = database.prepare("insert into t(rowid, v) values (?, ?)");
      const select = database.prepare("select rowid from t where knn_search(v, knn_param(?, ?, ?))").pluck();
      return {
        add(rows, first) {
          database.exec("begin");
          rows.forEach((row, i) => void insert.run(first + i, bytesOf(row)));
          database.exec("commit");
        },
        prepare: bytesOf,
        // Numbers would be bound as REAL, which it rejects.
        search: (query: Buffer, k, ef) => select.all(query, BigInt(k), BigInt(ef)),
      };
    },
  },
];
