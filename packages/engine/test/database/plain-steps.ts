// Steps that make the same collection, and the same answers, in any engine: records of all sorts, all kinds of index, searches of each.

import { randomNumbers } from "@quiverdb/kernels/random";
import type * as search from "@quiverdb/protocol/shapes/search";
import type { VectorWrite } from "../../src/collection/schema.ts";
import type { Collection } from "../../src/database/contract.ts";

/** What the steps need of a collection. */
export interface SteppedCollection {
  upsert(vectors: readonly VectorWrite[]): Promise<void>;
  delete(id: string): Promise<void>;
  /** Resolves when all indexes have all records in their final places. */
  built(): Promise<void>;
  search: Collection["search"];
}

const dimension = 16;
const records = 600;
const words = [
  "river",
  "Mountain",
  "größer",
  "running",
  "ran",
  "cities",
  "数据库",
  "naïve",
  "o'clock",
  "engine",
];

export const definition = {
  name: "plain",
  dense_vector: { enabled: true, dimension },
  sparse_vector: { enabled: true },
  tf_idf_options: { enabled: true },
  config: {},
};

export const indexes = {
  dense: {
    name: "d",
    distance_metric_type: "cosine",
    quantization: { type: "auto", properties: { sample_threshold: 100 } },
    index: { type: "hnsw", properties: {} },
  },
  sparse: { name: "s", quantization: 64, sample_threshold: 1 },
  text: { name: "t", sample_threshold: 1, k1: 1.2, b: 0.75 },
} as const;

/** @returns all answers, in order */
export async function takeSteps(collection: SteppedCollection): Promise<search.SearchResponse[]> {
  const next = randomNumbers(14);
  const vector = () => Array.from({ length: dimension }, () => next() * 2 - 1);
  const text = () =>
    Array.from({ length: 12 }, () => words[Math.floor(next() ** 2 * words.length)]).join(" ");
  const sparse = () =>
    Array.from({ length: 6 }, (_, i): [number, number] => [10 * i + Math.floor(next() * 9), next() + 0.1]);
  const record = (i: number): VectorWrite => ({
    id: `vé-${i}`,
    document_id: `document ${i % 7}`,
    dense_values: vector(),
    sparse_values: sparse(),
    text: text(),
    metadata: { i },
  });
  for (let from = 0; from < records; from += 100)
    await collection.upsert(Array.from({ length: 100 }, (_, i) => record(from + i)));
  // Some are replaced.
  await collection.upsert(Array.from({ length: 20 }, (_, i) => record(i * 11)));

  const queries = Array.from({ length: 4 }, () => ({
    dense: vector(),
    terms: sparse(),
    text: `${text()} running`,
  }));
  const answers: search.SearchResponse[] = [];
  const ask = async () => {
    for (const query of queries) {
      const [query_vector, query_terms, query_text] = [query.dense, query.terms, query.text];
      // Wide enough to find every record, so that the answer does not depend on the threads that built the graph.
      const wide = { query_vector, top_k: 10, ef_search: records };
      answers.push(
        await collection.search("dense", wide),
        await collection.search("dense", { query_vector, top_k: 10, exact: true }),
        await collection.search("sparse", { query_terms, top_k: 10 }),
        await collection.search("text", { query: query_text, top_k: 10, return_raw_text: true }),
        await collection.search("hybrid", { ...wide, query_terms, query_text, explain: true }),
      );
    }
  };
  await collection.built();
  await ask();
  await collection.delete(answers[0].results[0].id);
  await ask();
  return answers;
}
