// Exports of other databases, in every layout, over both ways to a database.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { isQuiverError, type RecordInput, withEmbeddings } from "@quiverdb/client";
import { describe, expect, it } from "vitest";
import { overBothDatabases } from "../../client/test/both-databases.ts";
import { type ImportFormat, type ImportOptions, importFrom } from "./import-from.ts";

/** The bytes of a text, in chunks of so many: characters and values are cut anywhere. */
async function* inChunks(text: string, bytes: number): AsyncGenerator<Uint8Array> {
  const all = new TextEncoder().encode(text);
  for (let from = 0; from < all.length; from += bytes) yield all.subarray(from, from + bytes);
}

/** What a format reads, without a database. */
async function recordsOf<Format extends ImportFormat>(
  format: Format,
  text: string,
  options?: ImportOptions<Format>,
  bytes = 7,
): Promise<RecordInput[]> {
  const read: RecordInput[] = [];
  const upsert = async (records: unknown) => {
    for await (const record of records as AsyncIterable<RecordInput>) read.push(record);
    return { upserted: read.length, requests: 1 };
  };
  await importFrom(format, inChunks(text, bytes), { upsert }, options);
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

/** Lines, an array, and pages, each compact and indented. */
function layoutsOf(
  values: readonly object[],
  page: (values: readonly object[]) => object,
): Record<string, string> {
  const half = Math.ceil(values.length / 2);
  const pages = [page(values.slice(0, half)), page(values.slice(half)), page([])];
  return {
    lines: `\n${values.map((value) => JSON.stringify(value)).join("\r\n")}\n\n`,
    "indented documents": values.map((value) => JSON.stringify(value, null, 2)).join("\n"),
    array: JSON.stringify(values),
    "indented array": JSON.stringify(values, null, 2),
    pages: pages.map((one) => JSON.stringify(one)).join("\n"),
    "pages without line breaks": pages.map((one) => JSON.stringify(one)).join(""),
    "indented pages": pages.map((one) => JSON.stringify(one, null, 2)).join("\n"),
    "one page": JSON.stringify(page(values)),
  };
}

describe("qdrant", () => {
  const points = [
    { id: 1, version: 3, payload: { content: "bees ü", doc: "insects", legs: 6 }, vector: [1, 0] },
    { id: "5c56c793-69f3-4fbf-87e6-c4bf54c28c26", payload: null, vector: { dense: [0, 1] } },
    {
      id: 3,
      payload: { content: "whales" },
      vector: { dense: [1, 1], words: { indices: [7, 9], values: [2, 1] } },
    },
  ];
  const expected = [
    {
      id: "1",
      text: "bees ü",
      document_id: "insects",
      metadata: { doc: "insects", legs: 6 },
      dense_values: [1, 0],
    },
    { id: "5c56c793-69f3-4fbf-87e6-c4bf54c28c26", dense_values: [0, 1] },
    { id: "3", text: "whales", dense_values: [1, 1], sparse_indices: [7, 9], sparse_values: [2, 1] },
  ];
  const page = (some: readonly object[]) => ({
    result: { points: some, next_page_offset: null },
    status: "ok",
  });

  it.each(Object.entries(layoutsOf(points, page)))("is read as %s", async (_, text) => {
    const options = { text: "content", document: "doc" };
    for (const bytes of [1, 7, 100_000])
      expect(await recordsOf("qdrant", text, options, bytes)).toEqual(expected);
  });

  it("takes one dense and one sparse vector, and says which there are", async () => {
    const vector = { a: [1], b: [2], c: { indices: [1], values: [1] }, d: { indices: [2], values: [2] } };
    const text = JSON.stringify({ id: 1, vector });
    expect((await failureOf(recordsOf("qdrant", text))).message).toContain(
      "a, b; choose one with the option vector",
    );
    expect((await failureOf(recordsOf("qdrant", text, { vector: "a" }))).details).toMatchObject({
      option: "sparse",
    });
    expect(await recordsOf("qdrant", text, { vector: "b", sparse: "d" })).toEqual([
      { id: "1", dense_values: [2], sparse_indices: [2], sparse_values: [2] },
    ]);
    const multi = JSON.stringify({ id: 1, vector: [[1], [2]] });
    expect((await failureOf(recordsOf("qdrant", multi))).message).toContain("multivector");
  });

  it("[J5] refuses ids that JavaScript would round, and texts that are none", async () => {
    const rounded = '{"id": 18446744073709551615, "vector": [1]}';
    expect(await failureOf(recordsOf("qdrant", `{"id":1,"vector":[1]}\n${rounded}`))).toMatchObject({
      code: "invalid_vector",
      details: { record: 1 },
    });
    const wrong = JSON.stringify({ id: 1, payload: { content: 3 } });
    expect((await failureOf(recordsOf("qdrant", wrong, { text: "content" }))).message).toContain(
      "has no text",
    );
  });
});

describe("pinecone", () => {
  const vectors = [
    { id: "a", values: [1, 0], metadata: { text: "bees", legs: 6 } },
    { id: "b", values: [0, 1], sparseValues: { indices: [3], values: [0.5] } },
    { id: "c", values: [], sparse_values: { indices: [4], values: [1] } },
    { id: "d", values: [1, 1], sparseValues: { indices: [], values: [] }, metadata: {} },
  ];
  const expected = [
    { id: "a", dense_values: [1, 0], text: "bees", metadata: { legs: 6 } },
    { id: "b", dense_values: [0, 1], sparse_indices: [3], sparse_values: [0.5] },
    { id: "c", sparse_indices: [4], sparse_values: [1] },
    { id: "d", dense_values: [1, 1] },
  ];
  const list = (some: readonly object[]) => ({ vectors: some, namespace: "n" });
  const map = (some: readonly object[]) => ({
    vectors: Object.fromEntries(some.map((one) => [(one as { id: string }).id, one])),
  });

  it("needs the values of the matches of a query", async () => {
    const answer = (...matches: object[]) => JSON.stringify({ matches, namespace: "" });
    const [first] = expected;
    const match = { ...vectors[0], score: 0.5 };
    expect(await recordsOf("pinecone", answer(match), { text: "text" })).toEqual([first]);
    expect(await recordsOf("pinecone", answer({ ...vectors[2], score: 0.5 }))).toEqual([expected[2]]);
    for (const values of [[], undefined])
      expect(await failureOf(recordsOf("pinecone", answer(match, { ...match, values })))).toMatchObject({
        code: "invalid_vector",
        message: "line 1 (record 2): has no values; query Pinecone with includeValues: true.",
      });
  });

  it.each([
    ...Object.entries(layoutsOf(vectors, list)),
    ...Object.entries(layoutsOf(vectors, map)),
    ...Object.entries(layoutsOf(vectors, (matches) => ({ matches, namespace: "n" }))),
  ])("is read as %s", async (_, text) => {
    for (const bytes of [1, 100_000])
      expect(await recordsOf("pinecone", text, { text: "text" }, bytes)).toEqual(expected);
  });
});

describe("chroma", () => {
  const pages = [
    {
      ids: ["a", "b"],
      embeddings: [
        [1, 0],
        [0, 1],
      ],
      documents: ["bees", null],
      metadatas: [{ doc: "insects" }, null],
      included: ["embeddings"],
    },
    { ids: ["c"], embeddings: null, documents: ["whales"], metadatas: [{ legs: 0 }] },
    { ids: [], embeddings: [], documents: [], metadatas: [] },
  ];
  const expected = [
    { id: "a", dense_values: [1, 0], text: "bees", document_id: "insects", metadata: { doc: "insects" } },
    { id: "b", dense_values: [0, 1] },
    { id: "c", text: "whales", metadata: { legs: 0 } },
  ];

  it.each([
    ["lines", pages.map((page) => JSON.stringify(page)).join("\n")],
    ["an array", JSON.stringify(pages)],
    ["indented pages", pages.map((page) => JSON.stringify(page, null, 1)).join("\n")],
  ])("is read as %s of pages", async (_, text) => {
    expect(await recordsOf("chroma", text, { document: "doc" })).toEqual(expected);
  });

  it("is read as records, one a line", async () => {
    const lines = [
      { id: "a", embedding: [1, 0], document: "bees", metadata: { doc: "insects" } },
      { id: "b", embedding: [0, 1], document: null, metadata: null },
      { id: "c", document: "whales", metadata: { legs: 0 } },
    ];
    expect(await recordsOf("chroma", JSON.stringify(lines), { document: "doc" })).toEqual(expected);
    const text = [...lines, pages[1]].map((one) => JSON.stringify(one)).join("\n");
    expect(await recordsOf("chroma", text, { document: "doc" })).toEqual([...expected, expected[2]]);
  });

  it("refuses lists of different lengths, and records without ids", async () => {
    const uneven = JSON.stringify({ ids: ["a", "b"], embeddings: [[1]] });
    expect((await failureOf(recordsOf("chroma", uneven))).message).toContain("another number of embeddings");
    const noIds = JSON.stringify({ documents: ["a"] });
    expect((await failureOf(recordsOf("chroma", noIds))).code).toBe("invalid_vector");
  });
});

describe("pgvector", () => {
  const csv = [
    "id,content,price,active,tags,note,embedding,words,data",
    '1,"bees, ""dance""\nü",9.5,t,"[""x""]",,"[1,0.5]","{1:0.5,3:1}/5","{""legs"":6}"',
    '2,,,,,"","[0,1]",{}/5,',
    "",
  ].join("\r\n");
  const columns = { text: "content", sparse: "words", metadata: "data" };

  it("is read from CSV, with the types of the columns", async () => {
    const types = { price: "number", active: "boolean", tags: "json" } as const;
    for (const bytes of [1, 5, 10_000])
      expect(await recordsOf("pgvector", `\ufeff${csv}`, { columns, types }, bytes)).toEqual([
        {
          id: "1",
          text: 'bees, "dance"\nü',
          dense_values: [1, 0.5],
          sparse_indices: [0, 2],
          sparse_values: [0.5, 1],
          metadata: { legs: 6, price: 9.5, active: true, tags: ["x"], note: undefined },
        },
        { id: "2", dense_values: [0, 1], metadata: { note: "" } },
      ]);
  });

  it("refuses missing columns, wrong values and what is no CSV", async () => {
    const codeOf = async (text: string, options?: ImportOptions<"pgvector">) =>
      (await failureOf(recordsOf("pgvector", text, options))).code;
    expect(await codeOf("id,vector\n1,[1]\n")).toBe("invalid_request");
    expect(await codeOf(csv, { columns: { ...columns, document: "doc" } })).toBe("invalid_request");
    expect(await codeOf(csv, { columns, types: { prize: "number" } })).toBe("invalid_request");
    expect(await codeOf("id,embedding\n1,abc\n")).toBe("invalid_vector");
    expect(await codeOf("id,embedding\n,[1]\n")).toBe("invalid_vector");
    expect(await codeOf("id,embedding,n\n1,[1],x\n", { types: { n: "number" } })).toBe("invalid_vector");
    expect(await codeOf("id,embedding,n\n1,[1],yes\n", { types: { n: "boolean" } })).toBe("invalid_vector");
    expect(await codeOf('id,embedding\n1,"[1]\n')).toBe("invalid_request");
    expect(await codeOf("id,embedding\n1,[1],too many\n")).toBe("invalid_request");
  });
});

describe("any format", () => {
  it("[J6] reports what is not JSON, with the number of the value", async () => {
    const good = JSON.stringify({ id: 1, vector: [1] });
    for (const text of [
      `${good}\n{"id": 2,`,
      `${good}\nnonsense\n`,
      `[${good}, nonsense]`,
      `[${good}, {"id": 2`,
      `[${good}, 3]`,
      `${good}\n3\n`,
    ])
      expect(await failureOf(recordsOf("qdrant", text))).toMatchObject({
        code: "invalid_json",
        details: { record: 1 },
      });
    expect(await recordsOf("qdrant", "  \n ")).toEqual([]);
    expect((await failureOf(importFrom("weaviate" as never, inChunks("", 1), {} as never))).code).toBe(
      "invalid_request",
    );
  });

  it.each([
    ["qdrant", '{"id":1,"vector":"x"}', {}, 'has no vector in vector, but "x"'],
    ["qdrant", '{"id":1,"payload":5}', {}, "has no object in payload, but 5"],
    [
      "qdrant",
      '{"id":1,"vectors":{"w":{}}}',
      {},
      "has no sparse vector with indices and values in vectors.w, but {}",
    ],
    ["qdrant", '{"id":1,"payload":{"t":5}}', { text: "t" }, "has no text in payload.t, but 5"],
    ["pinecone", '{"id":"a","values":"x"}', {}, 'has no vector in values, but "x"'],
    ["chroma", '{"id":"a","embedding":"x"}', {}, 'has no vector in embedding, but "x"'],
    ["chroma", '{"ids":["a"],"embeddings":["x"]}', {}, 'has no vector in embeddings[0], but "x"'],
    ["chroma", '{"ids":["a"],"metadatas":[5]}', {}, "has no object in metadatas[0], but 5"],
  ] as const)("[J6] names a field of %s as it is in the file: %s", async (format, text, options, reason) => {
    expect((await failureOf(recordsOf(format, text, options))).message).toBe(`line 1: ${reason}.`);
  });

  it.each([
    ["sku,emb\n,[1]\n", "has no sku;"],
    ["sku,emb\na,abc\n", "has no vector in emb, but abc."],
    ["sku,emb\na,[x]\n", "has [x] in emb, which is no json."],
  ])("[J6] names a column as it is in the file: %j", async (text, reason) => {
    const columns = { id: "sku", vector: "emb" };
    const { message } = await failureOf(recordsOf("pgvector", text, { columns }));
    expect(message).toContain(`line 2 (record 1): ${reason}`);
  });

  it("[J6] says on which line of a file a record is, in every layout", async () => {
    const folder = mkdtempSync(join(tmpdir(), "quiver-import-"));
    const good = { id: 1, vector: [1] };
    const bad = { id: 1.5, vector: [1] };
    const row = '1,"[1]"';
    const page = { ids: ["a"], embeddings: [[1]] };
    for (const [format, text, line] of [
      ["qdrant", `${JSON.stringify(good)}\n\n${JSON.stringify(bad)}\n`, 3],
      ["qdrant", `not JSON\n${JSON.stringify(good)}\n`, 1],
      ["qdrant", `${JSON.stringify({ points: [good] })}\n${JSON.stringify({ points: [good, bad] })}\n`, 2],
      ["qdrant", JSON.stringify([good, good, bad], null, 1), 14],
      ["qdrant", `\ufeff${JSON.stringify({ result: { points: [good, bad] } }, null, 1)}`, 10],
      ["qdrant", `[\n${JSON.stringify(good)},\n"ü",\n5]`, 3],
      ["qdrant", `[\n${JSON.stringify(good)},\n\n  nonsense]`, 4],
      ["qdrant", `[${JSON.stringify(good)},\n{"id": 2`, 2],
      ["pinecone", JSON.stringify({ records: { a: { id: "a", values: [1] }, b: bad } }, null, 1), 9],
      ["chroma", `${JSON.stringify(page)}\n${JSON.stringify({ ...page, embeddings: [] })}`, 2],
      ["pgvector", `id,embedding\n${row}\n\n,"[1]"\n`, 4],
      ["pgvector", `id,embedding\n${row}\n${row},more\n`, 3],
    ] as const) {
      const path = join(folder, "export");
      writeFileSync(path, text);
      const upsert = async (records: unknown) => {
        for await (const _ of records as AsyncIterable<unknown>);
        return { upserted: 0, requests: 0 };
      };
      const { message } = await failureOf(importFrom(format, path, { upsert }));
      expect([text, message]).toEqual([text, expect.stringContaining(`${path}:${line}`)]);
    }
    rmSync(folder, { recursive: true });
  });

  it("is recognised as gzip, however its bytes arrive", async () => {
    const bytes = gzipSync('{"id":1,"vector":[1]}');
    async function* one(): AsyncGenerator<Uint8Array> {
      for (const byte of bytes) yield Uint8Array.of(byte);
    }
    const found: unknown[] = [];
    const upsert = async (records: unknown) => {
      for await (const record of records as AsyncIterable<unknown>) found.push(record);
      return { upserted: found.length, requests: 1 };
    };
    expect(await importFrom("qdrant", one(), { upsert })).toEqual({
      format: "qdrant",
      records: 1,
      bytesRead: bytes.length,
    });
    expect(found).toEqual([{ id: "1", dense_values: [1] }]);
  });

  it("[J6] stops reading when the collection refuses a record", async () => {
    for (const [format, head, line] of [
      ["qdrant", "", '{"id":1,"vector":[1]}\n'],
      ["qdrant", "[", '{"id":1,"vector":[1]},\n'],
      ["pgvector", "id,embedding\n", "1,[1]\n"],
    ] as const) {
      let isClosed = false;
      async function* endless(): AsyncGenerator<Uint8Array> {
        try {
          yield new TextEncoder().encode(head);
          for (;;) yield new TextEncoder().encode(line.repeat(100));
        } finally {
          isClosed = true;
        }
      }
      const upsert = async (records: unknown) => {
        for await (const _ of records as AsyncIterable<unknown>) throw new Error("refused");
        return { upserted: 0, requests: 0 };
      };
      await expect(importFrom(format, endless(), { upsert })).rejects.toThrow("refused");
      await expect.poll(() => isClosed, { timeout: 5_000 }).toBe(true);
    }
  });

  it("passes on what reading throws", async () => {
    async function* broken(text: string): AsyncGenerator<Uint8Array> {
      yield* inChunks(text, 5);
      throw new Error("the disk is gone");
    }
    for (const [format, text] of [
      ["qdrant", '{"id":1,"vector":[1]}\n'],
      ["qdrant", '[{"id":1,"vector":[1]},'],
      ["pgvector", "id,embedding\n1,[1]\n"],
    ] as const) {
      const upsert = async (records: unknown) => {
        for await (const _ of records as AsyncIterable<unknown>);
        return { upserted: 0, requests: 0 };
      };
      await expect(importFrom(format, broken(text), { upsert })).rejects.toThrow("the disk is gone");
    }
  });
});

overBothDatabases((database) => {
  it("[J5] [J6] files, compressed or not, are written into a collection, with progress; errors count in the file", async () => {
    const folder = mkdtempSync(join(tmpdir(), "quiver-import-"));
    const collection = await database().createCollection({
      name: "imported",
      dense_vector: { enabled: true, dimension: 2 },
      tf_idf_options: { enabled: true },
      store_raw_text: true,
    });
    const lines = Array.from({ length: 2_500 }, (_, i) =>
      JSON.stringify({ id: i, payload: { text: `text ${i}`, i }, vector: [i, 1] }),
    ).join("\n");
    const plain = join(folder, "points.jsonl");
    writeFileSync(plain, lines);
    const packed = join(folder, "points.jsonl.gz");
    writeFileSync(packed, gzipSync(lines));

    const progress: number[] = [];
    let last: unknown;
    const onProgress: ImportOptions<"qdrant">["onProgress"] = (now) => {
      progress.push(now.acknowledged);
      last = now;
    };
    const result = await importFrom("qdrant", plain, collection, { text: "text", onProgress });
    expect(result).toEqual({ format: "qdrant", records: 2_500, bytesRead: lines.length });
    expect(progress).toEqual([1_000, 2_000, 2_500]);
    expect(last).toMatchObject({ acknowledged: 2_500, bytesRead: lines.length, bytesTotal: lines.length });
    expect(await collection.get("7")).toMatchObject({
      text: "text 7",
      metadata: { i: 7 },
      dense_values: [7, 1],
    });

    for (const source of [packed, pathToFileURL(packed), new Blob([lines])])
      expect((await importFrom("qdrant", source, collection, { text: "text" })).records).toBe(2_500);
    expect(await collection.count()).toBe(2_500);

    // What the database refuses, what cannot be carried over, and what is no JSON.
    for (const [bad, code] of [
      ['{"id":"bad","vector":[1]}', "invalid_vector"],
      ['{"vector":[1,0]}', "invalid_vector"],
      ['{"id":1,', "invalid_json"],
    ]) {
      writeFileSync(plain, `\n${lines}\n${bad}\n`);
      const failure = await failureOf(importFrom("qdrant", plain, collection));
      expect(failure).toMatchObject({
        code,
        details: { acknowledged: 2_000, record: 2_500, line: 2_502, cursor: expect.any(String) },
      });
      expect(failure.message).toContain(`${plain}:2502 (record 2501): `);
      // Going on behind what is durable, the record is the same one.
      const { cursor } = failure.details as { cursor: string };
      const again = await failureOf(importFrom("qdrant", plain, collection, { cursor }));
      expect(again.details).toMatchObject({ record: 2_500, line: 2_502 });
    }
    writeFileSync(packed, gzipSync(lines).subarray(0, -100));
    const cut = await failureOf(importFrom("qdrant", packed, collection, { batchRecords: 500 }));
    expect(cut).toMatchObject({ code: "source_failed", message: expect.stringContaining(packed) });
    expect(cut.details.acknowledged).toBeGreaterThan(0);
    await expect(importFrom("qdrant", join(folder, "none"), collection)).rejects.toThrow("ENOENT");
    const reason = new Error("enough");
    const signal = AbortSignal.abort(reason);
    await expect(importFrom("qdrant", plain, collection, { signal })).rejects.toBe(reason);
    rmSync(folder, { recursive: true });
  });

  it("[J6] what the database refuses is told in the words of the file", async () => {
    const folder = mkdtempSync(join(tmpdir(), "quiver-import-"));
    const path = join(folder, "export");
    const collection = await database().createCollection({
      name: "refusing",
      dense_vector: { enabled: true, dimension: 2 },
      sparse_vector: { enabled: true },
    });
    const twice = { indices: [7, 7], values: [1, 1] };
    for (const [format, text, options, told] of [
      ["qdrant", '{"id":1,"vector":[1]}', {}, ":1: vector has 1 value"],
      [
        "qdrant",
        '{"id":1,"vectors":{"a":[1,null]}}',
        {},
        ":1: vectors.a[1] must be a finite number, not null.",
      ],
      ["qdrant", JSON.stringify({ id: 1, vector: { w: twice } }), {}, ":1: vector.w.indices[1] repeats"],
      ["qdrant", '{"id":1,"vector":[1,0],"payload":{"d":""}}', { document: "d" }, ":1: payload.d "],
      [
        "pinecone",
        '{"vectors":[{"id":"a","values":[1,0]},{"id":"b","values":[1]}]}',
        {},
        ":1 (record 2): values has",
      ],
      [
        "pinecone",
        '\n{"id":"a","sparseValues":{"indices":[1],"values":[1,2]}}',
        {},
        ":2 (record 1): sparseValues.indices has 1 indices for 2 sparseValues.values",
      ],
      [
        "pinecone",
        JSON.stringify({ id: "a", sparse_values: twice }),
        {},
        ":1: sparse_values.indices[1] repeats",
      ],
      [
        "chroma",
        '{"ids":["a","b"],"embeddings":[[1,0],[1,null]]}',
        {},
        ":1 (record 2): embeddings[1][1] must be a finite number",
      ],
      ["chroma", '{"id":"a","embedding":[1,0],"document":"bees"}', {}, ":1: document is given, but"],
      [
        "pgvector",
        "sku,emb\na,[1]\n",
        { columns: { id: "sku", vector: "emb" } },
        ":2 (record 1): emb has 1 value",
      ],
    ] as const) {
      writeFileSync(path, text);
      const failure = await failureOf(importFrom(format, path, collection, options));
      expect(failure.message).toContain(`${path}${told}`);
      expect(failure.message).not.toContain("request");
      expect(failure.details).toMatchObject({ record: told.includes("record 2") ? 1 : 0 });
    }
    rmSync(folder, { recursive: true });
  });

  it("texts without vectors get them from an embedding", async () => {
    const collection = await database().createCollection({
      name: "embedded",
      dense_vector: { enabled: true, dimension: 2 },
      store_raw_text: true,
      tf_idf_options: { enabled: true },
    });
    const texts = withEmbeddings(collection, async (all) => all.map((text) => [text.length, 1]));
    const page = JSON.stringify({ ids: ["a"], documents: ["bees"] });
    await importFrom("chroma", inChunks(page, 100), texts);
    expect(await collection.get("a")).toMatchObject({ text: "bees", dense_values: [4, 1] });
  });
});
