// How does the benchmark use Quiver's text index?

import "../../../packages/engine/src/process/node-host.ts";
import { TextIndex } from "../../../packages/engine/src/index/text/text-index.ts";
import { tokenize } from "../../../packages/engine/src/text/tokenize.ts";
import { finishOf, idsOf, openCollection, upsertRows } from "../../shared/quiver-database.ts";
import { bestFirst, tidiedAtOnce } from "../../shared/quiver-index.ts";
import { b, type EngineKind, k1 } from "../engine.ts";

export const quiver: EngineKind = {
  name: "quiver",
  title: "Quiver",
  isOurs: true,
  note: "Its text index in this process, without a server, after what a collection does when it is idle (it counts as building). English: the Snowball stemmer and Lucene's 33 stop words; marks and apostrophes are folded away.",
  open({ language }) {
    const index = new TextIndex({ language, k1, b });
    return {
      add(rows, first) {
        for (let i = 0; i < rows.length; i++) index.add(first + i, tokenize(rows[i]));
      },
      finish() {
        while (index.tidy(tidiedAtOnce, true));
      },
      search(query: string, k) {
        return bestFirst(index.reader.search(query, k, index.statistics(), null), k);
      },
      bytes: () => index.memoryBytes,
    };
  },
};

export const quiverDatabase: EngineKind = {
  name: "quiver-database",
  title: "Quiver, the whole database",
  isOurs: true,
  note: "The embedded engine as a program uses it: records are written durably and then indexed, searches are checked, see one version and fetch what they find. They begin when the collection is idle. The same analysis.",
  async open({ language, directory }) {
    const collection = await openCollection(directory, { text: true });
    await collection.createTextIndex({ name: "text", sample_threshold: 1, k1, b, language });
    return {
      add: (rows, first) => upsertRows(collection, rows, first, (text) => ({ text })),
      ...finishOf(collection),
      search: async (query: string, top_k) => idsOf(await collection.search("text", { query, top_k })),
    };
  },
};
