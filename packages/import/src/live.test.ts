// Running servers of other databases, read by their public clients: PostgreSQL with pgvector itself, the others by what their interfaces say.

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Pinecone } from "@pinecone-database/pinecone";
import { QdrantClient } from "@qdrant/js-client-rest";
import { type Database, isQuiverError, type RecordInput } from "@quiverdb/client";
import { open } from "@quiverdb/database";
import { ChromaClient } from "chromadb";
import { Client, Pool } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Postgres, postgres } from "../test/postgres.ts";
import { chromaServer, pineconeServer, qdrantServer, type StubVector } from "../test/stub-servers.ts";
import {
  type ImportFormat,
  type ImportOptions,
  type ImportProgress,
  importFrom,
  type LiveSources,
} from "./import-from.ts";

/** What is read, without a database. */
async function recordsOf<Format extends ImportFormat>(
  format: Format,
  source: LiveSources[Format],
  options?: ImportOptions<Format>,
): Promise<RecordInput[]> {
  const read: RecordInput[] = [];
  const upsert = async (records: unknown) => {
    for await (const record of records as AsyncIterable<RecordInput>) read.push(record);
    return { upserted: read.length, requests: 1 };
  };
  const { records } = await importFrom(format, source, { upsert }, options);
  expect(records).toBe(read.length);
  return read;
}

const failureOf = async (promise: Promise<unknown>) => {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isQuiverError(error)) throw new Error(`expected a QuiverError, got ${error}`);
  return { code: error.code, message: error.message, details: error.details };
};

let folder: string;
let database: Database;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "quiver-live-"));
  database = await open(folder);
});
afterAll(async () => {
  await database.close();
  rmSync(folder, { recursive: true });
});

/**
 * Imports by pages of two records, once as a whole and once again behind each cursor; so every cursor is proved to go on where it says.
 * @returns the progress of the first import
 */
async function resumed<Format extends ImportFormat>(
  format: Format,
  source: LiveSources[Format],
  options: ImportOptions<Format>,
  ids: readonly string[],
): Promise<ImportProgress[]> {
  const progress: ImportProgress[] = [];
  const small = { ...options, pageRecords: 2 };
  const target = await database.createCollection({
    name: `${format}-resumed`,
    tf_idf_options: { enabled: true },
  });
  const asText = {
    upsert: (records: AsyncIterable<RecordInput>, call: object) =>
      target.upsert(
        (async function* () {
          for await (const { id } of records) yield { id, text: id };
        })(),
        call,
      ),
  };
  await importFrom(
    format,
    source,
    asText as never,
    {
      ...small,
      batchRecords: 1,
      onProgress: (now: ImportProgress) => progress.push(now),
    } as ImportOptions<Format>,
  );
  expect(progress.map(({ acknowledged }) => acknowledged)).toEqual(ids.map((_, i) => i + 1));
  for (const { cursor, acknowledged, recordsTotal } of progress) {
    expect(recordsTotal).toBe(ids.length);
    if (cursor === undefined) {
      expect(acknowledged).toBeLessThan(2);
      continue;
    }
    const rest = await recordsOf(format, source, { ...small, cursor } as ImportOptions<Format>);
    // The cursor is that of the last page which is durable as a whole.
    const before = ids.length - rest.length;
    expect(acknowledged - before).toBeLessThan(2);
    expect(rest.map(({ id }) => id)).toEqual(ids.slice(before));
  }
  expect(progress.at(-1)?.acknowledged).toBe(ids.length);
  await target.drop();
  return progress;
}

