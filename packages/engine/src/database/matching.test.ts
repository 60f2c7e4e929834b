// Records that match a filter: counted, listed, changed and deleted; and what searches return of their results. Through the whole engine, on
// a real store, against plain code.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomNumbers } from "@quiverdb/kernels/random";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { MetadataIndex } from "@quiverdb/protocol/shapes/index-definition";
import type { FacetValues, FacetVectors, ScrollVectors } from "@quiverdb/protocol/shapes/matching";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { naiveMatches } from "../../test/filter/naive-filter.ts";
import type { Collection, Database, VectorWrite } from "./contract.ts";
import { openDatabase } from "./database.ts";

let directory: string;
let database: Database;
let made = 0;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "quiver-matching-"));
  database = await openDatabase({ dataDir: directory });
});
afterAll(async () => {
  await database.close();
  rmSync(directory, { recursive: true, force: true });
});

const colors = ["red", "green", "blue"];
const record = (i: number): VectorWrite => ({
  id: `r${String(i).padStart(4, "0")}`,
  document_id: i % 4 === 0 ? null : `d${i % 10}`,
  dense_values: [Math.fround(i), 1],
  sparse_values: [[i % 5, Math.fround(0.1 * i)]],
  text: `words of ${i}`,
  metadata: {
    n: i,
    color: colors[i % 3],
    ...(i % 7 === 0 && { odd: [i, `s${i % 2}`, true, null] }),
    ...(i % 2 === 0 && { t: new Date(1_700_000_000_000 + 1_000 * (i % 50)).toISOString() }),
  },
});

const indexed = { n: "number", color: "keyword", odd: "number", t: "datetime" } as const;

async function make(
  count: number,
  indexes: Readonly<Record<string, MetadataIndex["type"]>>,
): Promise<Collection> {
  const name = `c${made++}`;
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension: 2, auto_create_index: true },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
    store_raw_text: true,
  });
  const collection = database.collection(name);
  await collection.createIndex("tf-idf", { name: "t", sample_threshold: 100, k1: 1.2, b: 0.75 });
  await collection.upsert(Array.from({ length: count }, (_, i) => record(i)));
  for (const [field, type] of Object.entries(indexes)) await collection.createMetadataIndex(field, { type });
  await collection.indexed();
  return collection;
}

const filters: readonly (Filter | null)[] = [
  null,
  { n: { gte: 100, lt: 400 }, color: "red" },
  { not: { color: "red" } },
  { odd: { exists: true } },
  { odd: "s1" },
  { id: { in: ["r0003", "r0499", "r9999"] } },
  { document_id: "d3", color: { ne: "blue" } },
  { color: "purple" },
];
const wanted = (records: readonly VectorWrite[], filter: Filter | null) =>
  records.filter((one) => filter === null || naiveMatches(one as never, filter));

