// The results of searches: scores, order, statistics, limits; through the whole engine, on a real store.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { CreateCollection } from "@quiverdb/protocol/shapes/collection";
import type { MetricName, TextIndex } from "@quiverdb/protocol/shapes/index-definition";
import type { SearchResponse } from "@quiverdb/protocol/shapes/search";
import type { VectorInput } from "@quiverdb/protocol/shapes/vector";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Collection, Database } from "./contract.ts";
import { openDatabase } from "./database.ts";

let directory: string;
let database: Database;
let made = 0;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-search-"));
  database = await openDatabase({ dataDir: directory });
});
afterAll(async () => {
  await database.close();
  rmSync(directory, { recursive: true, force: true });
});

type Wanted = { metric?: MetricName; text?: Partial<TextIndex>; definition?: Partial<CreateCollection> };

/** A collection of two dimensions with all three indexes. */
async function make({ metric = "cosine", text = {}, definition = {} }: Wanted = {}): Promise<Collection> {
  const name = `c${made++}`;
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension: 2 },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
    store_raw_text: true,
    ...definition,
  });
  const collection = database.collection(name);
  await collection.createIndex("dense", {
    name: "d",
    distance_metric_type: metric,
    quantization: { type: "auto", properties: { sample_threshold: 100 } },
    index: { type: "hnsw", properties: {} },
  });
  await collection.createIndex("sparse", { name: "s", quantization: 64, sample_threshold: 100 });
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 100, k1: 1.2, b: 0.75, ...text });
  return collection;
}