describe("qdrant", () => {
  const params = { vectors: { size: 2, distance: "Dot" } };
  const points = [
    '{"id":1,"payload":{"content":"bees","tags":["a","b"],"place":{"lat":1.5}},"vector":[1,0]}',
    '{"id":7,"payload":{},"vector":[0.5,0.25]}',
    '{"id":9007199254740993,"payload":null,"vector":[0,1]}',
    '{"id":18446744073709551615,"payload":{"content":"whales"},"vector":[1,1]}',
    '{"id":"5c56c793-69f3-4fbf-87e6-c4bf54c28c26","vector":[0,0.5]}',
  ];
  const ids = ["1", "7", "9007199254740993", "18446744073709551615", "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"];

  it("[J7] is read by pages, with ids of 64 bits, into a collection with its dimension and metric", async () => {
    await using server = await qdrantServer(params, points, "key");
    const source = { url: server.url, apiKey: "key", collection: "books" };
    const target = { database, collection: "from-qdrant" };
    expect(await importFrom("qdrant", source, target, { text: "content", pageRecords: 2 })).toEqual({
      records: 5,
      format: "qdrant",
      bytesRead: 0,
    });
    expect(server.requests.filter((request) => request.endsWith("/scroll"))).toHaveLength(3);
    const books = database.collection("from-qdrant");
    expect(await books.describe()).toMatchObject({
      dense_vector: { enabled: true, dimension: 2 },
      sparse_vector: { enabled: false },
      store_raw_text: true,
    });
    expect((await books.indexes()).dense).toMatchObject({ distance_metric_type: "dot_product" });
    expect(await books.get("1")).toMatchObject({
      text: "bees",
      dense_values: [1, 0],
      metadata: { tags: ["a", "b"], place: { lat: 1.5 } },
    });
    expect((await books.get("18446744073709551615")).text).toBe("whales");
    // Running it again changes nothing.
    await importFrom("qdrant", source, target, { text: "content" });
    expect(await books.count()).toBe(5);
  });

  it("[J7] goes on behind any cursor", async () => {
    await using server = await qdrantServer(params, points);
    // The types say that the client fits.
    const client = new QdrantClient({ url: server.url, checkCompatibility: false });
    await resumed("qdrant", { client, collection: "books" }, {}, ids);
  });

  it("[J8] takes the vectors that are chosen, asks for no others, and says which there are", async () => {
    const named = {
      vectors: {
        title: { size: 2, distance: "Cosine" },
        body: { size: 3, distance: "Euclid" },
        many: { size: 2, distance: "Cosine", multivector_config: { comparator: "max_sim" } },
      },
      sparse_vectors: { words: {}, stems: {} },
    };
    const vector = {
      title: [1, 0],
      body: [1, 2, 3],
      many: [[1, 0]],
      words: { indices: [1], values: [1] },
      stems: { indices: [2], values: [0.5] },
    };
    await using server = await qdrantServer(named, [JSON.stringify({ id: 1, vector })]);
    const source = { url: server.url, collection: "books" };
    const open = await failureOf(recordsOf("qdrant", source));
    expect(open).toMatchObject({ code: "invalid_request", details: { option: "vector" } });
    expect(open.message).toContain("title, body, many; choose one with the option vector");
    expect(await failureOf(recordsOf("qdrant", source, { vector: "body" }))).toMatchObject({
      details: { option: "sparse", vectors: ["words", "stems"] },
    });
    const wrong = await failureOf(recordsOf("qdrant", source, { vector: "headline" }));
    expect(wrong.message).toContain('no dense vector named "headline"; it has title, body, many');
    const multi = await failureOf(recordsOf("qdrant", source, { vector: "many", sparse: "words" }));
    expect(multi.message).toContain("multivectors");
    expect(server.requests.filter((request) => request.endsWith("/scroll"))).toHaveLength(0);
    expect(await recordsOf("qdrant", source, { vector: "body", sparse: "stems" })).toEqual([
      { id: "1", dense_values: [1, 2, 3], sparse_indices: [2], sparse_values: [0.5] },
    ]);
  });

  it("[J8] a metric that is not known here has to be replaced", async () => {
    await using server = await qdrantServer({ vectors: { size: 2, distance: "Manhattan" } }, points);
    const source = { url: server.url, collection: "books" };
    const target = { database, collection: "manhattan" };
    expect(await failureOf(importFrom("qdrant", source, target))).toMatchObject({
      code: "invalid_request",
      details: { option: "metric", metric: "Manhattan" },
    });
    await importFrom("qdrant", source, { ...target, metric: "euclidean" });
    const { dense } = await database.collection("manhattan").indexes();
    expect(dense).toMatchObject({ distance_metric_type: "euclidean" });
  });

  it("[J8] a collection with another dimension is refused before anything is written", async () => {
    await using server = await qdrantServer(params, points);
    const name = "of-three";
    const collection = await database.createCollection({
      name,
      dense_vector: { enabled: true, dimension: 3 },
    });
    const source = { url: server.url, collection: "books" };
    expect(await failureOf(importFrom("qdrant", source, { database, collection: name }))).toMatchObject({
      code: "invalid_request",
      details: { dimension: 2, expected: 3 },
    });
    expect(await collection.count()).toBe(0);
  });

  it("[J8] says what the server answered, and that nobody answers", async () => {
    const server = await qdrantServer(params, points, "key");
    const source = { url: server.url, collection: "books" };
    expect((await failureOf(recordsOf("qdrant", { ...source, apiKey: "wrong" }))).code).toBe("source_failed");
    const missing = await failureOf(recordsOf("qdrant", { ...source, apiKey: "key", collection: "films" }));
    expect(missing).toMatchObject({ code: "source_failed" });
    expect(missing.message).toMatch(/^Qdrant refused: .*Not Found/);
    await server[Symbol.asyncDispose]();
    const gone = await failureOf(recordsOf("qdrant", source));
    expect(gone.message).toMatch(/^Qdrant refused: .*ECONNREFUSED/);
  });

  it("[J7] an interruption does not wait for the server", async () => {
    const interrupt = new AbortController();
    const reason = new Error("enough");
    const client = {
      getCollection: async () => ({ config: { params } }),
      count: async () => ({ count: 1 }),
      scroll: () => {
        setImmediate(() => interrupt.abort(reason));
        return new Promise<never>(() => undefined);
      },
    };
    await expect(
      recordsOf("qdrant", { client, collection: "books" }, { signal: interrupt.signal }),
    ).rejects.toBe(reason);
  });
});

