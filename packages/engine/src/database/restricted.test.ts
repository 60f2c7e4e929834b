// A database for a caller that sees only some records, against a collection that has no others: with enough records that postings lie in
// segments, with updates and deletions among them. What can be asked over HTTP: packages/server/test/key-filters.test.ts.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomNumbers } from "@quiverdb/kernels/random";
import { limits } from "@quiverdb/protocol/limits";
import type { SearchResponse } from "@quiverdb/protocol/shapes/search";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Collection, Database, RestrictedCollection, VectorWrite } from "./contract.ts";
import { openDatabase } from "./database.ts";

const seed = 416;
const count = 9_000;
const filter = { "owner.name": "me" };

let directory: string;
let database: Database;
/** All records, as the caller sees them; and the same records without any others. */
let mixed: RestrictedCollection;
let alone: Collection;

const next = randomNumbers(seed);
const below = (bound: number) => Math.floor(next() * bound);
/** Few words are frequent. Hidden texts are longer, and have words and forms of words of their own. */
const word = (isHidden: boolean) => {
  const number = Math.floor(1_500 * next() ** 3);
  return `${isHidden && below(4) === 0 ? "w9" : "w"}${number}${["", "", "ing", "ed"][below(4)]}`;
};

function recordOf(i: number): VectorWrite {
  const isHidden = below(3) > 0;
  return {
    id: `r${i}`,
    dense_values: [next(), next() - 0.5, isHidden ? 5 : 1],
    sparse_values: [
      [below(4), (isHidden ? 40 : 1) * (1 + next())],
      [4 + below(40), 1 + next()],
    ],
    text: Array.from({ length: isHidden ? 5 + below(60) : 1 + below(12) }, () => word(isHidden)).join(" "),
    metadata: { owner: { name: isHidden ? "they" : "me" }, n: i % 10 },
  };
}

async function make(
  name: string,
  records: readonly VectorWrite[],
  gone: readonly string[],
): Promise<Collection> {
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension: 3, auto_create_index: true },
    sparse_vector: { enabled: true, auto_create_index: true },
    tf_idf_options: { enabled: true },
    config: {},
  });
  const collection = database.collection(name);
  await collection.createIndex("tf-idf", {
    name: "t",
    sample_threshold: 100,
    k1: 1.2,
    b: 0.75,
    positions: true,
  });
  for (let from = 0; from < records.length; from += 1_000)
    await collection.upsert(records.slice(from, from + 1_000));
  for (const id of gone) await collection.delete(id);
  await collection.indexed();
  return collection;
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-restricted-"));
  database = await openDatabase({ dataDir: directory });
  // Some ids come again, with another owner: what was visible is hidden, and the other way round.
  const records = Array.from({ length: count }, (_, i) => recordOf(i % 11 === 0 ? below(i + 1) : i));
  const last = new Map(records.map((record) => [record.id, record]));
  const isVisible = ({ metadata }: VectorWrite) =>
    (metadata as { owner: { name: string } }).owner.name === "me";
  const visible = [...last.values()].filter(isVisible);
  const gone = visible.filter((_, i) => i % 50 === 0).map(({ id }) => id);
  await make("mixed", records, gone);
  mixed = database.restrictedTo(filter).collection("mixed");
  alone = await make("alone", visible, gone);
});
afterAll(async () => {
  await database.close();
  rmSync(directory, { recursive: true, force: true });
});

/** An answer without what only the unrestricted collection says. */
const said = ({ results }: SearchResponse) => results;

test("[A21] scores of texts are, to the last bit, those of a collection that has only the visible records", async () => {
  let found = 0;
  for (let i = 0; i < 150; i++) {
    const query = Array.from({ length: 1 + below(i % 10 === 0 ? 60 : 5) }, () => word(i % 3 === 0)).join(" ");
    const request = {
      query,
      top_k: 1 + below(30),
      explain: i % 2 === 0,
      ...(i % 4 === 0 && { filter: { n: { lt: 5 } } }),
    };
    const { results } = await mixed.search("text", request);
    expect(results).toEqual(said(await alone.search("text", request)));
    found += results.length;
  }
  expect(found).toBeGreaterThan(1_000);
});

