// Other databases at the command line: real processes, a directory of records, servers that answer as the other databases do.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open } from "@quiverdb/database";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Postgres, postgres } from "../../../import/test/postgres.ts";
import { chromaServer, pineconeServer, qdrantServer } from "../../../import/test/stub-servers.ts";
import { nameOfServer } from "./foreign.ts";

const main = join(import.meta.dirname, "../main.ts");
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

const file = (name: string, content: string): string => {
  writeFileSync(join(folder, name), content);
  return name;
};

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
    expect(result.err).toContain("points.jsonl:3: rejected (invalid_vector): dense_values has 1 value");
    expect(await recordsOf("exported", "4")).toMatchObject({ count: 2, records: [{ text: "text 4" }] });
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

it("an option of another database is a wrong use for a file that is none of its exports", async () => {
  const args = ["c", file("ours.jsonl", '{"id":"a","text":"b"}\n'), "--omit", "x"];
  expect(await quiver(args)).toMatchObject({
    code: 2,
    err: expect.stringContaining("--omit belongs to --from"),
  });
});

it.each([
  [["c", "f.jsonl", "--source", "books"], "--source belongs to --from"],
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