it("[J8] addresses are those of HTTP, of Chroma without a path; of Qdrant with one", async () => {
  const wrong = { url: "ftp://me:secret@host", collection: "books" };
  for (const format of ["qdrant", "chroma"] as const) {
    const { code, message } = await failureOf(recordsOf(format, wrong));
    expect(code).toBe("invalid_request");
    expect(message).not.toContain("secret");
  }
  const path = { url: "http://127.0.0.1:1/chroma", collection: "books" };
  expect((await failureOf(recordsOf("chroma", path))).message).toContain("/chroma");
  await using server = await qdrantServer({ vectors: { size: 1, distance: "Dot" } }, []);
  await failureOf(recordsOf("qdrant", { url: `${server.url}/db/`, collection: "books" }));
  expect(server.requests).toEqual(["GET /db/collections/books"]);
});

describe("pinecone", () => {
  const fields = { _values: { type: "dense_vector", dimension: 2, metric: "euclidean" } };
  const vectors: StubVector[] = [
    { id: "a", values: [1, 0], metadata: { text: "bees", legs: 6, tags: ["x"] } },
    { id: "b", values: [0, 1], sparseValues: { indices: [3], values: [0.5] } },
    { id: "deleted", values: [0, 0] },
    { id: "d", values: [1, 1], metadata: { text: "whales" } },
    { id: "e", values: [0.5, 1] },
  ];

  it("[J7] is read by pages into a collection with its dimension and metric", async () => {
    await using server = await pineconeServer(fields, { "": vectors });
    const source = { apiKey: "key", url: server.url, index: "books" };
    const target = { database, collection: "from-pinecone" };
    const options = { text: "text", pageRecords: 2 };
    expect((await importFrom("pinecone", source, target, options)).records).toBe(4);
    const books = database.collection("from-pinecone");
    expect((await books.indexes()).dense).toMatchObject({ distance_metric_type: "euclidean" });
    expect(await books.get("a")).toMatchObject({
      text: "bees",
      dense_values: [1, 0],
      metadata: { legs: 6, tags: ["x"] },
    });
    expect(server.requests.filter((request) => request.startsWith("GET /vectors/list"))).toHaveLength(3);
  });

  it("[J7] goes on behind any cursor", async () => {
    const present = vectors.filter(({ id }) => id !== "deleted");
    await using server = await pineconeServer(fields, { "": present });
    const client = new Pinecone({ apiKey: "key", controllerHostUrl: server.url });
    await resumed("pinecone", { client, index: "books" }, {}, ["a", "b", "d", "e"]);
  });

  it("[J8] one namespace is read, and has to be named if there are several", async () => {
    const [one, two] = [vectors.slice(0, 1), vectors.slice(1, 2)];
    await using server = await pineconeServer(fields, { "": one, acme: two });
    const source = { apiKey: "key", url: server.url, index: "books" };
    expect(await failureOf(recordsOf("pinecone", source))).toMatchObject({
      code: "invalid_request",
      details: { option: "namespace", namespaces: ["", "acme"] },
    });
    expect(await recordsOf("pinecone", { ...source, namespace: "acme" })).toEqual([
      { id: "b", dense_values: [0, 1], sparse_indices: [3], sparse_values: [0.5] },
    ]);
  });

  it("[J7] an index of sparse vectors becomes a collection of them", async () => {
    const sparse = [{ id: "a", sparseValues: { indices: [3], values: [0.5] } }];
    await using server = await pineconeServer({ _sparse_values: { type: "sparse_vector" } }, { "": sparse });
    const source = { apiKey: "key", url: server.url, index: "books" };
    await importFrom("pinecone", source, { database, collection: "from-sparse" });
    expect(await database.collection("from-sparse").describe()).toMatchObject({
      dense_vector: { enabled: false },
      sparse_vector: { enabled: true },
    });
  });

  it("[J8] an index of documents is refused; so are a wrong key and pages that are too large", async () => {
    await using server = await pineconeServer({ title: { type: "string" } }, { "": [] });
    const source = { apiKey: "key", url: server.url, index: "books" };
    expect((await failureOf(recordsOf("pinecone", source))).message).toContain(
      "documents with the fields title",
    );
    const refused = await failureOf(recordsOf("pinecone", { ...source, apiKey: "other" }));
    expect(refused).toMatchObject({ code: "source_failed" });
    expect(await failureOf(recordsOf("pinecone", source, { pageRecords: 101 }))).toMatchObject({
      code: "invalid_request",
    });
  });
});

