// What is the sample data set, and how does it come onto a server?
//
// 120 short texts with every kind of vector and fields that make filters and facets worth trying. The vectors come from no model: each topic,
// area and word has a direction of its own, and a record adds up those that it has. Records of a topic therefore lie together.

import type { QuiverClient, RecordInput } from "@quiverdb/client";
import type { CollectionSummary } from "@quiverdb/protocol/shapes/collection";
import { topics } from "./texts.ts";

const name = "sample";
const description = "The sample data set of the console: short texts on twelve topics";
const dimension = 64;
const batchRecords = 20;

/** Whether a collection is the sample: one of a user may have the same name. */
export const isSample = (collection: CollectionSummary): boolean =>
  collection.name === name && collection.description === description;

export const sample = { name, texts: Object.values(topics).flat().length } as const;

const areaOf: Readonly<Record<string, string>> = {
  insects: "nature",
  mountains: "nature",
  oceans: "nature",
  birds: "nature",
  astronomy: "science",
  weather: "science",
  bread: "culture",
  music: "culture",
  chess: "culture",
  railways: "engineering",
  bridges: "engineering",
  computers: "engineering",
};

/** Shorter words say little about a text. */
const wordsOf = (text: string): string[] => text.toLowerCase().match(/\p{L}{4,}/gu) ?? [];

const vocabulary = [...new Set(Object.values(topics).flat().flatMap(wordsOf))];

/** Adds the direction of a feature, 1 or -1 in each dimension: of any two, they are nearly at right angles. */
function add(vector: number[], feature: string, weight: number): void {
  let state = 7;
  for (const letter of feature) state = Math.imul(state, 31) + letter.charCodeAt(0);
  for (let d = 0; d < dimension; d++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    vector[d] += state < 0 ? -weight : weight;
  }
}

function recordOf(topic: string, text: string, i: number, number: number): RecordInput {
  const words = [...new Set(wordsOf(text))];
  const vector = new Array<number>(dimension).fill(0);
  add(vector, areaOf[topic], 0.6);
  add(vector, topic, 1);
  for (const word of words) add(vector, word, 0.5);
  const length = Math.hypot(...vector);
  return {
    id: `${topic}-${i + 1}`,
    document_id: topic,
    text,
    dense_values: vector.map((value) => Number((value / length).toFixed(4))),
    sparse_indices: words.map((word) => vocabulary.indexOf(word)),
    sparse_values: words.map(() => 1),
    metadata: {
      topic,
      area: areaOf[topic],
      year: 2000 + ((number * 37) % 25),
      rating: 1 + ((number * 7) % 9) / 2,
    },
  };
}

const records = (): RecordInput[] =>
  Object.entries(topics).flatMap(([topic, texts], t) =>
    texts.map((text, i) => recordOf(topic, text, i, t * texts.length + i)),
  );

/**
 * Makes the collection with its indexes and records; resolves when everything is indexed.
 * @param tell called with the share of the records that are written, 0 to 1
 * @throws QuiverError collection_already_exists
 */
export async function loadSample(client: QuiverClient, tell: (share: number) => void): Promise<void> {
  const collection = await client.createCollection({
    name,
    description,
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    store_raw_text: true,
  });
  await collection.createDenseIndex({ distance_metric_type: "cosine" });
  await collection.createSparseIndex();
  await collection.createTextIndex({ positions: true });
  for (const field of ["topic", "area"]) await collection.createMetadataIndex(field, "keyword");
  for (const field of ["year", "rating"]) await collection.createMetadataIndex(field, "number");
  await collection.upsert(records(), {
    batchRecords,
    onProgress: ({ acknowledged }) => tell(acknowledged / sample.texts),
  });
  await collection.waitForIndex();
}
