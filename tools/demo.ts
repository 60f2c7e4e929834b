// What can Quiver do, in one minute and without a download?
//
// Starts a server on a temporary directory and a free port, fills a collection with a small built-in set of texts, runs every kind of
// search through the client, shows a transaction and the versions, and cleans up.
//
// The vectors do not come from a model: words and their prefixes are hashed into a few hundred dimensions. That is enough to place texts
// with common words near each other; it does not capture meaning.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Collection, createClient, type RecordInput } from "@quiverdb/client";
import { type OperationName, operations } from "@quiverdb/engine/operations/operations";
import type { SearchResult } from "@quiverdb/protocol/shapes/search";
import { startServer } from "@quiverdb/server/server";
import { topics } from "../packages/console/src/sample/texts.ts";
import { readOptions } from "./options.ts";

const dimensions = 256;
const lineCharsMax = 100;

const say = (line = "") => process.stdout.write(`${line}\n`);
const title = (text: string) =>
  say(`\n== ${text} ${"=".repeat(Math.max(0, lineCharsMax - text.length - 4))}`);

/** The id of a record is its topic and a number. */
const demoRecords = Object.entries(topics).flatMap(([topic, texts]) =>
  texts.map((text, i) => ({ id: `${topic}-${i + 1}`, topic, text })),
);

// --- Vectors from words ---------------------------------------------------------------------------------------------

const stopWords = new Set(
  "a an and are as at be but by can for from has have he her his if in into is it its more not of on one or than that the their they this through to was were when where which while who will with".split(
    " ",
  ),
);

function wordsOf(text: string): string[] {
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? [];
  return words.filter((word) => !stopWords.has(word)).map((word) => word.replace(/(ies|es|s|ing|ed)$/, ""));
}

/** FNV-1a, 32 bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return value;
}

const texts = demoRecords.map(({ text }) => text);
const documentFrequency = new Map<string, number>();
for (const text of texts) {
  for (const word of new Set(wordsOf(text)))
    documentFrequency.set(word, (documentFrequency.get(word) ?? 0) + 1);
}
/** Rare words are more informative than frequent ones. */
const weightOf = (word: string) => Math.log(1 + texts.length / (documentFrequency.get(word) ?? 1));

/** A unit vector: each word, and with less weight its prefix, is added to or subtracted from one dimension. */
function denseOf(text: string): Float32Array {
  const vector = new Float32Array(dimensions);
  const add = (feature: string, weight: number) => {
    const h = hash(feature);
    vector[h % dimensions] += h & 0x8000_0000 ? weight : -weight;
  };
  for (const word of wordsOf(text)) {
    add(word, weightOf(word));
    if (word.length > 4) add(`${word.slice(0, 4)}*`, weightOf(word) / 2);
  }
  const norm = Math.hypot(...vector) || 1;
  return vector.map((value) => value / norm);
}

/** A dimension for each word, out of four thousand million. */
function sparseOf(text: string): { indices: number[]; values: number[] } {
  const weights = new Map<number, number>();
  for (const word of wordsOf(text)) weights.set(hash(word), (weights.get(hash(word)) ?? 0) + weightOf(word));
  return { indices: [...weights.keys()], values: [...weights.values()] };
}

const termsOf = (text: string) => {
  const { indices, values } = sparseOf(text);
  return indices.map((index, i) => ({ index, value: values[i] }));
};

function recordOf({ id, topic, text }: { id: string; topic: string; text: string }): RecordInput {
  const { indices, values } = sparseOf(text);
  return {
    id,
    document_id: topic,
    text,
    dense_values: denseOf(text),
    sparse_indices: indices,
    sparse_values: values,
    metadata: { topic, words: wordsOf(text).length },
  };
}

// --- What is shown --------------------------------------------------------------------------------------------------

function show(results: readonly SearchResult[]): void {
  for (const [i, { id, score, text }] of results.entries()) {
    const line = `${String(i + 1).padStart(3)}. ${score.toFixed(4).padStart(8)}  ${id.padEnd(13)} ${text ?? ""}`;
    say(line.length > lineCharsMax ? `${line.slice(0, lineCharsMax - 1)}…` : line);
  }
  if (results.length === 0) say("   nothing found");
}

async function fill(collection: Collection): Promise<void> {
  const start = performance.now();
  const { upserted } = await collection.upsert(demoRecords.map(recordOf));
  await collection.createDenseIndex({ distance_metric_type: "cosine" });
  await collection.createSparseIndex();
  await collection.createTextIndex();
  await collection.waitForIndex();
  const ms = Math.round(performance.now() - start);
  const { vectors_count } = await collection.describe();
  say(
    `${upserted} records written and three indexes built in ${ms} ms; the collection has ${vectors_count}.`,
  );
}

async function searchEveryKind({ search }: Collection): Promise<void> {
  const question = "How do insects find their way back to the nest?";
  const query_vector = denseOf(question);
  const query_terms = termsOf(question);
  const query_text = question;
  const common = { top_k: 3, return_raw_text: true };
  say(`The question: ${question}`);

  title("Dense: nearest vectors by cosine");
  show((await search.dense({ query_vector, ...common })).results);
  title("Sparse: largest dot product");
  show((await search.sparse({ query_terms, ...common })).results);
  title("Text: BM25");
  show((await search.text({ query: query_text, ...common })).results);

  title("Hybrid: dense and text, fused by reciprocal rank");
  show((await search.hybrid({ query_vector, query_text, ...common })).results);
  title("Hybrid: dense and sparse");
  show((await search.hybrid({ query_vector, query_terms, ...common })).results);
  title("Hybrid: sparse and text");
  show((await search.hybrid({ query_terms, query_text, ...common })).results);
  title("Hybrid: all three");
  show((await search.hybrid({ query_vector, query_terms, query_text, ...common })).results);
}

