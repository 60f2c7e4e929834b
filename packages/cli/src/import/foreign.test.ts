// Other databases at the command line: real processes, a directory of records, servers that answer as the other databases do.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { open } from "@quiverdb/database";
import { parquetWriteBuffer, type SchemaElement } from "hyparquet-writer";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Postgres, postgres } from "../../../import/test/postgres.ts";
import { chromaServer, pineconeServer, qdrantServer } from "../../../import/test/stub-servers.ts";
import { nameOfServer } from "./foreign.ts";

const main = join(import.meta.dirname, "../../dist/main.js");
let folder: string;
let dataDir: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "quiver-foreign-"));
  dataDir = join(folder, "data");
});
afterAll(() => rmSync(folder, { recursive: true }));

type Result = { code: number | null; out: string; err: string };

/** Runs `quiver import` on the directory. @param onStart gets what interrupts the process */
function quiver(
  args: readonly string[],
  env: Record<string, string> = {},
  onStart: (interrupt: () => void) => void = () => undefined,
  input = "",
): Promise<Result> {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(QUIVER|QDRANT|PG|CHROMA|PINECONE)/.test(name),
  );
  const child = spawn(process.execPath, [main, "import", ...args, "--data-dir", dataDir], {
    env: { ...Object.fromEntries(own), ...env },
    cwd: folder,
  });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  onStart(() => child.kill("SIGINT"));
  child.stdin.end(input);
  return new Promise((done) => child.once("close", (code) => done({ code, out, err })));
}

/** What a collection has, by id. */
async function recordsOf(name: string, ...ids: string[]) {
  const database = await open(dataDir);
  try {
    const collection = database.collection(name);
    const { dense } = await collection.indexes();
    return {
      count: await collection.count(),
      metric: dense?.distance_metric_type,
      records: await Promise.all(ids.map((id) => collection.get(id))),
    };
  } finally {
    await database.close();
  }
}

const file = (name: string, content: string | ArrayBuffer): string => {
  writeFileSync(join(folder, name), typeof content === "string" ? content : new Uint8Array(content));
  return name;
};

/** A file as Pinecone imports it: lists, a struct, and metadata as a text of JSON, of which that of row 4 is none. */
function pineconeParquet(rows: number): ArrayBuffer {
  const list = (name: string, type: "FLOAT" | "INT64"): SchemaElement[] => [
    { name, repetition_type: "OPTIONAL", converted_type: "LIST", num_children: 1 },
    { name: "list", repetition_type: "REPEATED", num_children: 1 },
    { name: "element", repetition_type: "OPTIONAL", type },
  ];
  const each = <T>(value: (i: number) => T): T[] => Array.from({ length: rows }, (_, i) => value(i));
  return parquetWriteBuffer({
    schema: [
      { name: "root", num_children: 4 },
      { name: "id", type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "REQUIRED" },
      ...list("values", "FLOAT"),
      { name: "sparse_values", repetition_type: "OPTIONAL", num_children: 2 },
      ...list("indices", "INT64"),
      ...list("values", "FLOAT"),
      { name: "metadata", type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "OPTIONAL" },
    ],
    columnData: [
      { name: "id", data: each((i) => `v${i}`) },
      { name: "values", data: each((i) => [i, 0.5]) },
      {
        name: "sparse_values",
        data: each((i) => ({ indices: [BigInt(i), BigInt(i + 2)], values: [1, 0.25] })),
      },
      {
        name: "metadata",
        data: each((i) => (i === 3 ? "no JSON" : JSON.stringify({ title: `title ${i}`, n: i }))),
      },
    ],
    rowGroupSize: 10,
  });
}

const point = (id: number, vector: unknown = [id, 1]) =>
  JSON.stringify({ id, payload: { content: `text ${id}` }, vector });

