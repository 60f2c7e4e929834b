// How does the benchmark use LanceDB's full-text search?

import { rival } from "../../shared/engine.ts";
import { bytesBelow } from "../../shared/files.ts";
import type { EngineKind } from "../engine.ts";

export const lancedb: EngineKind = {
  name: "lancedb",
  title: "LanceDB 0.39.0",
  note: "A table on disk, its text index without positions; bytes are those of the index's files. k1 and b cannot be set. English: its stemmer and its stop words. Its searches run in threads of its own and through its query planner.",
  async open({ language, directory }) {
    const { connect, Index, MatchQuery } = rival("@lancedb/lancedb");
    const arrow = rival("apache-arrow");
    const database = await connect(directory);
    const isEnglish = language === "english";
    let table: Awaited<ReturnType<typeof database.createTable>> | undefined;
    return {
      async add(rows, first) {
        const part = new arrow.Table({
          id: arrow.makeVector(Int32Array.from(rows, (_, i) => first + i)),
          text: arrow.vectorFromArray(rows, new arrow.Utf8()),
        });
        if (table === undefined) table = await database.createTable("bench", part);
        else await table.add(part);
      },
      async finish() {
        await table.optimize();
        const config = Index.fts({
          withPosition: false,
          baseTokenizer: "simple",
          language: "English",
          lowercase: true,
          stem: isEnglish,
          removeStopWords: isEnglish,
          asciiFolding: isEnglish,
        });
        await table.createIndex("text", { config });
        const { numUnindexedRows } = await table.indexStats("text_idx");
        if (numUnindexedRows > 0) throw new Error(`${numUnindexedRows} rows are not in the index`);
      },
      async search(query: string, k) {
        const asked = table.query().fullTextSearch(new MatchQuery(query, "text")).limit(k);
        const found = await asked.select(["id", "_score"]).toArrow();
        // An empty result has no columns.
        return found.getChild("id")?.toArray() ?? [];
      },
      bytes: () => bytesBelow(directory, (path) => path.includes("_indices")),
    };
  },
};
