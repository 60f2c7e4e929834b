// How does the benchmark use hnswlib, through hnswlib-node?

import { rival } from "../../shared/engine.ts";
import { type EngineKind, efConstruction, m } from "../engine.ts";

const spaces = { cosine: "cosine", euclidean: "l2", dot_product: "ip" } as const;

export const hnswlib: readonly EngineKind[] = [
  {
    name: "hnswlib",
    title: "hnswlib-node 3.0.0",
    note: "Compiled here by its own build script, without flags for this processor.",
    open({ metric, dimension, count }) {
      const { HierarchicalNSW } = rival("hnswlib-node");
      const index = new HierarchicalNSW(spaces[metric], dimension);
      index.initIndex(count, m, efConstruction, 100);
      return {
        add: (rows, first) => rows.forEach((row, i) => void index.addPoint([...row], first + i)),
        // Its interface wants arrays of numbers.
        prepare: (query) => [...query],
        search(query: number[], k, ef) {
          index.setEf(ef);
          return index.searchKnn(query, k).neighbors;
        },
      };
    },
  },
];