describe("a server", () => {
  it("is read into a collection with its metric and its texts, with progress in records", async () => {
    await using qdrant = await qdrantServer(
      { vectors: { size: 2, distance: "Dot" } },
      [1, 2, 3].map((id) => point(id)),
      "key",
    );
    const env = { QDRANT_API_KEY: "key" };
    const args = ["books", "--from", "qdrant", qdrant.url, "--column", "text=content", "--create"];
    const { code, out, err } = await quiver([...args, "--json"], env);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(JSON.parse(out)).toMatchObject({ records: 3, rejected: 0, files: [`${qdrant.url}#books`] });
    expect(await recordsOf("books", "2")).toMatchObject({
      count: 3,
      metric: "dot_product",
      records: [{ text: "text 2", dense_values: [2, 1], metadata: {} }],
    });
    expect(existsSync(join(folder, "qdrant-books.quiver-import.json"))).toBe(false);
  });

  it("has its name, its namespace and its key where they are needed", async () => {
    const [records, fields] = [
      [{ id: "a", values: [1, 0] }],
      { _values: { type: "dense_vector", dimension: 2, metric: "cosine" } },
    ];
    await using pinecone = await pineconeServer(fields, { one: records, two: [{ id: "b", values: [0, 1] }] });
    const args = ["vectors", "--from", "pinecone", pinecone.url, "--source", "books", "--create"];
    expect(await quiver(args)).toMatchObject({ code: 2, err: expect.stringContaining("PINECONE_API_KEY") });
    const env = { PINECONE_API_KEY: "key" };
    const several = await quiver(args, env);
    expect(several.code).toBe(2);
    expect(several.err).toContain('the namespaces "one", "two"; choose one with --namespace');
    expect(await quiver([...args, "--namespace", "two"], env)).toMatchObject({ code: 0 });
    expect(await recordsOf("vectors", "b")).toMatchObject({ count: 1, metric: "cosine" });

    await using chroma = await chromaServer({ hnsw: { space: "l2" } }, [
      { id: "c", embedding: [1, 0], document: "bees", metadata: null },
    ]);
    const chromaArgs = ["docs", "--from", "chroma", chroma.url, "--source", "books", "--create"];
    expect(await quiver(chromaArgs, { CHROMA_API_KEY: "key" })).toMatchObject({ code: 0 });
    expect(await recordsOf("docs", "c")).toMatchObject({ metric: "euclidean", records: [{ text: "bees" }] });
    const refused = await quiver(chromaArgs);
    expect(refused.code).toBe(1);
    expect(refused.err).toMatch(/^quiver: Chroma refused: /);
  });

  it("[J7] is read on behind the last page after an interruption", async () => {
    const ids = Array.from({ length: 1_000 }, (_, i) => i + 1);
    const points = ids.map((id) => point(id));
    await using qdrant = await qdrantServer({ vectors: { size: 2, distance: "Cosine" } }, points);
    // The third page comes only in the second run.
    let isOpen = false;
    let interrupt: () => void = () => undefined;
    const state = join(folder, "qdrant-paged.quiver-import.json");
    const gate = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = Buffer.concat(chunks);
      if (!isOpen && body.includes('"offset":513')) return setTimeout(interrupt, 300);
      const init = { method: request.method, ...(body.length > 0 && { body }) };
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`${qdrant.url}${request.url}`, { ...init, headers });
      response.writeHead(answer.status, headers).end(await answer.text());
    });
    await new Promise<void>((ready) => gate.listen(0, "127.0.0.1", ready));
    const url = `http://127.0.0.1:${(gate.address() as AddressInfo).port}`;
    const args = [
      "paged",
      "--from",
      "qdrant",
      url,
      "--source",
      "books",
      "--create",
      "--column",
      "text=content",
      // Requests end within pages; reading goes on only between them.
      "--batch-size",
      "100",
    ];
    try {
      const first = await quiver(args, {}, (own) => {
        interrupt = own;
      });
      expect(first.code).toBe(130);
      expect(first.err).toContain("Interrupted");
      const saved = JSON.parse(readFileSync(state, "utf8"));
      // On a slow machine the second page may not have been acknowledged.
      const { number, cursor } = saved.position;
      expect([256, 512]).toContain(number);
      expect(JSON.parse(cursor)).toEqual({ format: "qdrant", records: number, next: String(number + 1) });
      isOpen = true;
      const asked = qdrant.requests.length;
      const second = await quiver(args);
      expect(second).toMatchObject({ code: 0 });
      expect(second.err).toContain(`Resuming after record ${number} of`);
      expect(second.out).toContain(`Imported 1,000 records (${1_000 - number} of them in this run)`);
      const pages = qdrant.requests.slice(asked).filter((request) => request.endsWith("/scroll"));
      // And the first one for --create.
      expect(pages).toHaveLength(1 + (number === 512 ? 2 : 3));
      expect((await recordsOf("paged")).count).toBe(1_000);
    } finally {
      gate.closeAllConnections();
      gate.close();
    }
  });

  it("that does not answer does not keep an interrupted import waiting", async () => {
    let interrupt: () => void = () => undefined;
    const silent = createServer(() => setTimeout(interrupt, 100));
    await new Promise<void>((ready) => silent.listen(0, "127.0.0.1", ready));
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    try {
      const { code, err } = await quiver(["none", "--from", "qdrant", url, "--create"], {}, (own) => {
        interrupt = own;
      });
      expect(code).toBe(130);
      expect(err).toContain("nothing was imported");
    } finally {
      silent.closeAllConnections();
      silent.close();
    }
  });

  it("is told without its password", () => {
    expect(nameOfServer("postgres://me:secret@host:5432/shop?sslmode=require", "items")).toBe(
      "postgres://host:5432/shop#items",
    );
    // An import from another namespace does not go on where one of this namespace has ended.
    expect(nameOfServer("https://api.pinecone.io", "books", "acme")).toBe(
      "https://api.pinecone.io#books/acme",
    );
  });
});