for (const isIndexed of [false, true]) {
  const suffix = isIndexed ? "with indexes" : "without an index";
  describe(`records that match, ${suffix}`, () => {
    let collection: Collection;
    const records = Array.from({ length: 500 }, (_, i) => record(i));
    beforeAll(async () => {
      collection = await make(500, isIndexed ? indexed : {});
      // Some are replaced by themselves, and some are gone.
      await collection.upsert(records.slice(100, 200));
      for (const { id } of records.splice(450, 20)) await collection.delete(id);
    });

    test("[W9] are counted", async () => {
      for (const filter of filters)
        expect((await collection.count({ filter })).count, JSON.stringify(filter)).toBe(
          wanted(records, filter).length,
        );
      expect((await collection.count()).count).toBe(480);
    });

    const facetOf = async (request: FacetVectors) => {
      const { facets } = await collection.facet(request);
      return facets as FacetValues;
    };

    test("[W9] have their values counted, each once a record, of one field or of several", async () => {
      const fields = ["color", "n", "odd", "t", "document_id", "missing"];
      for (const filter of filters) {
        const each = await Promise.all(fields.map((field) => facetOf({ field, filter, limit: 7 })));
        const all = await collection.facet({ fields, filter, limit: 7 });
        expect(all.facets).toEqual(Object.fromEntries(fields.map((field, i) => [field, each[i]])));
        for (const field of fields) {
          const counts = new Map<unknown, number>();
          for (const one of wanted(records, filter)) {
            const metadata = one.metadata as Record<string, unknown>;
            const value = field === "document_id" ? one.document_id : metadata[field];
            for (const each of new Set([value].flat()))
              if (each != null) counts.set(each, 1 + (counts.get(each) ?? 0));
          }
          const facets = await facetOf({ field, filter, limit: 10_000 });
          expect(new Map(facets.map(({ value, count }) => [value, count]))).toEqual(counts);
          const sizes = facets.map(({ count }) => count);
          expect(sizes).toEqual([...sizes].sort((a, b) => b - a));
          expect(await facetOf({ field, filter, limit: 3 })).toEqual(facets.slice(0, 3));
        }
      }
    });

    test("[W10] are listed page by page, by id", async () => {
      for (const filter of filters)
        for (const limit of [1, 7, 10_000]) {
          if (limit === 1 && wanted(records, filter).length > 60) continue;
          const ids: string[] = [];
          let request: ScrollVectors = { filter, limit, include: ["metadata"] };
          for (;;) {
            const { vectors, next_cursor } = await collection.scroll(request);
            expect(vectors.length).toBeLessThanOrEqual(limit);
            for (const vector of vectors) {
              const { id, metadata, ...rest } = vector.toRecord(["metadata"]);
              expect(Object.keys(rest)).toEqual(["document_id"]);
              expect(metadata).toEqual(records.find((one) => one.id === id)?.metadata);
              ids.push(id);
            }
            if (next_cursor === null) break;
            request = { ...request, cursor: next_cursor };
          }
          expect(ids).toEqual(wanted(records, filter).map(({ id }) => id));
        }
    });
  });
}

test("[W10] are listed in the order of an indexed field, also while they are written", async () => {
  const collection = await make(400, indexed);
  const records = Array.from({ length: 400 }, (_, i) => record(i));
  // Where few records are left, they are read; otherwise the index is walked.
  let limit = 7;
  const list = async (order_by: ScrollVectors["order_by"], meanwhile?: (page: number) => Promise<void>) => {
    const ids: string[] = [];
    let cursor: string | null = null;
    for (let page = 0; page === 0 || cursor !== null; page++) {
      const { vectors, next_cursor } = await collection.scroll({ order_by, cursor, limit });
      ids.push(...vectors.map((vector) => vector.toRecord().id));
      cursor = next_cursor;
      await meanwhile?.(page);
    }
    return ids;
  };
  const sorted = (field: string, sign: 1 | -1) => {
    const typed = records.flatMap((one) => {
      const values = [(one.metadata as Record<string, unknown>)[field]]
        .flat()
        .filter((value) => typeof value === (field === "t" || field === "color" ? "string" : "number")) as (
        | string
        | number
      )[];
      if (values.length === 0) return [];
      values.sort((a, b) => (a < b ? -sign : sign));
      return [{ id: one.id, value: values[0] }];
    });
    typed.sort((a, b) => (a.value < b.value ? -sign : a.value > b.value ? sign : a.id < b.id ? -1 : 1));
    return typed.map(({ id }) => id);
  };
  for (limit of [7, 23])
    for (const field of Object.keys(indexed)) {
      expect(await list({ field }), field).toEqual(sorted(field, 1));
      expect(await list({ field, direction: "desc" }), field).toEqual(sorted(field, -1));
    }
  limit = 7;
  const stays = new Set(await list({ field: "color" }));
  let next = 1_000;
  const seen = await list({ field: "color" }, async (page) => {
    await collection.upsert([record(next++), record(page)]);
    await collection.delete(`r${String(399 - page).padStart(4, "0")}`);
    stays.delete(`r${String(399 - page).padStart(4, "0")}`);
  });
  expect(new Set(seen).size).toBe(seen.length);
  for (const id of stays) expect(seen, id).toContain(id);
  await expect(collection.scroll({ order_by: { field: "missing" } })).rejects.toMatchObject({
    code: "index_not_found",
  });
  const refused = async (request: Parameters<typeof collection.scroll>[0]) => {
    const refusal = { code: "invalid_request", details: { path: "cursor" } };
    await expect(collection.scroll(request)).rejects.toMatchObject(refusal);
  };
  const order_by = { field: "color" };
  const made = (await collection.scroll({ order_by, limit: 1 })).next_cursor ?? "";
  const forged = Buffer.from(made, "base64url");
  forged[20] ^= 1;
  for (const cursor of ["", "x", btoa("[1]"), made.slice(0, -4), forged.toString("base64url")])
    await refused({ cursor, order_by });
});

