// What data do the tests and the pictures of the console show?
//
// A collection of short notes on six subjects. Each note is made of words of its subject; its vectors are made of these words, so that notes
// of a subject lie together. The same seed makes the same notes.

import type { QuiverClient, RecordInput } from "@quiverdb/client";

export const dimension = 64;

const subjects: Readonly<Record<string, string>> = {
  insects: "bee ant beetle wing nest honey swarm larva antenna flower pollen cricket moth wasp hive",
  bread: "dough yeast oven crust flour rye loaf sourdough salt bake crumb wheat knead steam butter",
  astronomy: "star galaxy orbit comet moon telescope planet light dust ring nebula eclipse sun gravity",
  rivers: "river bank delta flood salmon current bridge valley mud dam source estuary heron reed",
  music: "chord rhythm violin choir drum melody tempo scale harmony opera string brass song tuning",
  chess: "pawn rook bishop opening endgame queen castle check tempo sacrifice board clock fork pin",
};
const verbs = ["near", "and the", "with a", "beside", "under the", "after the", "without", "like a"];

function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A vector for each word: the same at each call. */
function wordVector(word: string): Float32Array {
  const random = randomFrom(
    [...word].reduce((hash, letter) => Math.imul(hash, 31) + letter.charCodeAt(0), 7),
  );
  return Float32Array.from({ length: dimension }, () => random() - 0.5);
}

const vocabulary = [...new Set(Object.values(subjects).flatMap((words) => words.split(" ")))];
const vectors = new Map(vocabulary.map((word) => [word, wordVector(word)]));

/** @param from number of the first note */
export function notes(count: number, from = 0): RecordInput[] {
  const names = Object.keys(subjects);
  return Array.from({ length: count }, (_, i) => {
    const number = from + i;
    const random = randomFrom(number + 1);
    // The first numbers of neighbouring seeds are alike.
    for (let skipped = 0; skipped < 8; skipped++) random();
    const subject = names[number % names.length];
    const words = subjects[subject].split(" ");
    const used = Array.from(
      { length: 5 + Math.floor(random() * 5) },
      () => words[Math.floor(random() * words.length)],
    );
    const dense = new Float32Array(dimension);
    const subjectVector = wordVector(subject);
    for (let d = 0; d < dimension; d++) {
      dense[d] = 2.2 * subjectVector[d] + 0.25 * (random() - 0.5);
      for (const word of used) dense[d] += (vectors.get(word)?.[d] ?? 0) / Math.sqrt(used.length);
    }
    const counted = new Map<number, number>();
    for (const word of used)
      counted.set(vocabulary.indexOf(word), (counted.get(vocabulary.indexOf(word)) ?? 0) + 1);
    const sentence = used.map((word, w) =>
      w === 0 ? word : `${verbs[Math.floor(random() * verbs.length)]} ${word}`,
    );
    return {
      id: `note-${String(number).padStart(5, "0")}`,
      document_id: `${subject}-${Math.floor(number / 60)}`,
      dense_values: dense,
      sparse_indices: [...counted.keys()],
      sparse_values: [...counted.values()],
      text: `A ${sentence.join(" ")}.`,
      metadata: { subject, year: 1990 + Math.floor(random() * 35), rating: Math.round(random() * 50) / 10 },
    };
  });
}

/** Makes the collection `notes`, with every index, some versions, and transactions in several states. */
export async function fill(client: QuiverClient, count: number): Promise<void> {
  const collection = await client.createCollection({
    name: "notes",
    description: "Short notes on six subjects",
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    store_raw_text: true,
  });
  await collection.createDenseIndex({ distance_metric_type: "cosine" });
  await collection.createSparseIndex();
  await collection.createTextIndex({ positions: true });
  await collection.createMetadataIndex("subject", "keyword");
  await collection.createMetadataIndex("year", "number");
  const half = Math.floor(count / 2);
  await collection.upsert(notes(half), { batchRecords: Math.ceil(half / 5) });
  const committed = await collection.transaction();
  await committed.upsert(notes(count - half, half));
  await committed.commit();
  const aborted = await collection.transaction();
  await aborted.upsert(notes(20, count));
  await aborted.abort();
  for (const id of ["note-00003", "note-00004", "note-00005"]) await collection.delete(id);
  await collection.waitForIndex();
  const open = await collection.transaction();
  await open.upsert(notes(30, count));
}