const dense = (id: string, x: number, y: number, rest: Partial<VectorInput> = {}): VectorInput => ({
  id,
  dense_values: [x, y],
  ...rest,
});
const pairs = ({ results }: SearchResponse) => results.map(({ id, score }) => [id, score]);
const ids = ({ results }: SearchResponse) => results.map(({ id }) => id);
const refused = async (act: () => unknown): Promise<QuiverError> => {
  try {
    await act();
  } catch (error) {
    if (error instanceof QuiverError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
};

it("[Q3] scores: cosine in [-1, 1], the dot product, 1 / (1 + distance); exact from the stored vectors", async () => {
  const records = [dense("a", 3, 4), dense("b", -6, -8), dense("zero", 0, 0), dense("c", 4, -3)];
  const cosine = await make();
  await cosine.upsert(records);
  expect(pairs(await cosine.search("dense", { query_vector: [6, 8] }))).toEqual([
    ["a", 1],
    ["c", 0],
    ["zero", 0],
    ["b", -1],
  ]);
  expect(pairs(await cosine.search("dense", { query_vector: [0, 0] })).map(([, score]) => score)).toEqual([
    0, 0, 0, 0,
  ]);
  const dot = await make({ metric: "dot_product" });
  await dot.upsert(records);
  expect(pairs(await dot.search("dense", { query_vector: [1, 2] }))).toEqual([
    ["a", 11],
    ["zero", 0],
    ["c", -2],
    ["b", -22],
  ]);
  const euclidean = await make({ metric: "euclidean" });
  await euclidean.upsert(records);
  expect(pairs(await euclidean.search("dense", { query_vector: [0, 0], top_k: 2 }))).toEqual([
    ["zero", 1],
    ["a", 1 / 6],
  ]);
});

it("[Q4] results come by descending score, ties by id in the order of code points, also at the boundary of top_k", async () => {
  const collection = await make();
  const names = ["b", "a", "\u{10000}", "\uffee", "aa", "B", "ä", "10", "9"];
  await collection.upsert(names.map((id) => dense(id, 1, 1)));
  await collection.upsert([dense("best", 2, 1)]);
  const expected = ["10", "9", "B", "a", "aa", "b", "ä", "\uffee", "\u{10000}"];
  const all = await collection.search("dense", { query_vector: [3, 1], top_k: 100 });
  expect(ids(all)).toEqual(["best", ...expected]);
  for (const k of [1, 2, 4, 9])
    expect(ids(await collection.search("dense", { query_vector: [3, 1], top_k: k }))).toEqual(
      ["best", ...expected].slice(0, k),
    );
});

it("[Q5] every result has id, document_id, score and text; text only if requested and stored", async () => {
  const stored = await make();
  await stored.upsert([dense("a", 1, 0, { text: "Green Tea", document_id: "d" }), dense("b", 1, 1)]);
  const [a, b] = (await stored.search("dense", { query_vector: [1, 0], return_raw_text: true })).results;
  expect(a).toEqual({ id: "a", document_id: "d", score: 1, text: "Green Tea" });
  expect(b).toMatchObject({ document_id: null, text: null });
  expect((await stored.search("text", { query: "tea" })).results[0].text).toBeNull();
  const processed = await make({ definition: { store_raw_text: false } });
  await processed.upsert([{ id: "a", text: "Green TEAS" }]);
  expect((await processed.search("text", { query: "tea", return_raw_text: true })).results).toMatchObject([
    { id: "a", text: null },
  ]);
  expect(processed.get("a").toRecord().text).toBeNull();
});

it("[Q6] sparse scores are exact dot products over records that share a dimension", async () => {
  const collection = await make();
  await collection.upsert([
    { id: "a", sparse_indices: [7, 4_294_967_295, 0], sparse_values: [2, 0.5, -1] },
    { id: "b", sparse_values: [[7, -1] as [number, number], [9, 4] as [number, number]] },
    { id: "c", sparse_values: [{ index: 1, value: 1 }] },
    { id: "empty", sparse_indices: [], sparse_values: [] },
  ]);
  const query_terms = [
    { index: 7, value: 3 },
    { index: 4_294_967_295, value: 2 },
    { index: 9, value: 0.25 },
  ];
  expect(pairs(await collection.search("sparse", { query_terms }))).toEqual([
    ["a", 7],
    ["b", -2],
  ]);
  expect(pairs(await collection.search("sparse", { query_terms: [[1, 2]] }))).toEqual([["c", 2]]);
  expect(pairs(await collection.search("sparse", { query_terms: [] }))).toEqual([]);
});

it("[Q7] early_terminate_threshold 0 is exact; above it small contributions are ignored in the selection, scores remain exact", async () => {
  const collection = await make();
  await collection.upsert([
    { id: "strong", sparse_indices: [1, 2], sparse_values: [10, 1] },
    { id: "weak", sparse_indices: [2], sparse_values: [1] },
  ]);
  const query_terms: [number, number][] = [
    [1, 1],
    [2, 1],
  ];
  const at = async (early_terminate_threshold: number) =>
    pairs(await collection.search("sparse", { query_terms, early_terminate_threshold }));
  expect(await at(0)).toEqual([
    ["strong", 11],
    ["weak", 1],
  ]);
  expect(await at(0.5)).toEqual([["strong", 11]]);
  expect(await at(1)).toEqual([["strong", 11]]);
});

it("[Q8] BM25 by Lucene's formula with the statistics of the searched version; deleted records count nowhere", async () => {
  const collection = await make({ text: { language: "none" } });
  const idf = (n: number, df: number) => Math.log(1 + (n - df + 0.5) / (df + 0.5));
  const part = (tf: number, dl: number, avgdl: number) => tf / (tf + 1.2 * (0.25 + (0.75 * dl) / avgdl));
  await collection.upsert([
    { id: "a", text: "kappa kappa zulu" },
    { id: "b", text: "zulu" },
    { id: "c", text: "tango tango tango tango" },
  ]);
  const search = async () => pairs(await collection.search("text", { query: "kappa zulu" }));
  const avgdl = 8 / 3;
  const found = await search();
  expect(found.map(([id]) => id)).toEqual(["a", "b"]);
  expect(found[0][1]).toBeCloseTo(idf(3, 1) * part(2, 3, avgdl) + idf(3, 2) * part(1, 3, avgdl), 12);
  expect(found[1][1]).toBeCloseTo(idf(3, 2) * part(1, 1, avgdl), 12);
  await collection.delete("a");
  const later = await search();
  expect(later).toHaveLength(1);
  expect(later[0][1]).toBeCloseTo(idf(2, 1) * part(1, 1, 2.5), 12);
  expect(pairs(await collection.search("text", { query: "" }))).toEqual([]);
  expect(pairs(await collection.search("text", { query: "absent" }))).toEqual([]);
});

it("[Q9] English is stemmed and freed of stop words by default; a language can be chosen, or none", async () => {
  const english = await make();
  await english.upsert([{ id: "a", text: "The Runners were RUNNING quickly" }]);
  expect(ids(await english.search("text", { query: "run" }))).toEqual(["a"]);
  expect(ids(await english.search("text", { query: "the" }))).toEqual([]);
  const german = await make({ text: { language: "german" } });
  await german.upsert([{ id: "a", text: "Die Häuser am Fluß" }]);
  expect(ids(await german.search("text", { query: "haus" }))).toEqual(["a"]);
  expect(ids(await german.search("text", { query: "fluss" }))).toEqual(["a"]);
  const none = await make({ text: { language: "none" } });
  await none.upsert([
    { id: "a", text: "The Runners" },
    { id: "b", text: "Café 東京都" },
  ]);
  expect(ids(await none.search("text", { query: "runner" }))).toEqual([]);
  expect(ids(await none.search("text", { query: "THE" }))).toEqual(["a"]);
  expect(ids(await none.search("text", { query: "cafe" }))).toEqual(["b"]);
  expect(ids(await none.search("text", { query: "東京" }))).toEqual(["b"]);
});

it("[Q15] stop_words replace the language's list, empty for none; they are stored with the definition", async () => {
  const text = "the heap and the stack";
  const own = await make({ text: { stop_words: ["Stack", "don’t"] } });
  const none = await make({ text: { stop_words: [] } });
  const english = await make({ text: { stop_words: null } });
  for (const collection of [own, none, english]) await collection.upsert([{ id: "a", text }]);
  const found = async (collection: Collection, query: string) =>
    ids(await collection.search("text", { query })).length === 1;
  expect([await found(own, "the"), await found(own, "stack")]).toEqual([true, false]);
  expect([await found(none, "the"), await found(none, "stack")]).toEqual([true, true]);
  expect([await found(english, "the"), await found(english, "stack")]).toEqual([false, true]);
  expect((await own.analyzeText({ text: "the stack" })).terms.map(({ dropped }) => dropped)).toEqual([
    null,
    "stop_word",
  ]);
  // Dropped words do not count into a text's length: 4, 5 and 2 terms, each the average of its collection.
  const score = async (collection: Collection) =>
    (await collection.search("text", { query: "heap" })).results[0].score;
  expect(new Set([await score(own), await score(none), await score(english)]).size).toBe(1);
  expect(own.indexes()["tf-idf"]).toMatchObject({ language: "english", stop_words: ["Stack", "don’t"] });
  expect(none.indexes()["tf-idf"]?.stop_words).toEqual([]);
  expect(english.indexes()["tf-idf"]).not.toHaveProperty("stop_words");
  // Another definition in its place counts from then on.
  await own.deleteIndex("tf-idf");
  await own.createIndex("tf-idf", { name: "t", sample_threshold: 1, k1: 1, b: 0, stop_words: ["heap"] });
  expect([await found(own, "heap"), await found(own, "stack")]).toEqual([false, true]);
  await own.unload();
  expect([await found(own, "heap"), await found(own, "stack")]).toEqual([false, true]);
});

it.each([
  [Array(limits.stopWordsMax + 1).fill("a"), "stop_words", "2001 words"],
  [{ 0: "a" }, "stop_words", "array"],
  [["a", ""], "stop_words[1]", "no letter"],
  [["a", "b", "--"], "stop_words[2]", "no letter"],
  [["e.g."], "stop_words[0]", "2 words"],
  [["a", "as well as"], "stop_words[1]", "3 words"],
  [["a", 7], "stop_words[1]", "number"],
  [["a", null], "stop_words[1]", "null"],
  // biome-ignore lint/suspicious/noSparseArray: the hole is what is tested.
  [["a", , "b"], "stop_words[1]", "missing"],
  [["x".repeat(256)], "stop_words[0]", "256 bytes"],
  [["\ud800"], "stop_words[0]", "surrogate"],
])("[Q15] the stop words %j are refused, at %s", async (stop_words, path, words) => {
  const collection = await make();
  await collection.deleteIndex("tf-idf");
  const definition = { name: "t", sample_threshold: 1, k1: 1, b: 0, stop_words } as TextIndex;
  const error = await refused(() => collection.createIndex("tf-idf", definition));
  expect([error.code, error.details.path]).toEqual(["invalid_request", path]);
  expect(error.message).toContain(words);
  expect(collection.indexes()).not.toHaveProperty("tf-idf");
  await collection.createIndex("tf-idf", {
    ...definition,
    stop_words: ["x".repeat(255), "10,000", "rock'n"],
  });
});

it("[Q14] a text is shown as its index takes it: each word in its place, with its term or why it has none", async () => {
  const collection = await make();
  const { language, terms } = await collection.analyzeText({ text: "The Runners, running to CAFÉS" });
  expect(language).toBe("english");
  expect(terms).toEqual([
    { position: 0, word: "the", term: null, dropped: "stop_word" },
    { position: 1, word: "runners", term: "runner", dropped: null },
    { position: 2, word: "running", term: "run", dropped: null },
    { position: 3, word: "to", term: null, dropped: "stop_word" },
    { position: 4, word: "cafés", term: "cafe", dropped: null },
  ]);
  // A word of the text finds a record by its term, and by nothing else.
  await collection.upsert([{ id: "a", text: "The Runners, running to CAFÉS" }]);
  for (const { word, term } of terms)
    expect([word, ids(await collection.search("text", { query: word }))]).toEqual([word, term ? ["a"] : []]);
  expect((await collection.analyzeText({ text: "" })).terms).toEqual([]);
  // Works for an unloaded collection without loading it.
  await collection.unload();
  expect((await collection.analyzeText({ text: "the" })).terms).toHaveLength(1);
  expect((await collection.describe()).loaded).toBe(false);
  const german = await make({ text: { language: "german" } });
  expect(await german.analyzeText({ text: "die Häuser" })).toMatchObject({
    language: "german",
    terms: [{ dropped: "stop_word" }, { word: "häuser", term: "haus" }],
  });
  const long = await refused(() => german.analyzeText({ text: "x".repeat(limits.queryTextBytesMax + 1) }));
  expect([long.code, long.details.path]).toEqual(["invalid_request", "text"]);
  expect((await refused(() => german.analyzeText({ text: 7 as unknown as string }))).details.path).toBe(
    "text",
  );
  await german.deleteIndex("tf-idf");
  expect((await refused(() => german.analyzeText({ text: "die" }))).code).toBe("index_not_found");
});

it("[Q14] [Q22] positions continue when a long text is analysed in steps, with Chinese among its words", async () => {
  const collection = await make();
  const sentence = "the bees 東京タワー dance ";
  const places = 8;
  const { terms } = await collection.analyzeText({ text: sentence.repeat(2_000) });
  const { terms: once } = await collection.analyzeText({ text: sentence });
  expect(terms).toEqual(
    Array.from({ length: 2_000 }, (_, i) =>
      once.map((each) => ({ ...each, position: i * places + each.position })),
    ).flat(),
  );
});

const hive = [
  { id: "a", text: "The waggle dance of the bees" },
  { id: "b", text: "Dance, waggle!" },
  { id: "c", text: "Bees, hornets and wasps" },
  { id: "d", text: "Beech trees" },
];

it("[Q17] operators act only with syntax: operators; otherwise, and without any, a text is its words", async () => {
  const collection = await make();
  await collection.upsert(hive);
  const signs = '+bees -"waggle dance" horn* wapsp~2 \\"';
  const words = "bees waggle dance horn wapsp 2";
  const plain = await collection.search("text", { query: words });
  expect(plain.results).not.toEqual([]);
  for (const syntax of [undefined, null, "plain"] as const)
    expect(await collection.search("text", { query: signs, syntax })).toEqual(plain);
  expect(await collection.search("text", { query: words, syntax: "operators" })).toEqual(plain);
  expect(await collection.search("batchText", { queries: [words], syntax: "operators" })).toEqual([plain]);
  const unknown = await refused(() =>
    collection.search("text", { query: words, syntax: "lucene" as unknown as "plain" }),
  );
  expect([unknown.code, unknown.details.path]).toEqual(["invalid_request", "syntax"]);
});

it("[Q18] with operators a search finds what its clauses ask for, in every kind of request", async () => {
  const collection = await make({ text: { positions: true } });
  await collection.upsert(hive.map((record) => ({ ...record, dense_values: [1, 0] })));
  const syntax = "operators";
  const asked: [string, string[]][] = [
    ['"waggle dance"', ["a"]],
    ["+bees", ["a", "c"]],
    ["bees -wasps", ["a"]],
    ["bee*", ["a", "c", "d"]],
    ["waspt~", ["c"]],
    ['+dance -"waggle dance"', ["b"]],
    ["-bees", []],
  ];
  for (const [query, expected] of asked) {
    const { results } = await collection.search("text", { query, syntax });
    expect([query, results.map(({ id }) => id).sort()]).toEqual([query, expected]);
    const legs = { query_vector: [1, 0], query_text: query };
    const hybrid = await collection.search("hybrid", { ...legs, syntax, explain: true });
    // The text leg alone is narrowed.
    expect(ids(hybrid)).toHaveLength(hive.length);
    const byText = hybrid.results.filter(({ explanation }) => explanation?.["tf-idf"]);
    expect(byText.map(({ id }) => id).sort()).toEqual(expected);
    expect(await collection.search("batchHybrid", { queries: [legs], syntax, explain: true })).toEqual([
      hybrid,
    ]);
  }
  const queries = asked.map(([query]) => query);
  const batch = await collection.search("batchText", { queries, syntax });
  expect(batch.map((answer) => ids(answer).sort())).toEqual(asked.map(([, expected]) => expected));
  // Deleted and replaced records satisfy nothing, and a rebuilt index has the same results.
  await collection.delete("a");
  await collection.upsert([{ id: "b", text: "the waggle dance" }]);
  const changed = await collection.search("batchText", { queries, syntax });
  expect(changed.map((answer) => ids(answer).sort()).slice(0, 4)).toEqual([["b"], ["c"], [], ["c", "d"]]);
  await collection.unload();
  expect(await collection.search("batchText", { queries, syntax })).toEqual(changed);
});

it("[Q18] a phrase needs an index with positions, and is rejected without", async () => {
  const collection = await make({ text: { positions: null } });
  await collection.upsert(hive);
  expect(collection.indexes()["tf-idf"]?.positions).toBe(false);
  const syntax = "operators";
  const query = 'bees +"waggle dance"';
  const error = await refused(() => collection.search("text", { query, syntax }));
  expect([error.code, error.details]).toEqual(["invalid_request", { path: "query", position: 5 }]);
  expect(error.message).toContain('"positions": true');
  const batch = await refused(() => collection.search("batchText", { queries: ["bees", query], syntax }));
  expect(batch.details).toEqual({ path: "queries[1]", position: 5 });
  const hybrid = { query_vector: [1, 0], query_text: query };
  expect((await refused(() => collection.search("hybrid", { ...hybrid, syntax }))).details.path).toBe(
    "query_text",
  );
  expect(
    (await refused(() => collection.search("batchHybrid", { queries: [hybrid], syntax }))).details.path,
  ).toBe("queries[0].query_text");
  // Everything else works without positions: a phrase of one word is that word.
  expect(ids(await collection.search("text", { query: '+"waggle" -trees bee*', syntax })).sort()).toEqual([
    "a",
    "b",
  ]);
  await collection.deleteIndex("tf-idf");
  const definition = { name: "t", sample_threshold: 1, k1: 1, b: 0 };
  const wrong = { ...definition, positions: "yes" as unknown as boolean };
  expect((await refused(() => collection.createIndex("tf-idf", wrong))).details.path).toBe("positions");
  await collection.createIndex("tf-idf", { ...definition, positions: true });
  expect(collection.indexes()["tf-idf"]?.positions).toBe(true);
  expect(ids(await collection.search("text", { query, syntax }))).toEqual(["a"]);
});

it("[Q18] invalid operators are rejected with their position, and so are too many", async () => {
  const collection = await make();
  await collection.upsert(hive);
  const syntax = "operators";
  const expanding = "a* ".repeat(limits.queryExpandingMax);
  const all = "+a ".repeat(limits.queryOperatorsMax);
  for (const [query, position] of [
    ['bees "waggle dance', 5],
    ["bees~3", 4],
    [`${expanding}b~`, expanding.length],
    [`${all}-b`, all.length],
  ] as const) {
    const error = await refused(() => collection.search("text", { query, syntax }));
    expect([error.code, error.details]).toEqual(["invalid_request", { path: "query", position }]);
    const batch = await refused(() => collection.search("batchText", { queries: ["a", query], syntax }));
    expect(batch.details).toEqual({ path: "queries[1]", position });
  }
  expect((await collection.search("text", { query: expanding, syntax })).results).toEqual([]);
  expect((await collection.search("text", { query: all, syntax })).results).toEqual([]);
});

it("[Q19] required and excluded clauses change no score; each term that a word expands to counts separately, and is explained", async () => {
  const collection = await make({ text: { positions: true } });
  await collection.upsert(hive);
  const search = (query: string) => collection.search("text", { query, syntax: "operators", explain: true });
  const scores = async (query: string) => new Map(pairs(await search(query)) as [string, number][]);
  const plain = await scores("bees dance");
  expect(await scores("+bees dance")).toEqual(new Map([...plain].filter(([id]) => id !== "b")));
  expect(await scores("bees dance -wasps")).toEqual(new Map([...plain].filter(([id]) => id !== "c")));
  expect(await scores("bees dance -trees")).toEqual(plain);
  // A phrase is scored by its words, in records that contain it.
  const phrase = await scores('"waggle dance" wasps');
  expect(phrase.get("a")).toBe((await scores("waggle dance")).get("a"));
  expect([...phrase.keys()].sort()).toEqual(["a", "c"]);
  // bee and beech, each with its own idf; wasps~1 counts the word itself fully, and terms one edit away half.
  for (const query of ["bee*", "bees~2 beech", '+bee* "waggle dance" waggle -hornets', "trees~1 treat~2"]) {
    const { results } = await search(query);
    expect(results).not.toEqual([]);
    for (const { score, explanation } of results)
      expect(sumOf(explanation?.["tf-idf"]?.matches.map(({ contribution }) => contribution))).toBe(score);
  }
  const { results } = await search("beech~2");
  const matches = results.map(({ id, explanation }) => [id, explanation?.["tf-idf"]?.matches]);
  expect(Object.fromEntries(matches)).toMatchObject({
    a: [{ term: "bee", query_tf: 1 / 3, tf: 1, df: 2 }],
    c: [{ term: "bee", query_tf: 1 / 3, tf: 1, df: 2 }],
    d: [{ term: "beech", query_tf: 1, tf: 1, df: 1 }],
  });
});

/** The sum of the matches of a leg. */
const sumOf = (values: readonly number[] | undefined) =>
  (values ?? []).reduce((sum, value) => sum + value, 0);

it("[Q16] explain returns rank, score and matches of each leg; they add up to the score, and nothing else changes", async () => {
  const collection = await make({ text: { language: "none" } });
  await collection.upsert([
    dense("a", 3, 4, {
      text: "kappa kappa zulu",
      sparse_values: [
        [7, 2],
        [9, 0.1],
      ],
    }),
    dense("b", 4, 3, { text: "zulu tango", sparse_values: [[9, -1]] }),
    dense("c", -1, 0, { text: "tango" }),
    dense("d", 0, 1),
  ]);
  // A record that is deleted counts nowhere, as in the search.
  await collection.upsert([{ id: "e", text: "kappa" }]);
  await collection.delete("e");
  const legs = {
    query_vector: [3, 4],
    query_terms: [
      [9, 0.3],
      [7, 1],
    ] as [number, number][],
    query_text: "zulu kappa zulu absent",
  };
  const [vector, terms, text] = [legs.query_vector, legs.query_terms, legs.query_text];
  const idf = (df: number) => Math.log(1 + (3 - df + 0.5) / (df + 0.5));

  const byText = await collection.search("text", { query: text, explain: true });
  const found = byText.results[0].explanation?.["tf-idf"];
  expect(byText.results[0].explanation).toEqual({
    "tf-idf": {
      rank: 1,
      score: byText.results[0].score,
      weight: 1,
      contribution: byText.results[0].score,
      documents: 3,
      document_length: 3,
      average_length: 2,
      matches: [
        { term: "zulu", query_tf: 2, tf: 1, df: 2, idf: idf(2), contribution: expect.any(Number) },
        { term: "kappa", query_tf: 1, tf: 2, df: 1, idf: idf(1), contribution: expect.any(Number) },
      ],
    },
  });
  expect(found?.matches[1].contribution).toBeCloseTo((idf(1) * 2) / (2 + 1.2 * (0.25 + (0.75 * 3) / 2)), 12);
  expect(byText.results.map(({ explanation }) => explanation?.["tf-idf"]?.rank)).toEqual([1, 2]);
  for (const { score, explanation } of byText.results)
    expect(sumOf(explanation?.["tf-idf"]?.matches.map(({ contribution }) => contribution))).toBe(score);

  const bySparse = await collection.search("sparse", { query_terms: terms, explain: true });
  expect(bySparse.results[0].explanation?.sparse).toEqual({
    rank: 1,
    score: bySparse.results[0].score,
    weight: 1,
    contribution: bySparse.results[0].score,
    matches: [
      { index: 7, query_value: 1, stored_value: 2, product: 2 },
      {
        index: 9,
        query_value: Math.fround(0.3),
        stored_value: Math.fround(0.1),
        product: Math.fround(0.3) * Math.fround(0.1),
      },
    ],
  });
  for (const { score, explanation } of bySparse.results)
    expect(sumOf(explanation?.sparse?.matches.map(({ product }) => product))).toBe(score);

  const byVector = await collection.search("dense", { query_vector: vector, explain: true });
  expect(byVector.results.map(({ explanation }) => explanation)).toEqual(
    byVector.results.map(({ score }, i) => ({
      dense: { rank: i + 1, score, weight: 1, contribution: score },
    })),
  );

  const fusion = { fusion_constant_k: 10, fusion_weights: { text: 0.5 } };
  const hybrid = await collection.search("hybrid", { ...legs, ...fusion, explain: true });
  expect(hybrid.results).toHaveLength(4);
  for (const { id, score, explanation } of hybrid.results) {
    expect(Object.keys(explanation ?? {})).toEqual(["dense", "sparse", "tf-idf"]);
    const { dense: inDense, sparse: inSparse, "tf-idf": inText } = explanation ?? {};
    const all = [inDense, inSparse, inText].flatMap((leg) => leg ?? []);
    expect(sumOf(all.map(({ contribution }) => contribution))).toBe(score);
    for (const { rank, weight, contribution } of all) expect(contribution).toBe(weight / (10 + rank));
    expect([inDense?.weight, inText?.weight ?? 0.5]).toEqual([1, 0.5]);
    // Each leg has the same values as alone, and null if it did not find the record.
    const alone = ({ results }: SearchResponse) => results.find((other) => other.id === id)?.explanation;
    expect(inSparse?.matches).toEqual(alone(bySparse)?.sparse?.matches);
    expect(inText?.matches).toEqual(alone(byText)?.["tf-idf"]?.matches);
    expect([inSparse === null, inText === null]).toEqual([id > "b", id > "b"]);
  }

  const queries = [legs, { query_terms: terms, query_text: text }];
  const batch = await collection.search("batchHybrid", { queries, ...fusion, explain: true });
  expect(batch[0]).toEqual(hybrid);
  expect(Object.keys(batch[1].results[0].explanation ?? {})).toEqual(["sparse", "tf-idf"]);
  expect(await collection.search("batchText", { queries: [text], explain: true })).toEqual([byText]);
  expect(await collection.search("batchSparse", { query_terms_list: [terms], explain: true })).toEqual([
    bySparse,
  ]);
  expect(await collection.search("batchDense", { queries: [{ vector }], explain: true })).toEqual([byVector]);

  // Without explain, responses are the same, byte for byte.
  const without = ({ results }: SearchResponse) =>
    JSON.stringify({ results: results.map(({ explanation: _, ...result }) => result) });
  for (const explain of [undefined, false, null]) {
    expect(JSON.stringify(await collection.search("hybrid", { ...legs, ...fusion, explain }))).toBe(
      without(hybrid),
    );
    expect(JSON.stringify(await collection.search("text", { query: text, explain }))).toBe(without(byText));
    expect(JSON.stringify(await collection.search("sparse", { query_terms: terms, explain }))).toBe(
      without(bySparse),
    );
  }
});

it("[Q16] one request explains at most 100,000 matched terms", async () => {
  expect(limits.explainedMatchesMax).toBe(100_000);
  const collection = await make();
  const indices = Array.from({ length: 1_000 }, (_, i) => i);
  const vector = { sparse_indices: indices, sparse_values: indices.map(() => 1) };
  await collection.upsert(Array.from({ length: 101 }, (_, i) => ({ id: `r${i}`, ...vector })));
  const query_terms = indices.map((index): [number, number] => [index, 1]);
  const { results } = await collection.search("sparse", { query_terms, top_k: 100, explain: true });
  expect(results[99].explanation?.sparse?.matches).toHaveLength(1_000);
  const tooMany = [
    () => collection.search("sparse", { query_terms, top_k: 101, explain: true }),
    () =>
      collection.search("batchSparse", {
        query_terms_list: [query_terms, [[5, 1]]],
        top_k: 100,
        explain: true,
      }),
  ];
  for (const act of tooMany) {
    const error = await refused(act);
    expect([error.code, error.details.path]).toEqual(["invalid_request", "explain"]);
  }
  expect((await collection.search("sparse", { query_terms, top_k: 101 })).results).toHaveLength(101);
});

it("[Q10] a hybrid search fuses the legs that are given, each with at least max(3 * top_k, 50) hits", async () => {
  const collection = await make();
  const records = Array.from({ length: 60 }, (_, i) =>
    dense(`r${String(i).padStart(2, "0")}`, 60 - i, 1, {
      text: i % 2 ? "kappa" : "zulu",
      sparse_values: [[i, 1]],
    }),
  );
  await collection.upsert(records);
  const hybrid = await collection.search("hybrid", { query_vector: [1, 0], query_text: "kappa", top_k: 1 });
  expect(pairs(hybrid)).toEqual([["r01", 1 / 62 + 1 / 61]]);
  const deep = await collection.search("hybrid", { query_terms: [[49, 1]], query_vector: [1, 0], top_k: 1 });
  expect(pairs(deep)).toEqual([["r49", 1 / 110 + 1 / 61]]);
  const three = await collection.search("hybrid", {
    query_vector: [1, 0],
    query_text: "zulu",
    query_terms: [[0, 1]],
    top_k: 1,
  });
  expect(pairs(three)).toEqual([["r00", 1 / 61 + 1 / 61 + 1 / 61]]);
  const batch = await collection.search("batchHybrid", {
    queries: [
      { query_vector: [1, 0], query_text: "kappa" },
      { query_terms: [[49, 1]], query_vector: [1, 0] },
    ],
    top_k: 1,
  });
  expect(batch).toEqual([hybrid, deep]);
});

it("[Q11] the results of a batch are in the order of its queries; one invalid query fails the whole batch, with its position", async () => {
  const collection = await make();
  await collection.upsert([dense("x", 1, 0), dense("y", 0, 1)]);
  const queries = [{ vector: [1, 0] }, { vector: [0, 1] }, { vector: [1, 0] }];
  expect((await collection.search("batchDense", { queries, top_k: 1 })).map(ids)).toEqual([
    ["x"],
    ["y"],
    ["x"],
  ]);
  expect(await collection.search("batchDense", { queries: [] })).toEqual([]);
  const bad = await refused(() =>
    collection.search("batchDense", { queries: [...queries, { vector: [1] }] }),
  );
  expect([bad.code, bad.details.path]).toEqual(["invalid_request", "queries[3].vector"]);
  const terms = await refused(() =>
    collection.search("batchSparse", {
      query_terms_list: [
        [[1, 1]],
        [
          [1, 1],
          [2, 1],
          [1, 1],
        ],
      ],
    }),
  );
  expect(terms.details.path).toBe("query_terms_list[1][2]");
});

it("[Q12] a search without its index names the call that creates it", async () => {
  await database.createCollection({
    name: "bare 50€",
    dense_vector: { enabled: true, dimension: 2 },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: true },
    config: {},
  });
  const bare = database.collection("bare 50€");
  const error = await refused(() => bare.search("dense", { query_vector: [1, 2] }));
  expect(error.code).toBe("index_not_found");
  expect(error.message).toContain("POST /vectordb/collections/bare%2050%E2%82%AC/indexes/dense");
  expect((await refused(() => bare.search("batchText", { queries: [] }))).code).toBe("index_not_found");
  expect((await refused(() => bare.search("sparse", { query_terms: [] }))).code).toBe("modality_not_enabled");
  expect(
    (await refused(() => bare.createIndex("sparse", { name: "s", quantization: 16, sample_threshold: 1 })))
      .code,
  ).toBe("modality_not_enabled");
});

it("[Q13] an index on existing data is built from it; deleting it leaves the vectors", async () => {
  const collection = await make();
  await collection.upsert([dense("a", 1, 0, { text: "kappa", sparse_values: [[1, 1]] })]);
  for (const kind of ["dense", "sparse", "tf-idf"] as const) await collection.deleteIndex(kind);
  expect(collection.indexes()).toEqual({});
  expect((await refused(() => collection.deleteIndex("dense"))).code).toBe("index_not_found");
  expect(collection.get("a").toRecord().dense_values).toEqual([1, 0]);
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 1, k1: 1, b: 0 });
  expect(ids(await collection.search("text", { query: "kappa" }))).toEqual(["a"]);
  await collection.createIndex("dense", {
    name: "d",
    distance_metric_type: "dot_product",
    quantization: { type: "scalar", properties: { data_type: "binary", range: { min: -1, max: 1 } } },
    index: { type: "hnsw", properties: { neighbors_count: 24 } },
  });
  expect(
    pairs(await collection.search("dense", { query_vector: [0.1, 5], exact: true, ef_search: 7 })),
  ).toEqual([["a", Math.fround(0.1)]]);
  expect(collection.indexes().dense).toMatchObject({
    name: "d",
    distance_metric_type: "dot_product",
    quantization: { type: "scalar", properties: { data_type: "binary", range: { min: -1, max: 1 } } },
    index: {
      type: "hnsw",
      properties: {
        num_layers: 9,
        ef_construction: 128,
        ef_search: 128,
        neighbors_count: 24,
        level_0_neighbors_count: 48,
      },
    },
    status: { state: "ready", records_indexed: 1, records_total: 1, percentage_complete: 100 },
  });
});

