// How does the benchmark use Quiver's sparse search?

import "../../../packages/engine/src/process/node-host.ts";
import { SparseIndex } from "../../../packages/engine/src/index/sparse/sparse-index.ts";
import { finishOf, idsOf, openCollection, upsertRows } from "../../shared/quiver-database.ts";
import { bestFirst, tidiedAtOnce } from "../../shared/quiver-index.ts";
import type { EngineKind, SparseVector } from "../engine.ts";

export const quiver: EngineKind = {
  name: "quiver",
  title: "Quiver",
  isOurs: true,
  note: "Its sparse index in this process, without a server, after what a collection does when it is idle (it counts as building). An effort is its `early_terminate_threshold`.",
  open() {
    const index = new SparseIndex();
    return {
      add: (rows, first) =>
        rows.forEach(({ indices, values }, i) => void index.add(first + i, indices, values)),
      finish() {
        while (index.tidy(tidiedAtOnce, true));
      },
      search: (query: SparseVector, k, threshold) =>
        bestFirst(index.reader.search(query, k, threshold, null), k),
      bytes: () => index.memoryBytes,
    };
  },
};

export const quiverDatabase: EngineKind = {
  name: "quiver-database",
  title: "Quiver, the whole database",
  isOurs: true,
  note: "The embedded engine as a program uses it: records are written durably and then indexed, searches are checked, see one version and fetch what they find. They begin when the collection is idle.",
  async open({ directory }) {
    const collection = await openCollection(directory, { sparse: true });
    await collection.createSparseIndex({ name: "sparse", quantization: 256, sample_threshold: 1 });
    return {
      add: (rows, first) =>
        upsertRows(collection, rows, first, ({ indices, values }) => ({
          sparse_indices: [...indices],
          sparse_values: [...values],
        })),
      ...finishOf(collection),
      prepare: ({ indices, values }) => Array.from(indices, (index, i) => ({ index, value: values[i] })),
      search: async (query_terms: { index: number; value: number }[], top_k, early_terminate_threshold) =>
        idsOf(await collection.search("sparse", { query_terms, top_k, early_terminate_threshold })),
    };
  },
};