describe("chroma", () => {
  const configuration = {
    hnsw: { space: "ip", ef_construction: 100 },
    spann: null,
    embedding_function: null,
  };
  const records = [
    { id: "a", embedding: [1, 0], document: "bees", metadata: { doc: "insects", tags: ["x", "y"] } },
    { id: "b", embedding: [0, 1], document: null, metadata: null },
    {
      id: "c",
      embedding: [1, 1],
      document: "whales",
      metadata: { words: { "#type": "sparse_vector", indices: [7], values: [0.5] }, legs: 0 },
      uri: "file:///whales.png",
    },
  ];

  it("[J7] is read by pages into a collection with its dimension and metric", async () => {
    await using server = await chromaServer(configuration, records);
    const source = { url: server.url, apiKey: "key", collection: "books" };
    const target = { database, collection: "from-chroma" };
    const options = { document: "doc", sparse: "words", pageRecords: 2 };
    expect((await importFrom("chroma", source, target, options)).records).toBe(3);
    const books = database.collection("from-chroma");
    expect(await books.describe()).toMatchObject({
      dense_vector: { enabled: true, dimension: 2 },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
    });
    expect((await books.indexes()).dense).toMatchObject({ distance_metric_type: "dot_product" });
  });

  it("a collection that exists keeps what it has; a record with more is refused", async () => {
    const name = "dense-alone";
    const collection = await database.createCollection({
      name,
      dense_vector: { enabled: true, dimension: 2 },
    });
    await using server = await chromaServer(configuration, [records[1], records[0]]);
    const source = { url: server.url, apiKey: "key", collection: "books" };
    const options = { batchRecords: 1 };
    expect(
      await failureOf(importFrom("chroma", source, { database, collection: name }, options)),
    ).toMatchObject({
      code: "modality_not_enabled",
      message: expect.stringMatching(/^Chroma, record 2: documents is given, but /),
      details: { acknowledged: 1, record: 1 },
    });
    expect(await collection.get("b")).toMatchObject({ dense_values: [0, 1] });
    expect(Object.keys(await collection.indexes())).toEqual(["dense"]);
  });

  it("[J7] carries over documents, sparse vectors and URIs", async () => {
    await using server = await chromaServer(configuration, records);
    const client = new ChromaClient({
      host: "127.0.0.1",
      port: Number(new URL(server.url).port),
      headers: { "x-chroma-token": "key" },
    });
    const source = { client, collection: "books" };
    expect(await recordsOf("chroma", source, { document: "doc", sparse: "words" })).toEqual([
      {
        id: "a",
        text: "bees",
        document_id: "insects",
        dense_values: [1, 0],
        metadata: { doc: "insects", tags: ["x", "y"] },
      },
      { id: "b", dense_values: [0, 1] },
      {
        id: "c",
        text: "whales",
        dense_values: [1, 1],
        sparse_indices: [7],
        sparse_values: [0.5],
        metadata: { legs: 0, "chroma:uri": "file:///whales.png" },
      },
    ]);
    await resumed("chroma", source, {}, ["a", "b", "c"]);
  });

  it("[J8] says what the server answered", async () => {
    await using server = await chromaServer(configuration, records);
    const source = { url: server.url, apiKey: "key", collection: "films" };
    const missing = await failureOf(recordsOf("chroma", source));
    expect(missing).toMatchObject({ code: "source_failed" });
    expect((await failureOf(recordsOf("chroma", { ...source, apiKey: "other" }))).code).toBe("source_failed");
  });
});