test("[W10] a cursor belongs to its order and filter, however these are written", async () => {
  const collection = await make(100, { color: "keyword", n: "number" });
  const cursorOf = async (request: Parameters<typeof collection.scroll>[0]) =>
    (await collection.scroll({ ...request, limit: 3 })).next_cursor;
  const color = { field: "color" };
  const first = { order_by: color, filter: { color: "red" } };
  const cursor = await cursorOf(first);
  expect(cursor).not.toBeNull();
  for (const same of [
    first,
    { order_by: { ...color, direction: "asc" as const }, filter: { field: "color", eq: "red" } },
    { ...first, limit: 7, include: ["text" as const] },
  ])
    expect((await collection.scroll({ ...same, cursor })).vectors.length).toBeGreaterThan(0);
  const refusal = (what: string) => ({
    code: "invalid_request",
    details: { path: "cursor" },
    message: expect.stringContaining(`another ${what}`),
  });
  for (const order_by of [null, { ...color, direction: "desc" as const }, { field: "n" }, { field: "id" }])
    await expect(collection.scroll({ ...first, order_by, cursor })).rejects.toMatchObject(
      refusal("order_by"),
    );
  for (const filter of [null, { color: "blue" }, { color: "red", n: 1 }])
    await expect(collection.scroll({ ...first, filter, cursor })).rejects.toMatchObject(refusal("filter"));
  const byId = await cursorOf({});
  expect((await collection.scroll({ cursor: byId, order_by: { field: "id" } })).vectors.length).toBe(97);
  await expect(collection.scroll({ cursor: byId, order_by: color })).rejects.toMatchObject(
    refusal("order_by"),
  );
});

test("[W11] are fetched by id, in order", async () => {
  const collection = await make(10, {});
  const found = await collection.fetch({ ids: ["r0003", "none", "r0001", "r0003"] });
  expect(found.map((vector) => vector?.toRecord() ?? null)).toEqual(
    ["r0003", null, "r0001", "r0003"].map((id) => id && collection.get(id).toRecord()),
  );
  expect(found[0]?.toJson(["dense_values", "metadata"])).toBe(
    '{"id":"r0003","document_id":"d3","dense_values":[3,1],"metadata":{"n":3,"color":"red"}}',
  );
  await expect(collection.fetch({ ids: ["a", ""] })).rejects.toMatchObject({ details: { path: "ids[1]" } });
  await expect(collection.fetch({ ids: ["a"], include: ["x" as never] })).rejects.toMatchObject({
    details: { path: "include[0]" },
  });
});