it("[I4] every index equals the replay of the log: built at once, updated step by step and rebuilt, they have the same results", async () => {
  const fed = await make({ text: { language: "none" } });
  const record = (i: number, round: number): VectorInput =>
    dense(`r${i}`, (i * 7 + round) % 11, (i * 3) % 5, {
      text: ["kappa", "zulu", "tango"].slice(0, 1 + ((i + round) % 3)).join(" "),
      sparse_values: [[(i + round) % 6, 1 + (i % 3)]],
    });
  for (let round = 0; round < 5; round++) {
    await fed.upsert(Array.from({ length: 40 }, (_, i) => record(i, round)));
    for (let i = round; i < 40; i += 9) await fed.delete(`r${i}`);
  }
  const ask = async () => [
    await fed.search("dense", { query_vector: [2, 1], top_k: 50 }),
    await fed.search("sparse", {
      query_terms: [
        [1, 1],
        [2, 2],
      ],
      top_k: 50,
    }),
    await fed.search("text", { query: "kappa tango", top_k: 50 }),
  ];
  const before = await ask();
  expect(before[0].results).toHaveLength((await fed.describe()).vectors_count);
  await fed.unload();
  await fed.load();
  expect(await ask()).toEqual(before);
});

it("[I6] everything has a limit, and what exceeds it is rejected with its position", async () => {
  const collection = await make();
  const path = async (act: () => unknown) => {
    const { code, details } = await refused(act);
    return [code, details.path];
  };
  const deep = (levels: number): Record<string, unknown> => (levels === 0 ? {} : { x: deep(levels - 1) });
  const long = (bytes: number) => "ä".repeat(bytes / 2);
  await collection.upsert([
    dense(long(512), 1, 1, { document_id: long(512), metadata: { x: "y".repeat(65_528) } }),
  ]);
  await collection.upsert([dense("deep", 1, 1, { metadata: deep(limits.metadataDepthMax - 1) })]);
  const before = collection.currentVersion();
  const bad: [VectorInput, string][] = [
    [dense(long(514), 1, 1), "vectors[1].id"],
    [dense("", 1, 1), "vectors[1].id"],
    [dense("\ud800", 1, 1), "vectors[1].id"],
    [dense("x", 1, 1, { document_id: long(514) }), "vectors[1].document_id"],
    [dense("x", 1, 1, { metadata: { x: "y".repeat(65_529) } }), "vectors[1].metadata"],
    [dense("x", 1, 1, { metadata: deep(limits.metadataDepthMax) }), "vectors[1].metadata"],
    [dense("x", 1e39, 1), "vectors[1].dense_values[0]"],
    [dense("x", 1, Number.NaN), "vectors[1].dense_values[1]"],
    [{ id: "x", dense_values: [1, 2, 3] }, "vectors[1].dense_values"],
    [{ id: "x" }, "vectors[1]"],
    [{ id: "x", sparse_indices: [1] }, "vectors[1].sparse_values"],
    [{ id: "x", sparse_values: [1] }, "vectors[1].sparse_indices"],
    [{ id: "x", sparse_indices: [1, 2], sparse_values: [1] }, "vectors[1].sparse_indices"],
    [{ id: "x", sparse_indices: [5, 2, 5], sparse_values: [1, 2, 3] }, "vectors[1].sparse_indices[2]"],
    [{ id: "x", sparse_indices: [-1], sparse_values: [1] }, "vectors[1].sparse_indices[0]"],
    [{ id: "x", sparse_indices: [2 ** 32], sparse_values: [1] }, "vectors[1].sparse_indices[0]"],
    [
      { id: "x", sparse_indices: [1], sparse_values: [Number.POSITIVE_INFINITY] },
      "vectors[1].sparse_values[0]",
    ],
  ];
  for (const [record, position] of bad)
    expect(await path(() => collection.upsert([dense("fine", 1, 1), record]))).toEqual([
      "invalid_vector",
      position,
    ]);
  expect(collection.currentVersion()).toEqual(before);
  for (const top_k of [0, -1, 1.5, limits.topKMax + 1])
    expect(await path(() => collection.search("dense", { query_vector: [1, 1], top_k }))).toEqual([
      "invalid_request",
      "top_k",
    ]);
  const queries = Array.from({ length: limits.batchQueriesMax + 1 }, () => "x");
  expect(await path(() => collection.search("batchText", { queries }))).toEqual([
    "invalid_request",
    "queries",
  ]);
});