describe("a table of PostgreSQL", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await postgres();
    await server.run(`
      CREATE TABLE items (sku text PRIMARY KEY, title text, price numeric, embedding vector(2), other vector(2));
      INSERT INTO items VALUES ('a', 'bees', 9.5, '[1,0]', '[1,1]'), ('b', 'whales', 2, '[0,1]', NULL);
      CREATE INDEX ON items USING hnsw (embedding vector_l2_ops);`);
  });
  afterAll(() => server[Symbol.asyncDispose]());

  it("is read with its columns; what cannot be carried over is told in options of the command line", async () => {
    const args = ["items", "--from", "pgvector", server.url, "--create"];
    const without = await quiver(args);
    expect(without.code).toBe(2);
    expect(without.err).toContain("has no column id; it has sku, title, price, embedding, other.");
    expect(without.err).toContain("Name the columns with --column FIELD=COLUMN.");
    const columns = ["--column", "id=sku", "--column", "text=title"];
    const more = await quiver([...args, ...columns]);
    expect(more.code).toBe(2);
    expect(more.err).toContain("leave the others out with --omit");
    expect(more.err).not.toContain("secret");
    const done = await quiver([...args, ...columns, "--omit", "other"]);
    expect(done).toMatchObject({ code: 0, err: "" });
    expect(await recordsOf("items", "a")).toMatchObject({
      count: 2,
      metric: "euclidean",
      records: [{ text: "bees", dense_values: [1, 0], metadata: { price: 9.5 } }],
    });
    const nobody = await quiver(["items", "--from", "pgvector", server.url.replace(/:\d+\//, ":1/")]);
    expect(nobody.code).toBe(1);
    expect(nobody.err).toMatch(/^quiver: PostgreSQL refused: .*ECONNREFUSED/);
  });
});

describe("an export", () => {
  it("is read like other files: bad records are rejected with their reason, the others imported", async () => {
    const lines = [point(1), '{"id":18446744073709551615,"vector":[1,0]}', point(3, [1]), point(4)];
    const path = file("points.jsonl", lines.join("\n"));
    const args = ["exported", path, "--from", "qdrant", "--create", "--column", "text=content"];
    const result = await quiver(args);
    expect(result.code).toBe(3);
    expect(result.err).toContain(
      "points.jsonl:2: rejected (invalid_vector): has the id 18446744073709552000",
    );
    expect(result.err).toContain("points.jsonl:3: rejected (invalid_vector): vector has 1 value");
    expect(await recordsOf("exported", "4")).toMatchObject({ count: 2, records: [{ text: "text 4" }] });
  });

  it("[J12] is recognized without --from, in every layout, compressed, and from standard input", async () => {
    const points = Array.from({ length: 3 }, (_, i) => point(i + 1));
    const text = points.join("\n");
    const page = JSON.stringify({ result: { points: points.map((each) => JSON.parse(each)) } }, null, 1);
    const vectors = JSON.stringify({ vectors: { a: { id: "a", values: [1, 0] } } });
    const chroma = JSON.stringify({ ids: ["a"], embeddings: [[1, 0]], documents: ["bees"] });
    const chromaLines = ["a", "b"]
      .map((id) => JSON.stringify({ id, embedding: [1, 0], document: "bees", metadata: { legs: 6 } }))
      .join("\n");
    const matches = JSON.stringify({ matches: [{ id: "a", score: 0.5, values: [1, 0] }], namespace: "" });
    for (const [name, content, told, count] of [
      ["q.jsonl", text, 'points of Qdrant with "payload" and "vector", read as with --from qdrant.', 3],
      ["q.json", page, "points of Qdrant", 3],
      ["q.jsonl.gz", gzipSync(text), "points of Qdrant", 3],
      ["p.json", vectors, 'vectors of Pinecone with "values"', 1],
      ["m.json", matches, 'vectors of Pinecone with "values"', 1],
      ["c.json", chroma, 'pages of Chroma with "ids", "embeddings" and "documents"', 1],
      ["c.jsonl", chromaLines, 'records of Chroma with "embedding" and "document"', 2],
      ["g.csv", 'id,embedding\n1,"[1,0]"\n', "rows of pgvector", 1],
    ] as const) {
      writeFileSync(join(folder, name), content);
      const collection = `recognized ${name}`;
      const done = await quiver([collection, name, "--create"]);
      expect(done).toMatchObject({ code: 0, err: expect.stringContaining(`${name}: ${told}`) });
      expect((await recordsOf(collection)).count).toBe(count);
    }
    const named = await quiver(["recognized q.json", "q.jsonl", "--column", "text=content", "--quiet"]);
    // The collection was made without texts.
    expect(named).toMatchObject({ code: 3, err: expect.stringContaining("q.jsonl:1: rejected") });
    const piped = await quiver(["recognized q.json", "-"], {}, undefined, text);
    expect(piped).toMatchObject({
      code: 0,
      err: expect.stringContaining("standard input: points of Qdrant"),
    });
    expect(await quiver(["recognized q.json", "q.jsonl", "--format", "jsonl"])).toMatchObject({ code: 3 });
  });

  it("[J12] that is not clear is refused before anything is made, with the --from to give", async () => {
    const mixed = file("mixed.jsonl", `${point(1)}\n{"id":2,"vector":[1,0],"title":"x"}`);
    const { code, err } = await quiver(["unclear", mixed, "--create"]);
    expect(code).toBe(2);
    expect(err).toContain('line 2 has "vector", but also "title"');
    expect(err).toContain("Give --from qdrant");
    const own = file("own-lines.jsonl", '{"id":"a","dense_values":[1,0]}');
    file("only.jsonl", point(1));
    expect(await quiver(["unclear", "only.jsonl", own, "--create"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("own-lines.jsonl has records of Quiver"),
    });
    const body = file("body.json", '{"vectors":[{"id":"a","dense_values":[1,0]}]}');
    expect(await quiver(["unclear", body, "--create"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("is a request or an answer of Quiver"),
    });
    const database = await open(dataDir);
    expect((await database.listCollections()).map(({ name }) => name)).not.toContain("unclear");
    await database.close();
  });

  it("[J12] that is the answer to a query without values is refused with what to ask for", async () => {
    const path = file("answer.json", '{"matches":[{"id":"a","score":0.5,"values":[]}],"namespace":""}');
    for (const args of [[], ["--from", "pinecone"]]) {
      const { code, err } = await quiver(["answer", path, "--create", ...args]);
      expect(code).not.toBe(0);
      expect(err).toContain("has no values; query Pinecone with includeValues: true");
      expect(err).toContain("answer.json");
    }
    const database = await open(dataDir);
    expect((await database.listCollections()).map(({ name }) => name)).not.toContain("answer");
    await database.close();
  });

  it("[J12] of another database than --from says is refused with what it looks like", async () => {
    const points = file("not-pinecone.jsonl", `${point(1)}\n${point(2)}\n`);
    expect(await quiver(["wrong", points, "--from", "pinecone", "--create"])).toMatchObject({
      code: 2,
      err: expect.stringContaining(
        'has points of Qdrant with "payload" and "vector", and is no export of pinecone. Give --from qdrant',
      ),
    });
    const database = await open(dataDir);
    expect((await database.listCollections()).map(({ name }) => name)).not.toContain("wrong");
    await database.close();
  });

  it("[J12] of Pinecone as Parquet is recognized, with its sparse vectors and its metadata", async () => {
    const name = file("vectors.parquet", pineconeParquet(25));
    const done = await quiver(["parquet", name, "--create", "--column", "text=title"]);
    // One record is rejected.
    expect(done).toMatchObject({
      code: 3,
      err: expect.stringContaining('vectors.parquet: vectors of Pinecone with "values" in Parquet'),
    });
    expect(await recordsOf("parquet", "v7")).toMatchObject({
      count: 24,
      records: [
        {
          dense_values: [7, 0.5],
          sparse_indices: [7, 9],
          text: "title 7",
          metadata: { n: 7 },
        },
      ],
    });
    expect(done.err).toMatch(
      /vectors\.parquet, record 4: rejected.*has no object in metadata, but "no JSON"/,
    );
    expect(await quiver(["parquet", name, "--from", "qdrant"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("Give --from pinecone"),
    });
    const table = file("table.parquet", parquetWriteBuffer({ columnData: [{ name: "id", data: ["a"] }] }));
    expect(await quiver(["parquet", table, "--from", "qdrant"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("is a Parquet file, and --from qdrant does not read those"),
    });
  });

  it("with several vectors needs a choice, which is told as an option of the command line", async () => {
    const lines = [point(1), point(2, { title: [1, 0], body: [0, 1] })];
    const path = file("named.jsonl", lines.join("\n"));
    const args = ["named", path, "--from", "qdrant", "--create"];
    const { code, err } = await quiver(args);
    expect(code).toBe(1);
    expect(err).toContain("the vectors title, body; choose one with --column dense_values=NAME");
    const chosen = file("chosen.jsonl", lines[1]);
    const choice = ["--column", "dense_values=body"];
    expect(await quiver(["chosen", chosen, "--from", "qdrant", "--create", ...choice])).toMatchObject({
      code: 0,
    });
    expect((await recordsOf("chosen", "2")).records).toMatchObject([{ dense_values: [0, 1] }]);
  });

  it("of pages of Chroma, and of CSV of PostgreSQL", async () => {
    const pages = file(
      "pages.json",
      JSON.stringify({ ids: ["a"], embeddings: [[1, 0]], documents: ["bees"] }),
    );
    expect(await quiver(["pages", pages, "--from", "chroma", "--create"])).toMatchObject({ code: 0 });
    expect((await recordsOf("pages", "a")).records).toMatchObject([{ text: "bees", dense_values: [1, 0] }]);
    const csv = file("rows.csv", 'id,embedding,words\n1,"[1,0]","{1:0.5,3:1}/5"\n');
    const args = ["rows", csv, "--from", "pgvector", "--create", "--column", "sparse_values=words"];
    expect(await quiver(args)).toMatchObject({ code: 0 });
    expect((await recordsOf("rows", "1")).records).toMatchObject([{ sparse_indices: [0, 2] }]);
  });
});

it("a field is called as the file calls it, at the place where it is", async () => {
  const csv = file("named.csv", 'sku,emb\na,"[1,0]"\nb,[1]\n');
  const columns = ["--column", "id=sku", "--column", "dense_values=emb"];
  const ofCsv = await quiver(["called", csv, "--create", ...columns]);
  expect(ofCsv.err).toContain("named.csv:3 (row 2): rejected (invalid_vector): emb has 1 value");
  for (const [name, content, told] of [
    [
      "called.json",
      '{"ids":["a","b"],"embeddings":[[1,0],[1]]}',
      "called.json:1 (record 2): rejected (invalid_vector): embeddings[1] has 1 value",
    ],
    [
      "called.jsonl",
      '{"id":"a","embedding":[1]}',
      "called.jsonl:1: rejected (invalid_vector): embedding has 1 value",
    ],
    [
      "called2.jsonl",
      '{"id":"a","values":[1]}',
      "called2.jsonl:1: rejected (invalid_vector): values has 1 value",
    ],
    [
      "called.f32",
      Buffer.from(new Float32Array([1]).buffer),
      "called.f32, row 1: rejected (invalid_vector): vector has 1 value",
    ],
  ] as const) {
    writeFileSync(join(folder, name), content);
    const dimension = name.endsWith("f32") ? ["--dimension", "1"] : [];
    expect((await quiver(["called", name, ...dimension])).err).toContain(told);
  }
});

it("an option of another database is a wrong use for a file that is none of its exports", async () => {
  const args = ["c", file("ours.jsonl", '{"id":"a","text":"b"}\n'), "--omit", "x"];
  expect(await quiver(args)).toMatchObject({
    code: 2,
    err: expect.stringContaining("--omit belongs to --from"),
  });
});

it.each([
  [["c", "f.jsonl", "--source", "books"], "--source belongs to --from"],
  [
    ["c", "http://me:secret@127.0.0.1:1"],
    "http://127.0.0.1:1 is the address of a server; say of which database",
  ],
  [["c", "f.jsonl", "--from", "qdrant", "--format", "csv"], "Give --from or --format, not both"],
  [["c", "f.jsonl", "--from", "qdrant", "--source", "books"], "--source belongs to the address of a server"],
  [["c", "f.jsonl", "--from", "weaviate"], "Allowed choices are chroma, pgvector, pinecone, qdrant"],
  [
    ["c", "f.jsonl", "--from", "chroma", "--column", "id=x"],
    "the fields document_id, sparse_values can be named",
  ],
  [["c", "http://127.0.0.1:1", "http://127.0.0.1:2", "--from", "qdrant"], "Give one address, or files."],
  [
    ["c", "http://127.0.0.1:1", "--from", "qdrant", "--namespace", "x"],
    "--namespace belongs to --from pinecone",
  ],
  [
    ["c", "http://127.0.0.1:1", "--from", "qdrant", "--omit", "x"],
    "--omit leaves out columns of --from pgvector",
  ],
])("%j is a wrong use", async (args, message) => {
  const { code, err } = await quiver(args);
  expect(err).toContain(message);
  expect(code).toBe(2);
});
