// How does a benchmark use hnswlib, through hnswlib-node?

import { type EngineKind, type Item, m, rival } from "./engine.ts";
import { holds } from "./filter.ts";

export const hnswSpaces = { cosine: "cosine", euclidean: "l2", dot_product: "ip" } as const;

type Prepared = { readonly vector: number[]; readonly filters: Item["filters"] };

export const hnswlib: EngineKind = {
  name: "hnswlib",
  title: "hnswlib-node 3.0.0",
  note: "Compiled here by its own build script, without flags for this processor. Filters are its filter function, which is called for each node that it meets; the fields are in arrays of JavaScript.",
  open({ metric, dimension, count, efConstruction, ef, fields }) {
    const { HierarchicalNSW } = rival("hnswlib-node");
    const index = new HierarchicalNSW(hnswSpaces[metric], dimension);
    index.initIndex(count, m, efConstruction, 100);
    const stored: NonNullable<Item["fields"]>[] = [];
    return {
      add(items, first) {
        for (const [i, item] of items.entries()) {
          index.addPoint([...(item.vector as Float32Array)], first + i);
          if (fields.length > 0) stored.push(item.fields ?? {});
        }
      },
      // Its interface wants arrays of numbers.
      prepare: ({ vector, filters }): Prepared => ({ vector: [...(vector as Float32Array)], filters }),
      search({ vector, filters }: Prepared, k, effort) {
        const tree = filters?.[effort];
        const passes = tree ? (id: number) => holds(tree, stored[id]) : undefined;
        index.setEf(ef ?? effort);
        return index.searchKnn(vector, k, passes).neighbors;
      },
    };
  },
};