describe("pgvector", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await postgres();
    await server.run(`
      CREATE TABLE items (
        sku text PRIMARY KEY, content text, price numeric, big bigint, active boolean, tags text[], seen timestamptz,
        data jsonb, embedding vector(3), half halfvec(2), words sparsevec(5), raw real[]);
      INSERT INTO items VALUES
        ('b', 'bees, "dance" ü', 9.50, 5, true, '{x,y}', '2024-05-01 12:00:00+00', '{"legs": 6}', '[1,0.5,2]', '[1,2]', '{1:0.5,3:1}/5', '{1,2.5}'),
        ('a', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('c"''\\', '', 0, -1, false, '{}', NULL, '{"n": {"deep": [1]}}', '[0,0,1]', NULL, '{}/5', '{0,1}'),
        ('', 'empty id', 1, 1, true, NULL, NULL, NULL, '[3,2,1]', NULL, NULL, NULL);
      CREATE INDEX ON items USING hnsw (embedding vector_cosine_ops);
      CREATE TABLE pages (id bigint PRIMARY KEY, embedding vector(2));
      INSERT INTO pages SELECT n * 9007199254740, ARRAY[n, 1]::vector FROM generate_series(1, 5) AS n;
      CREATE TABLE chunks (id int, part int, embedding vector(2), PRIMARY KEY (id, part));
      INSERT INTO chunks VALUES (1, 1, '[1,0]'), (1, 2, '[0,1]');
      CREATE SCHEMA shop; CREATE TABLE shop."My items" (id int PRIMARY KEY, "em""b" halfvec(2));
      INSERT INTO shop."My items" VALUES (1, '[1,2]');`);
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const columns = { id: "sku", text: "content", sparse: "words", metadata: "data" };

  it("[J7] a table is read with the types of its columns", async () => {
    await server.run("DELETE FROM items WHERE sku = ''");
    const options = { columns, omit: ["half"] };
    const expected = [
      { id: "a" },
      {
        id: "b",
        text: 'bees, "dance" ü',
        dense_values: [1, 0.5, 2],
        sparse_indices: [0, 2],
        sparse_values: [0.5, 1],
        metadata: {
          legs: 6,
          price: 9.5,
          big: 5,
          active: true,
          tags: ["x", "y"],
          seen: "2024-05-01T12:00:00+00:00",
          raw: [1, 2.5],
        },
      },
      {
        id: "c\"'\\",
        text: "",
        dense_values: [0, 0, 1],
        metadata: { n: { deep: [1] }, price: 0, big: -1, active: false, tags: [], raw: [0, 1] },
      },
    ];
    const found = await recordsOf("pgvector", { url: server.url, table: "items" }, options);
    expect(found).toEqual(expected);
    await expect.poll(() => server.connections()).toBe(0);
    const client = new Client({ connectionString: server.url });
    await client.connect();
    expect(await recordsOf("pgvector", { client, table: "public.items" }, options)).toEqual(expected);
    // The caller's client stays open.
    expect((await client.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    await client.end();
  });

  it("[J7] arrays of numbers are vectors, too; names are quoted", async () => {
    const array = { columns: { id: "sku", vector: "raw" }, omit: ["half", "words", "embedding", "data"] };
    const [, second] = await recordsOf("pgvector", { url: server.url, table: "items" }, array);
    expect(second.dense_values).toEqual([1, 2.5]);
    const source = { url: server.url, table: 'shop."My items"' };
    expect(await recordsOf("pgvector", source, { columns: { vector: 'em"b' } })).toEqual([
      { id: "1", dense_values: [1, 2] },
    ]);
  });

  it("[J7] the collection gets the dimension of the column and the metric of its index", async () => {
    const target = { database, collection: "from-pgvector" };
    const source = { url: server.url, table: "items" };
    // The first row has nothing that a record needs.
    await server.run("DELETE FROM items WHERE sku = 'a'");
    await importFrom("pgvector", source, target, { columns, omit: ["half"] });
    const items = database.collection("from-pgvector");
    expect(await items.describe()).toMatchObject({
      dense_vector: { enabled: true, dimension: 3 },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
    });
    expect((await items.indexes()).dense).toMatchObject({ distance_metric_type: "cosine" });
    expect(await items.get("b")).toMatchObject({ text: 'bees, "dance" ü', metadata: { legs: 6 } });
  });

  it("[J7] pages go by the id, and on behind any cursor", async () => {
    const pool = new Pool({ connectionString: server.url, max: 1 });
    const ids = [1, 2, 3, 4, 5].map((n) => String(n * 9007199254740));
    try {
      await resumed("pgvector", { client: pool, table: "pages" }, {}, ids);
    } finally {
      await pool.end();
    }
  });

  it("[J7] an interruption ends a connection, also one that is not answered", async () => {
    const interrupt = new AbortController();
    const reason = new Error("enough");
    const silent = createServer((socket) => {
      socket.on("error", () => undefined).resume();
      socket.once("close", () => silent.close());
      interrupt.abort(reason);
    });
    await once(silent.listen(0, "127.0.0.1"), "listening");
    const closed = once(silent, "close");
    const url = `postgres://127.0.0.1:${(silent.address() as AddressInfo).port}/postgres`;
    const reading = recordsOf("pgvector", { url, table: "pages" }, { signal: interrupt.signal });
    await expect(reading).rejects.toBe(reason);
    await closed;
  });

  it("[J8] refuses what would lose rows or vectors, and says what to do", async () => {
    const failure = async (table: string, options: ImportOptions<"pgvector"> = {}) =>
      failureOf(recordsOf("pgvector", { url: server.url, table }, options));
    expect(await failure("nothing")).toMatchObject({
      code: "invalid_request",
      details: { table: "nothing" },
    });
    expect(await failure("items")).toMatchObject({
      code: "invalid_request",
      details: { missing: ["id"] },
    });
    const more = await failure("items", { columns });
    expect(more).toMatchObject({ code: "invalid_request", details: { columns: ["half"] } });
    expect(more.message).toContain("half (halfvec)");
    expect(await failure("chunks")).toMatchObject({ details: { column: "id", rows: 2, ids: 1 } });
    expect((await failure("pages", { types: { n: "number" } })).message).toContain("CSV files");
    expect(await failure("items; DROP TABLE items")).toMatchObject({ code: "invalid_request" });
    const nobody = { url: server.url.replace(/:\d+\//, ":1/"), table: "pages" };
    const refused = await failureOf(recordsOf("pgvector", nobody));
    expect(refused.code).toBe("source_failed");
    expect(refused.message).toContain("ECONNREFUSED");
    expect(refused.message).not.toContain("secret");
    await expect.poll(() => server.connections()).toBe(0);
  });
});

it("[J8] a cursor of another format is refused", async () => {
  await using server = await qdrantServer({ vectors: { size: 2, distance: "Dot" } }, []);
  for (const cursor of ['{"format":"chroma","records":1}', "nonsense", "null", "{}"])
    expect(
      await failureOf(recordsOf("qdrant", { url: server.url, collection: "books" }, { cursor })),
    ).toMatchObject({
      code: "invalid_request",
    });
});
