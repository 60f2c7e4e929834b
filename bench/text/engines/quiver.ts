// How is Quiver's text index asked?

import { TextIndex } from "../../../packages/engine/src/index/text/text-index.ts";
import { segment } from "../../../packages/engine/src/text/segment.ts";
import { b, type EngineKind, k1 } from "../engine.ts";

export const quiver: EngineKind = {
  name: "quiver",
  title: "Quiver",
  isOurs: true,
  note: "Its text index in this process, without a server. English: the Snowball stemmer and Lucene's 33 stop words; marks and apostrophes are folded away.",
  open({ language }) {
    const index = new TextIndex({ language, k1, b });
    return {
      add(rows, first) {
        for (let i = 0; i < rows.length; i++) index.add(first + i, segment(rows[i]));
      },
      search(query: string, k) {
        const { ordinals, scores } = index.search(query, k, index.statistics(), null);
        // They come in any order, with all ties at the boundary.
        const places = Array.from(ordinals, (_, i) => i).sort((x, y) => scores[y] - scores[x]);
        return places.slice(0, k).map((place) => ordinals[place]);
      },
      bytes: () => index.memoryBytes,
    };
  },
};
