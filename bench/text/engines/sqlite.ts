// How does the benchmark use SQLite's FTS5?

import { DatabaseSync } from "node:sqlite";
import type { EngineKind } from "../engine.ts";

/** The SQLite that is compiled into Node.js. */
const version = process.versions.sqlite;

export const sqlite: EngineKind = {
  name: "sqlite",
  title: `SQLite FTS5 (node:sqlite ${version})`,
  note: "The SQLite that Node.js brings, in memory, without the texts (content=''), merged into one segment; each search is an SQL statement, prepared once. Its k1 and b are fixed, and its idf is the older one, log((N - df + 0.5) / (df + 0.5)). English: its Porter stemmer; it has no stop words.",
  open({ language }) {
    const database = new DatabaseSync(":memory:");
    const tokenizer = language === "english" ? "porter unicode61" : "unicode61";
    database.exec(`create virtual table t using fts5(text, content='', tokenize='${tokenizer}')`);
    const insert = database.prepare("insert into t(rowid, text) values (?, ?)");
    const select = database.prepare("select rowid from t where t match ? order by rank limit ?");
    const numberOf = (pragma: string): number =>
      Number(Object.values(database.prepare(`pragma ${pragma}`).get() ?? {})[0]);
    return {
      add(rows, first) {
        database.exec("begin");
        // A rowid of 0 would work, but is unusual.
        rows.forEach((row, i) => void insert.run(first + i + 1, row));
        database.exec("commit");
      },
      finish: () => void database.exec("insert into t(t) values ('optimize')"),
      search: (query: string, k) =>
        select.all(query.replaceAll(" ", " OR "), k).map(({ rowid }) => Number(rowid) - 1),
      bytes: () => numberOf("page_count") * numberOf("page_size"),
    };
  },
};
