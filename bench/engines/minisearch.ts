// How does a benchmark use MiniSearch?

import { createAnalyzer } from "../../packages/engine/src/text/analyzer.ts";
import { tokenize } from "../../packages/engine/src/text/tokenize.ts";
import { b, type EngineKind, k1, rival } from "./engine.ts";

export const minisearch: EngineKind = {
  name: "minisearch",
  title: "MiniSearch 7.2.0",
  note: "It brings no stemmer, so that it is given Quiver's analysis. Its BM25+ with d = 0 is BM25, but a length is the number of different terms, and a score is multiplied by how many terms of the query are met: its ten are other ones by design.",
  open({ language }) {
    const MiniSearch = rival("minisearch");
    const analyzer = createAnalyzer(language);
    const index = new MiniSearch({
      fields: ["text"],
      tokenize: (text: string) => analyzer.terms(tokenize(text)),
      processTerm: (term: string) => term,
    });
    const options = { combineWith: "OR", bm25: { k: k1, b, d: 0 } };
    return {
      add: (items, first) => index.addAll(items.map(({ text }, i) => ({ id: first + i, text }))),
      prepare: ({ text }) => text,
      search: (query: string, k) =>
        index
          .search(query, options)
          .slice(0, k)
          .map(({ id }: { id: number }) => id),
    };
  },
};
