// Which database has written an export?

import { gzipSync } from "node:zlib";
import { isQuiverError } from "@quiverdb/client";
import { describe, expect, it } from "vitest";
import { importFrom, recognize, recognizedBytes } from "./import-from.ts";

const recognized = (text: string) => recognize(new TextEncoder().encode(text).subarray(0, recognizedBytes));
const json = (...values: unknown[]) => values.map((value) => JSON.stringify(value)).join("\n");

const point = { id: 1, payload: { title: "Dune" }, vector: [0.1, 0.2] };
const named = { id: "5c56c793-69f3-4fbf-87e6-c4bf54c28c26", payload: null, vector: { title: [1] } };
const scrolled = { result: { points: [point], next_page_offset: null }, status: "ok", time: 0.1 };
const vector = { id: "a", values: [1, 2], metadata: { title: "Dune" } };
const sparse = { id: "b", sparse_values: { indices: [1], values: [1] } };
const match = { id: "a", score: 0.5, metadata: { title: "Dune" }, values: [1, 2] };
const one = { id: "a", embedding: [1], document: "Dune", metadata: { year: 1965 } };
const got = { ids: ["a"], embeddings: [[1]], documents: ["Dune"], metadatas: [null], uris: null, data: null };

/** An export whose first record is longer than what is looked at. */
const long = Array.from({ length: 60_000 }, (_, i) => Math.sin(i));

describe("[J12] an export", () => {
  it.each([
    ["qdrant", "lines", json(point, named)],
    ["qdrant", "lines without payload", json({ id: 1, vector: [1] })],
    ["qdrant", "lines without vectors", json({ id: 1, payload: { a: 1 } })],
    ["qdrant", "an array", JSON.stringify([point, named])],
    ["qdrant", "an indented array", JSON.stringify([point, named], null, 2)],
    ["qdrant", "answers to scroll", json(scrolled, scrolled)],
    ["qdrant", "an indented answer to scroll", JSON.stringify(scrolled, null, 2)],
    ["qdrant", "a request", JSON.stringify({ points: [point] })],
    ["qdrant", "points behind an empty page", json({ points: [] }, { points: [point] })],
    ["qdrant", "lines of which the first is none", `nonsense\n${json(point, point)}`],
    ["qdrant", "lines of which one is cut off", `${json(point)}\n{"id":\n${json(point)}`],
    ["qdrant", "a record that is cut off", JSON.stringify({ id: 1, vector: [...long, ...long] })],
    ["qdrant", "an answer that is cut off", JSON.stringify({ result: { points: Array(9_000).fill(point) } })],
    ["qdrant", "a file with a mark at its beginning", `\ufeff${json(point)}`],
    ["pinecone", "lines", json(vector, sparse)],
    ["pinecone", "sparse vectors alone", json(sparse)],
    ["pinecone", "an answer with a list", JSON.stringify({ vectors: [vector, sparse], namespace: "" })],
    ["pinecone", "an answer to fetch", JSON.stringify({ vectors: { a: vector, b: sparse }, usage: {} })],
    ["pinecone", "an answer to a query", JSON.stringify({ matches: [match, { ...match, values: [] }] })],
    [
      "pinecone",
      "an answer to a sparse query",
      JSON.stringify({ matches: [{ ...sparse, score: 1, values: [] }] }),
    ],
    [
      "pinecone",
      "an answer to a query that is cut off",
      JSON.stringify({ matches: Array(9_000).fill(match) }),
    ],
    ["pinecone", "what its client gives", JSON.stringify({ records: { a: vector }, namespace: "" }, null, 1)],
    ["chroma", "a page", JSON.stringify(got)],
    ["chroma", "an indented page", JSON.stringify({ ...got, included: ["embeddings"] }, null, 2)],
    ["chroma", "an array of pages", JSON.stringify([got, got])],
    ["chroma", "a page without documents", JSON.stringify({ ids: ["a"], embeddings: [[1]] })],
    ["chroma", "records, one a line", json(one, { ...one, document: null, uri: "file:///a.png" })],
    ["chroma", "records without embeddings", json({ id: "a", document: "Dune", metadata: null })],
    ["chroma", "an array of records", JSON.stringify([one, one], null, 1)],
    ["chroma", "a page that is cut off", JSON.stringify({ ids: long.map(String), embeddings: [long] })],
    ["pgvector", "CSV", 'id,embedding,title\n1,"[1,-2.5e-3]",Dune\n2,,Emma\n'],
    ["pgvector", "CSV that is cut off within a cell", `id,embedding\n1,"[1,2]"\n2,"[${long.join()}`],
  ])("of %s is recognized: %s", (format, _, text) => {
    expect(recognized(text)).toMatchObject({ format });
  });

  it("is told by what it was recognized", () => {
    expect(recognized(json(point))).toEqual({
      format: "qdrant",
      what: 'points of Qdrant with "payload" and "vector"',
    });
    expect(recognized(JSON.stringify(got))).toEqual({
      format: "chroma",
      what: 'pages of Chroma with "ids", "embeddings", "documents" and "metadatas"',
    });
    expect(recognized(json(one))).toEqual({
      format: "chroma",
      what: 'records of Chroma with "embedding" and "document"',
    });
  });

  it.each([
    ["ours", json({ id: "a", dense_values: [1] })],
    ["ours, with unknown fields", json({ id: "a", text: "Dune", vector: [1] })],
    ["an array of ours", JSON.stringify([{ id: "a", sparse_indices: [1], sparse_values: [1] }])],
    ["records with metadata alone", json({ id: "a", metadata: { payload: 1 } })],
    ["matches of something else", JSON.stringify({ matches: [{ id: "a", name: "b" }] })],
    ["other objects", json({ name: "a" }, { name: "b" })],
    ["CSV of ours", 'id,dense_values,embedding\n1,"[1]","[1]"\n'],
    ["CSV with lists of Python", 'id,embedding\n1,"[1, 2]"\n'],
    ["CSV whose column is something else", "id,embedding\n1,ada-002\n"],
    ["nothing", ""],
    ["bytes", "\u0093NUMPY\u0001\u0000"],
    ["JSON that is none", "{nonsense"],
  ])("is not seen in %s", (_, text) => {
    expect(recognized(text)).toBeUndefined();
  });

  it.each([
    [
      "something of two databases",
      json({ id: 1, vector: [1], values: [1] }),
      ["pinecone", "qdrant"],
      "line 1",
    ],
    [
      "more than its records have",
      json(point, { ...point, title: "Dune" }),
      ["qdrant"],
      'line 2 has "payload"',
    ],
    [
      "the answer to a query without values",
      JSON.stringify({ matches: [{ ...match, values: [] }], namespace: "" }, null, 1),
      [],
      "record 1 has no values; query Pinecone with includeValues: true",
    ],
    ["records of Chroma with more", json({ ...one, title: "x" }), ["chroma"], 'also "title"'],
    ["a page and a record in one", json({ ...got, embedding: [1] }), ["chroma"], "line 1"],
    ["records of two databases", json(point, vector), ["qdrant", "pinecone"], "line 2"],
    ["a request of ours", JSON.stringify({ vectors: [{ id: "a", text: "x" }] }), [], "request or an answer"],
    ["the answer to a query", json({ ids: [["a"]], documents: [["b"]] }), [], "collection.get()"],
    ["more, indented", JSON.stringify([point, { ...point, x: 1 }], null, 1), ["qdrant"], "record 2"],
  ])("is not clear with %s", (_, text, candidates, why) => {
    expect(recognized(text)).toEqual({ format: undefined, candidates, why: expect.stringContaining(why) });
  });
});