it("[D3] a vector is returned bit for bit, as objects and as JSON, with metadata as it was written", async () => {
  const collection = await make();
  const metadataJson = '{"big":12345678901234567890,"e":1e999,"__proto__":{"x":1},"f":1.0}';
  const values = [-0, Math.fround(0.1)];
  const sparse_values: [number, number][] = [
    [4_294_967_295, -0],
    [0, 1e-45],
  ];
  await collection.upsert([
    { id: 'q"\u2028', dense_values: values, sparse_values, text: "a\u0000\n", metadata: {}, metadataJson },
    { id: "bare", text: "" },
  ]);
  const json = collection.get('q"\u2028').toJson();
  expect(json).toContain(`"metadata":${metadataJson}`);
  const parsed = JSON.parse(json);
  expect(parsed).toEqual(collection.get('q"\u2028').toRecord());
  const bytes = Buffer.from(Float32Array.from(values).buffer).toString("base64");
  expect(collection.get('q"\u2028').toRecord(["dense_f32"])).toMatchObject({ dense_f32: bytes });
  expect(JSON.parse(collection.get('q"\u2028').toJson(["dense_f32"]))).toMatchObject({ dense_f32: bytes });
  expect(Object.is(parsed.dense_values[0], -0)).toBe(true);
  expect(parsed.dense_values[1]).toBe(Math.fround(0.1));
  expect(parsed.sparse_indices).toEqual([0, 4_294_967_295]);
  expect(parsed.sparse_values[0]).toEqual([0, Math.fround(1e-45)]);
  expect(Object.is(parsed.sparse_values[1][1], -0)).toBe(true);
  expect(JSON.parse(collection.get("bare").toJson())).toEqual({
    id: "bare",
    document_id: null,
    dense_values: null,
    sparse_values: null,
    sparse_indices: null,
    text: "",
    metadata: null,
  });
});

it("[R8] when an index is deleted, searches that update it are rejected at once", async () => {
  const collection = await make();
  const texts = Array.from({ length: 400 }, (_, i) => ({
    id: `r${i}`,
    text: `word${i} word${i + 1} all ${i % 7}`,
  }));
  const seen = new Set<string>();
  for (let round = 0; round < 12; round++) {
    await collection.upsert(texts);
    // Each is a call with its own time slices, and adds the new records before it returns.
    const searches = Array.from({ length: 24 }, () =>
      collection.search("text", { query_text: "all" }, { timeoutMs: 10_000, account: { key: "a" } }).then(
        () => "answered",
        ({ code }: QuiverError) => code,
      ),
    );
    await collection.deleteIndex("tf-idf");
    for (const outcome of await Promise.all(searches)) seen.add(outcome);
    await collection.createIndex("tf-idf", { name: "t", sample_threshold: 100, k1: 1.2, b: 0.75 });
  }
  expect([...seen].filter((outcome) => outcome !== "answered" && outcome !== "index_not_found")).toEqual([]);
  expect(seen.has("index_not_found")).toBe(true);
}, 60_000);
