// What does the same search cost in a process of its own, without a server?

import { openDatabase } from "../../packages/engine/src/database/database.ts";
import { ownCpuMs, untilQuiet } from "../shared/quiet.ts";
import { definitionOf, queries, questions, recordsOf, topK } from "./data.ts";

export type Embedded = {
  /** Searches one after the other. @returns microseconds of processor time of this process for a search */
  search(count: number): Promise<number>;
  close(): Promise<void>;
};

/** An engine in this process that has this many records. */
export async function openEmbedded(dataDir: string, size: number): Promise<Embedded> {
  const database = await openDatabase({ dataDir });
  const definition = definitionOf(size);
  await database.createCollection(definition);
  const collection = database.collection(definition.name);
  await collection.upsert(recordsOf(size).map(({ id, vector }) => ({ id, dense_values: vector })));
  await collection.indexed();
  await untilQuiet(ownCpuMs);
  return {
    close: () => database.close(),
    async search(count) {
      const before = ownCpuMs();
      for (let i = 0; i < count; i++)
        await collection.search("dense", { query_vector: questions[i % queries], top_k: topK });
      return ((ownCpuMs() - before) * 1_000) / count;
    },
  };
}