describe('the format "auto"', () => {
  const target = () => {
    const found: unknown[] = [];
    const upsert = async (records: unknown) => {
      for await (const record of records as AsyncIterable<unknown>) found.push(record);
      return { upserted: found.length, requests: 1 };
    };
    return { found, upsert };
  };

  it("[J12] reads everything of a file that was recognized, with the options of its format", async () => {
    const points = Array.from({ length: 30_000 }, (_, id) => ({ ...point, id, payload: { title: `${id}` } }));
    for (const bytes of [new TextEncoder().encode(json(...points)), gzipSync(json(...points))]) {
      const into = target();
      const options = { text: "title", vector: undefined };
      const result = await importFrom("auto", new Blob([bytes]), into, options);
      expect(result).toEqual({ format: "qdrant", records: 30_000, bytesRead: bytes.length });
      expect(into.found[29_999]).toEqual({ id: "29999", text: "29999", dense_values: [0.1, 0.2] });
    }
  });

  it("[J12] refuses what it does not recognize, and leaves the file", async () => {
    for (const [text, candidates] of [
      [json({ id: "a", text: "Dune" }), []],
      [json({ ...point, title: "Dune" }), ["qdrant"]],
    ] as const) {
      let isClosed = false;
      async function* bytes(): AsyncGenerator<Uint8Array> {
        try {
          for (;;) yield new TextEncoder().encode(`${text}\n`);
        } finally {
          isClosed = true;
        }
      }
      const error = await importFrom("auto", bytes(), target()).catch((thrown: unknown) => thrown);
      if (!isQuiverError(error, "invalid_request")) throw error;
      expect(error.details).toEqual({ candidates });
      expect(isClosed).toBe(true);
    }
  });
});