async function searchInBatches({ search }: Collection): Promise<void> {
  const questions = [
    "dough that rises slowly",
    "light from distant galaxies",
    "steam locomotives in the mountains",
  ];
  const common = { top_k: 1, return_raw_text: true };
  const answers = {
    dense: await search.batchDense({
      queries: questions.map((text) => ({ vector: denseOf(text) })),
      ...common,
    }),
    sparse: await search.batchSparse({ query_terms_list: questions.map(termsOf), ...common }),
    text: await search.batchText({ queries: questions, ...common }),
    hybrid: await search.batchHybrid({
      queries: questions.map((text) => ({ query_vector: denseOf(text), query_text: text })),
      ...common,
    }),
  };
  for (const [i, question] of questions.entries()) {
    say(`${question}`);
    for (const [kind, batch] of Object.entries(answers)) {
      const [best] = batch[i].results;
      say(`  ${kind.padEnd(7)} ${best?.id.padEnd(13) ?? "nothing"} ${best?.text?.slice(0, 70) ?? ""}`);
    }
  }
}

async function changeInTransaction(collection: Collection): Promise<void> {
  const finds = async () => {
    const { results } = await collection.search.text({ query: "axolotl", top_k: 3 });
    return results.map(({ id }) => id).join(", ") || "nothing";
  };
  {
    await using transaction = await collection.transaction();
    const text = "The axolotl keeps its gills all its life and regrows lost legs.";
    await transaction.upsert([recordOf({ id: "animals-1", topic: "animals", text })]);
    await transaction.delete("bread-1");
    say(
      `In the open transaction: "axolotl" finds ${await finds()}; bread-1 exists: ${await collection.has("bread-1")}`,
    );
    await transaction.commit({ waitForIndex: true });
    const [[state, { stats }]] = Object.entries(await transaction.status());
    say(
      `After the commit:        "axolotl" finds ${await finds()}; bread-1 exists: ${await collection.has("bread-1")}`,
    );
    say(
      `Its status: ${state}, ${stats.records_upserted} upserted, ${stats.records_deleted} deleted, version ${stats.version_created}`,
    );
  }
  {
    await using forgotten = await collection.transaction();
    await forgotten.delete("animals-1");
    // Without a commit, the end of this block aborts it.
  }
  say(`A transaction without a commit leaves no trace: "axolotl" still finds ${await finds()}`);
}

async function showVersions(collection: Collection): Promise<void> {
  const { versions, current_hash } = await collection.versions();
  for (const { version_number, vector_count, timestamp, hash: versionHash } of versions) {
    const current = versionHash === current_hash ? "  <- current" : "";
    const time = new Date(timestamp * 1000).toISOString();
    say(
      `  version ${version_number}  ${vector_count} records  ${time}  ${versionHash.slice(0, 16)}…${current}`,
    );
  }
}

/** The collection that the examples of the reference are about, made by them. */
async function makeArticles(url: string, adminKey: string): Promise<void> {
  const steps = [
    "createCollection",
    "createDenseIndex",
    "createSparseIndex",
    "createTextIndex",
    "createMetadataIndex",
    "streamingUpsert",
  ] as const satisfies readonly OperationName[];
  for (const step of steps) {
    const { method, path, examples } = operations[step];
    const response = await fetch(
      url + path.replace("{collection_id}", "articles").replace("{field}", "year"),
      {
        method,
        headers: { authorization: `Bearer ${adminKey}`, "content-type": "application/json" },
        body: JSON.stringify(examples[0]),
      },
    );
    if (!response.ok) throw new Error(`${step}: ${await response.text()}`);
  }
}

const usage = `npm run demo              shows what Quiver does on a small data set, cleans up and ends
npm run demo -- --keep    makes the collection of the examples at /docs, too, and serves until Ctrl-C`;

const { keep } = readOptions(usage, { keep: { type: "boolean", default: false } });
const dataDir = mkdtempSync(join(tmpdir(), "quiver-demo-"));
try {
  const adminKey = `demo-${hash(dataDir).toString(36)}`;
  const server = await startServer({ dataDir, port: 0, adminKey, logLevel: "silent" });
  try {
    say(`A server listens on ${server.url}; its data is in ${dataDir}.`);
    const client = createClient({ url: server.url, apiKey: adminKey });
    const collection = await client.createCollection({
      name: "demo",
      description: "Short texts on twelve topics",
      dense_vector: { enabled: true, dimension: dimensions },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
      store_raw_text: true,
    });
    await fill(collection);
    await searchEveryKind(collection);
    title("Batches: three questions in one request");
    await searchInBatches(collection);
    title("Reading by document");
    const bees = await collection.byDocument("insects");
    say(`The document "insects" has ${bees.length} records: ${bees.map(({ id }) => id).join(", ")}`);
    title("A transaction");
    await changeInTransaction(collection);
    title("Versions");
    await showVersions(collection);
    if (keep) {
      await makeArticles(server.url, adminKey);
      title("Yours");
      say(
        `Open ${server.url}/docs: every operation works as its example stands, on the collection "articles".`,
      );
      say(`The console is at ${server.url}/, and the key for both is ${adminKey}`);
      say("Ctrl-C stops the server and deletes its directory.");
      await new Promise((stop) => process.once("SIGINT", stop).once("SIGTERM", stop));
    }
    await collection.drop();
  } finally {
    await server.close();
  }
} finally {
  rmSync(dataDir, { recursive: true, force: true });
}
say("\nThe server has stopped and its directory is deleted. Your own server: npm start");