test("[A21] operators stand for words of visible records alone, also where there are too many of them", async () => {
  let found = 0;
  const queries = [
    "w1*",
    "w*",
    "+w10* -w1",
    "w91*",
    "w12ing~1",
    '"w0 w1"',
    "w1ed* w3",
    "w90~2",
    "+w0 w1*",
    "w19i*",
    "w0 -w9*",
  ];
  for (const query of queries) {
    const request = { query, syntax: "operators", top_k: 40, explain: true } as const;
    const { results } = await mixed.search("text", request);
    expect(results, query).toEqual(said(await alone.search("text", request)));
    found += results.length;
  }
  expect(found).toBeGreaterThan(150);
  expect(limits.queryExpansionsMax).toBeLessThan(1_500);
});

test("[A21] hybrid, sparse and exact dense searches find what they find without the hidden records", async () => {
  let found = 0;
  for (let i = 0; i < 60; i++) {
    const top_k = 1 + below(30);
    const query_vector = [next(), next() - 0.5, 1];
    const query_terms: [number, number][] = [
      [below(4), 1],
      [4 + below(40), 1],
    ];
    const hybrid = {
      query_vector,
      query_terms,
      query_text: word(false),
      exact: true,
      top_k,
      explain: i % 2 === 0,
    };
    const { results } = await mixed.search("hybrid", hybrid);
    expect(results).toEqual(said(await alone.search("hybrid", hybrid)));
    found += results.length;
    const dense = { query_vector, exact: true, top_k };
    expect((await mixed.search("dense", dense)).results).toEqual(said(await alone.search("dense", dense)));
    const sparse = { query_terms, top_k };
    expect((await mixed.search("sparse", sparse)).results).toEqual(
      said(await alone.search("sparse", sparse)),
    );
  }
  expect(found).toBeGreaterThan(500);
});

test("[A21] a threshold of a sparse search, a share of the greatest posting, does not tell how great that of a hidden record is", async () => {
  const metadata = { owner: { name: "me" } };
  const records: VectorWrite[] = Array.from({ length: 3_000 }, (_, i) => ({
    id: `r${i}`,
    sparse_values:
      i < 20
        ? [
            [0, 20],
            [1, 20],
          ]
        : [[0, 31]],
    metadata,
  }));
  await make("sparse", [...records, { id: "hidden", sparse_values: [[0, 100]] }], []);
  const request = {
    query_terms: [
      [0, 1],
      [1, 1],
    ] as [number, number][],
    top_k: 10,
    early_terminate_threshold: 0.3,
  };
  const least = async (collection: Pick<Collection, "search">) =>
    Math.min(...(await collection.search("sparse", request)).results.map(({ score }) => score));
  // The hidden record, and those that have no posting of three tenths of its own.
  expect(await least(database.collection("sparse"))).toBe(31);
  expect(await least(database.restrictedTo(filter).collection("sparse"))).toBe(40);
});

test("[A21] records are visible by the filter as it is now, also where a field becomes a time", async () => {
  const collection = await make(
    "times",
    [
      { id: "a", text: "x", metadata: { at: "2024-05-01T10:00:00Z" } },
      { id: "b", text: "x", metadata: { at: "2024-05-01T12:00:00+02:00" } },
      { id: "c", text: "x", metadata: { at: "2024-06-01" } },
    ],
    [],
  );
  const limited = database.restrictedTo({ at: { lte: "2024-05-01T10:00:00Z" } }).collection("times");
  expect((await limited.count()).count).toBe(1);
  await collection.createMetadataIndex("at", { type: "datetime" });
  expect((await limited.count()).count).toBe(2);
  expect(limited.has("b")).toBe(true);
  await limited.upsert([{ id: "d", text: "x", metadata: { at: "2024-05-01T11:00:00+02:00" } }]);
  await expect(
    limited.upsert([{ id: "e", text: "x", metadata: { at: "2024-05-02" } }]),
  ).rejects.toMatchObject({ code: "forbidden" });
  expect((await limited.count()).count).toBe(3);
});
