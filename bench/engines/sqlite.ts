// How does a benchmark use SQLite: its FTS5, and sqlite-vec?

import { DatabaseSync } from "node:sqlite";
import { bytesOf, type EngineKind, type Item, rival } from "./engine.ts";
import { rangesOf, sqlOf, type Tree } from "./filter.ts";

type Prepared = { readonly query: string; readonly filters: Item["filters"] };

/** Statements by their text. */
function statements<Statement>(prepare: (sql: string) => Statement): (sql: string) => Statement {
  const known = new Map<string, Statement>();
  return (sql) => {
    const statement = known.get(sql) ?? prepare(sql);
    known.set(sql, statement);
    return statement;
  };
}

/** A table of the fields, each with an index. */
const fieldsTable = (fields: readonly string[]): string =>
  [
    `create table r(id integer primary key, ${fields.map((field) => `${field} float`).join(", ")})`,
    ...fields.map((field) => `create index r_${field} on r(${field})`),
  ].join(";");
const insertFields = (fields: readonly string[]): string =>
  `insert into r(id, ${fields.join(", ")}) values (?, ${fields.map(() => "?").join(", ")})`;
const matching = (tree: Tree): string => `and rowid in (select id from r where ${sqlOf(tree)})`;
const valuesOf = (item: Item, fields: readonly string[]): number[] =>
  fields.map((field) => item.fields?.[field] ?? 0);

export const sqliteText: EngineKind = {
  name: "sqlite",
  title: `SQLite FTS5 (node:sqlite ${process.versions.sqlite})`,
  note: "The SQLite that Node.js brings, in memory, without the texts (content=''), merged into one segment; each search is an SQL statement, prepared once. A filter is a sub-query on a table with an index of the field. Its k1 and b are fixed, and its idf is the older one, log((N - df + 0.5) / (df + 0.5)), so it finds others in part. English: its Porter stemmer; it has no stop words.",
  refuses: ({ kind }) => (kind === "text" ? undefined : "it has no sparse vectors"),
  open({ language, fields }) {
    const database = new DatabaseSync(":memory:");
    const tokenizer = language === "english" ? "porter unicode61" : "unicode61";
    database.exec(`create virtual table t using fts5(text, content='', tokenize='${tokenizer}')`);
    const hasFields = fields.length > 0;
    if (hasFields) database.exec(fieldsTable(fields));
    const insert = database.prepare("insert into t(rowid, text) values (?, ?)");
    const toFields = hasFields ? database.prepare(insertFields(fields)) : undefined;
    const statement = statements((sql) => database.prepare(sql));
    const numberOf = (pragma: string): number =>
      Number(Object.values(database.prepare(`pragma ${pragma}`).get() ?? {})[0]);
    return {
      add(items, first) {
        database.exec("begin");
        // A rowid of 0 would work, but is unusual.
        for (const [i, item] of items.entries()) {
          insert.run(first + i + 1, item.text as string);
          toFields?.run(first + i + 1, ...valuesOf(item, fields));
        }
        database.exec("commit");
      },
      finish: () => void database.exec("insert into t(t) values ('optimize')"),
      prepare: ({ text, filters }): Prepared => ({
        query: (text as string).replaceAll(" ", " OR "),
        filters,
      }),
      search({ query, filters }: Prepared, k, effort) {
        const tree = filters?.[effort];
        const where = `where t match ? ${tree ? matching(tree) : ""}`;
        const found = statement(`select rowid from t ${where} order by rank limit ?`).all(query, k);
        return found.map(({ rowid }) => Number(rowid) - 1);
      },
      bytes: () => numberOf("page_count") * numberOf("page_size"),
    };
  },
};

export const sqliteVec: EngineKind = {
  name: "sqlite-vec",
  title: "sqlite-vec 0.1.9",
  note: "In better-sqlite3, in memory. It compares all vectors. Ranges are conditions on its metadata columns; other filters are a sub-query on a table with an index of each field.",
  open({ dimension, fields }) {
    const Database = rival("better-sqlite3");
    const database = new Database(":memory:");
    rival("sqlite-vec").load(database);
    const columns = fields.map((field) => `${field} float`).join(", ");
    database.exec(
      `create virtual table t using vec0(embedding float[${dimension}] distance_metric=cosine, ${columns})`,
    );
    database.exec(fieldsTable(fields));
    const marks = fields.map(() => "?").join(", ");
    const toVectors = database.prepare(
      `insert into t(rowid, embedding, ${fields.join(", ")}) values (?, ?, ${marks})`,
    );
    const toFields = database.prepare(insertFields(fields));
    const statement = statements((condition) =>
      database.prepare(`select rowid from t where embedding match ? and k = ? ${condition}`).pluck(),
    );
    return {
      add(items, first) {
        database.exec("begin");
        for (const [i, item] of items.entries()) {
          const values = valuesOf(item, fields);
          toVectors.run(BigInt(first + i), bytesOf(item.vector as Float32Array), ...values);
          toFields.run(first + i, ...values);
        }
        database.exec("commit");
      },
      prepare: ({ vector, filters }) => ({ query: bytesOf(vector as Float32Array), filters }),
      search({ query, filters }: { query: Buffer; filters: Item["filters"] }, k, effort) {
        const tree = filters?.[effort];
        const ranges = tree && rangesOf(tree);
        const condition = ranges ? `and ${ranges.map(sqlOf).join(" and ")}` : tree ? matching(tree) : "";
        return statement(condition).all(query, BigInt(k));
      },
    };
  },
};