describe("[W12] changes by filter", () => {
  test("delete exactly the matching records, as one version", async () => {
    for (const indexes of [{}, indexed]) {
      const collection = await make(300, indexes);
      const before = collection.currentVersion().version_number;
      const filter: Filter = { color: "red", n: { gte: 30 } };
      const records = Array.from({ length: 300 }, (_, i) => record(i));
      const gone = wanted(records, filter);
      expect((await collection.deleteMatching({ filter })).deleted).toBe(gone.length);
      expect(collection.currentVersion().version_number).toBe(before + 1);
      expect((await collection.count({ filter })).count).toBe(0);
      expect((await collection.count()).count).toBe(300 - gone.length);
      // What matches nothing makes no version.
      expect((await collection.deleteMatching({ filter })).deleted).toBe(0);
      expect(collection.currentVersion().version_number).toBe(before + 1);
      for (const empty of [{}, { and: [] }, { not: { or: [] } }] as Filter[])
        await expect(collection.deleteMatching({ filter: empty })).rejects.toMatchObject({
          code: "invalid_filter",
        });
      expect((await collection.check()).findings).toEqual([]);
    }
  });

  test("merge a patch into the metadata, and leave the rest as it is", async () => {
    const collection = await make(50, indexed);
    const before = collection.get("r0007").toRecord();
    const metadata = { color: null, extra: { a: 1, b: [1, null] }, n: { deep: true } };
    expect((await collection.updateMatching({ filter: { n: { lt: 10 } }, metadata })).updated).toBe(10);
    expect(collection.get("r0007").toRecord()).toEqual({
      ...before,
      metadata: { n: { deep: true }, odd: [7, "s1", true, null], extra: { a: 1, b: [1, null] } },
    });
    await collection.patch("r0007", { metadata: { extra: { a: null, c: 2 } } });
    expect(collection.get("r0007").toRecord().metadata).toMatchObject({ extra: { b: [1, null], c: 2 } });
    expect((await collection.count({ filter: { "extra.a": 1 } })).count).toBe(9);
    expect((await collection.search("text", { query: "words of 7" })).results[0].id).toBe("r0007");
    await expect(collection.patch("none", { metadata: {} })).rejects.toMatchObject({
      code: "vector_not_found",
    });
    await expect(collection.patch("r0007", { metadata: [] as never })).rejects.toMatchObject({
      details: { path: "metadata" },
    });
  });

  test("keep numbers that JavaScript cannot represent", async () => {
    const collection = await make(0, {});
    await collection.upsert([
      {
        id: "a",
        dense_values: [1, 2],
        metadata: { n: 1, o: {} },
        metadataJson: '{"n":12345678901234567890,"o":{"x":1.0}}',
      },
    ]);
    await collection.patch("a", { metadata: { o: { y: 1 } }, metadataJson: '{"o":{"y":1e999}}' });
    expect(collection.get("a").toJson()).toContain(
      '"metadata":{"n":12345678901234567890,"o":{"x":1.0,"y":1e999}}',
    );
  });

  test("refuse metadata that is too large, and change nothing", async () => {
    const collection = await make(3, {});
    await collection.patch("r0001", { metadata: { long: "x".repeat(60_000) } });
    const version = collection.currentVersion();
    const patch = { metadata: { other: "y".repeat(10_000) } };
    await expect(collection.patch("r0001", patch)).rejects.toMatchObject({ code: "invalid_vector" });
    await expect(collection.updateMatching({ filter: { n: { gte: 0 } }, ...patch })).rejects.toMatchObject({
      code: "invalid_vector",
      details: { vector_id: "r0001" },
    });
    expect(collection.currentVersion()).toEqual(version);
  });

  test("change exactly the matching records of one version, however many are written meanwhile", async () => {
    const collection = await make(0, indexed);
    // Each record has one of two states in every version, all at a time, so the records of one version are alike.
    const all = (state: number) =>
      Array.from({ length: 200 }, (_, i) => ({
        id: `s${i}`,
        dense_values: [i, 1],
        metadata: { state, n: state },
      }));
    await collection.upsert(all(0));
    let isOver = false;
    const writing = (async () => {
      for (let state = 1; state <= 60; state++) await collection.upsert(all(state % 2));
      isOver = true;
    })();
    let changed = 0;
    while (!isOver) {
      const { updated } = await collection.updateMatching({
        filter: { n: 1, seen: { exists: false } },
        metadata: { seen: true },
      });
      const { deleted } = await collection.deleteMatching({ filter: { n: 0, seen: true } });
      expect([0, 200]).toContain(updated);
      expect([0, 200]).toContain(deleted);
      changed += updated + deleted;
    }
    await writing;
    expect(changed).toBeGreaterThan(0);
    expect((await collection.check()).findings).toEqual([]);
  });
});

