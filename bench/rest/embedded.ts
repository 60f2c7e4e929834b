// What does the same search cost in a process of its own, without a server?

import { openDatabase } from "../../packages/engine/src/database/database.ts";
import { median } from "../shared/figures.ts";
import { ownCpuMs, untilQuiet } from "../shared/quiet.ts";
import { definitionOf, queries, questions, recordsOf, topK } from "./data.ts";

/** Microseconds of processor time of this process for a search; the median of the rounds. */
export async function embeddedUs(
  dataDir: string,
  size: number,
  searches: number,
  rounds: number,
): Promise<number> {
  const database = await openDatabase({ dataDir });
  try {
    const definition = definitionOf(size);
    await database.createCollection(definition);
    const collection = database.collection(definition.name);
    await collection.upsert(recordsOf(size).map(({ id, vector }) => ({ id, dense_values: vector })));
    await collection.indexed();
    await untilQuiet(ownCpuMs);
    const turn = async () => {
      const before = ownCpuMs();
      for (let i = 0; i < searches; i++)
        await collection.search("dense", { query_vector: questions[i % queries], top_k: topK });
      return ((ownCpuMs() - before) * 1_000) / searches;
    };
    // The first two are for the compiler.
    const turns: number[] = [];
    for (let round = -2; round < rounds; round++) turns.push(await turn());
    return median(turns.slice(2));
  } finally {
    await database.close();
  }
}