describe("[W13] results", () => {
  test("include the fields that are asked for", async () => {
    const collection = await make(20, {});
    const [result] = (
      await collection.search("dense", {
        query_vector: [7, 1],
        top_k: 1,
        exact: true,
        include: ["metadata", "text", "dense_values", "sparse_values"],
      })
    ).results;
    const stored = collection.get(result.id).toRecord();
    expect(JSON.parse(JSON.stringify(result))).toEqual({
      id: result.id,
      document_id: stored.document_id,
      score: result.score,
      text: stored.text,
      sparse_values: stored.sparse_values,
      metadata: stored.metadata,
      dense_values: stored.dense_values,
    });
    await expect(
      collection.search("dense", { query_vector: [1, 1], include: ["text", "vector" as never] }),
    ).rejects.toMatchObject({ details: { path: "include[1]" } });
  });

  test("begin behind an offset, and end at a score", async () => {
    const collection = await make(60, {});
    const searches = {
      dense: (more: object) => collection.search("dense", { query_vector: [30, -1], exact: true, ...more }),
      text: (more: object) => collection.search("text", { query: "words of 7", ...more }),
      hybrid: (more: object) =>
        collection.search("hybrid", { query_vector: [30, -1], query_text: "words", ...more }),
    };
    for (const search of Object.values(searches)) {
      for (const offset of [5, 58]) {
        // The legs of a hybrid search rank so many that the ranking depends on it.
        const { results } = await search({ top_k: offset + 7 });
        expect((await search({ top_k: 7, offset })).results).toEqual(results.slice(offset));
      }
      const { results: all } = await search({ top_k: 60 });
      const floor = all[9].score;
      const above = all.filter(({ score }) => score >= floor);
      expect((await search({ top_k: 60, score_threshold: floor })).results).toEqual(above);
      expect((await search({ top_k: 58, offset: 2, score_threshold: floor })).results).toEqual(
        above.slice(2),
      );
      const deep = { top_k: 30, offset: 30, score_threshold: floor };
      expect((await search(deep)).results).toEqual(above.slice(30));
    }
    await expect(searches.dense({ top_k: 6_000, offset: 4_001 })).rejects.toMatchObject({
      details: { path: "offset" },
    });
  });

  test("are limited for each group, however deep the others lie", async () => {
    const collection = await make(0, {});
    const next = randomNumbers(4);
    // Nine of ten records are near the query and in one document.
    const records = Array.from({ length: 3_000 }, (_, i) => ({
      id: `g${i}`,
      document_id: i % 10 === 0 ? `d${i % 70}` : i % 10 === 1 && i < 100 ? null : "all",
      dense_values: [i % 10 === 0 ? 10 + next() : 1, next()],
      metadata: { kind: [[i % 4, "x"], "y"][i % 2] },
    }));
    await collection.upsert(records);
    for (const [group_by, group_size] of [
      ["document_id", 1],
      ["document_id", 3],
      ["kind", 2],
      ["id", 1],
    ] as const) {
      const { results: all } = await collection.search("dense", {
        query_vector: [-1, 0.3],
        top_k: 3_000,
        exact: true,
      });
      const sizes = new Map<unknown, number>();
      const groupOf = (id: string) => {
        const one = records[Number(id.slice(1))];
        return group_by === "kind" ? [one.metadata.kind].flat()[0] : one[group_by];
      };
      const expected = all.filter(({ id }) => {
        const group = groupOf(id);
        const size = sizes.get(group) ?? 0;
        sizes.set(group, size + 1);
        return group === null || size < group_size;
      });
      for (const { top_k, offset } of [
        { top_k: 5, offset: 0 },
        { top_k: 15, offset: 4 },
      ]) {
        const request = { query_vector: [-1, 0.3], top_k, offset, group_by, group_size, exact: true };
        const { results } = await collection.search("dense", request);
        const page = expected.slice(offset, offset + top_k);
        expect(results).toEqual(page.map((result) => ({ ...result, group: groupOf(result.id) })));
        const [explained] = await collection.search("batchDense", {
          queries: [{ vector: [-1, 0.3] }],
          ...{ top_k, offset, group_by, group_size, exact: true, explain: true },
        });
        expect(explained.results.map(({ id }) => id)).toEqual(page.map(({ id }) => id));
        expect(explained.results.every(({ explanation }) => explanation?.dense !== null)).toBe(true);
      }
    }
  });
});
