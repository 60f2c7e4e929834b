// Are filters served over HTTP: in every search, in batches and in exports, and are wrong ones refused?

import type { OperationName } from "@quiverdb/engine/operations/operations";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectError, startTestServer, type TestServer } from "./running.ts";

const c = { collection_id: "c" };
const vector = [1, 0, 0, 0];
const terms = [{ index: 1, value: 1 }];
const filter = { color: "red", n: { gte: 10, lt: 20 } };
const red = ["r10", "r13", "r16", "r19"];

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
  await server.makeCollection("c");
  const vectors = Array.from({ length: 50 }, (_, i) => ({
    id: `r${i}`,
    dense_values: [i, 1, 0, 0],
    sparse_values: [[1, 1 + i]],
    text: "fox",
    metadata: { color: ["blue", "red", "green"][i % 3], n: i },
  }));
  expect((await server.call("streamingUpsert", c, { vectors })).status).toBe(200);
});
afterAll(() => server.end());

type Results = { results: { id: string }[] };
const idsOf = ({ results }: Results) => results.map(({ id }) => id).sort();

/** The states of metadata indexes. Each node of a cluster builds its own, and three calls ask all of them. */
async function metadataStates(collection: { collection_id: string }): Promise<string[]> {
  const answers = await Promise.all([1, 2, 3].map(() => server.call("getMetadataIndexes", collection)));
  return answers.flatMap(({ json }) =>
    json.indexes.map(({ status }: { status: { state: string } }) => status.state),
  );
}

/** Every search, with the path of a query's filter. */
const searches: readonly [
  name: OperationName,
  body: object,
  own: (filter: unknown) => object,
  path: string,
][] = [
  ["searchDense", { query_vector: vector }, (one) => ({ query_vector: vector, filter: one }), "filter"],
  ["searchSparse", { query_terms: terms }, (one) => ({ query_terms: terms, filter: one }), "filter"],
  ["searchText", { query: "fox" }, (one) => ({ query: "fox", filter: one }), "filter"],
  [
    "searchHybrid",
    { query_vector: vector, query_text: "fox" },
    (one) => ({ query_vector: vector, query_text: "fox", filter: one }),
    "filter",
  ],
  [
    "searchBatchDense",
    { queries: [{ vector }] },
    (one) => ({ queries: [{ vector, filter: one }] }),
    "queries[0].filter",
  ],
  [
    "searchBatchSparse",
    { query_terms_list: [terms] },
    (one) => ({ query_terms_list: [{ query_terms: terms, filter: one }] }),
    "query_terms_list[0].filter",
  ],
  [
    "searchBatchText",
    { queries: ["fox"] },
    (one) => ({ queries: [{ query: "fox", filter: one }] }),
    "queries[0].filter",
  ],
  [
    "searchBatchHybrid",
    { queries: [{ query_vector: vector, query_terms: terms }] },
    (one) => ({ queries: [{ query_vector: vector, query_terms: terms, filter: one }] }),
    "queries[0].filter",
  ],
];

describe("[W6] [W7] a filter", () => {
  for (const [name, body, own, path] of searches)
    test(`of ${name}`, async () => {
      for (const sent of [{ ...body, filter }, own(filter), { ...own({ color: "red" }), filter }]) {
        const { status, json, text } = await server.call(name, c, sent);
        expect(status, text).toBe(200);
        const [first] = Array.isArray(json) ? json : [json];
        expect(idsOf(first)).toEqual(red);
      }
      expect(idsOf([(await server.call(name, c, { ...body, filter: null })).json].flat()[0]).length).toBe(10);
      const wrong = await server.call(name, c, own({ color: { is: "red" } }));
      expectError(wrong, 400, "invalid_filter");
      expect(wrong.json.error.details.path).toBe(`${path}.color.is`);
    });

  test("of an export, as a query parameter", async () => {
    const exported = await server.call(
      "exportVectors",
      c,
      undefined,
      `?filter=${encodeURIComponent(JSON.stringify(filter))}`,
    );
    expect(exported.status).toBe(200);
    expect(exported.headers.get("x-quiver-count")).toBe("4");
    const lines = exported.text.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line).id).sort()).toEqual(red);
    expectError(await server.call("exportVectors", c, undefined, "?filter=red"), 400, "invalid_filter");
    expectError(await server.call("exportVectors", c, undefined, "?filter=[]"), 400, "invalid_filter");
  });
});

test("[W5] any JSON in place of a filter is served, or is 400 invalid_filter", async () => {
  for (const value of [
    0,
    "",
    "red",
    true,
    [],
    [{}],
    { a: {} },
    { a: [] },
    { and: null },
    { not: [] },
    { Is: 1 },
    {},
    { "": "" },
  ]) {
    const answer = await server.call("searchDense", c, { query_vector: vector, filter: value });
    if (answer.status !== 200) expectError(answer, 400, "invalid_filter");
  }
});

describe("records that match", () => {
  const path = { ...c, vector_id: "r7" };

  test("[H1] [W9] are counted, and their values", async () => {
    expect((await server.call("countVectors", c, { filter })).json).toEqual({ count: 4 });
    expect((await server.call("countVectors", c, {})).json).toEqual({ count: 50 });
    const { json } = await server.call("facetVectors", c, { field: "color", filter: { n: { lt: 4 } } });
    expect(json).toEqual({
      facets: [
        { value: "blue", count: 2 },
        { value: "green", count: 1 },
        { value: "red", count: 1 },
      ],
    });
  });

  test("[W9] have the values of several fields counted at once", async () => {
    const asked = (body: object) => server.call("facetVectors", c, body);
    const fields = ["color", "n", "id", "none", "a\\.b"];
    const filter = { n: { lt: 4 } };
    const each = await Promise.all(fields.map(async (field) => (await asked({ field, filter })).json.facets));
    const { json } = await asked({ fields, filter });
    expect(json).toEqual({ facets: Object.fromEntries(fields.map((field, i) => [field, each[i]])) });
    expect(each[0].length).toBeGreaterThan(1);
    expect(Object.keys((await asked({ fields: ["color", "color"] })).json.facets)).toEqual(["color"]);
    for (const [body, path] of [
      [{}, "field"],
      [{ field: null, fields: null }, "field"],
      [{ field: "color", fields: ["n"] }, "field"],
      [{ fields: [] }, "fields"],
      [{ fields: Array(17).fill("n") }, "fields"],
      [{ fields: [5] }, "fields[0]"],
      [{ fields: "color" }, "fields"],
    ] as const)
      expect(expectError(await asked(body), 400, "invalid_request").details.path).toBe(path);
    expectError(await asked({ fields: ["a", "b\\"] }), 400, "invalid_filter");
  });

  test("[W16] where none match, an answer says why", async () => {
    const filter = { colour: "red" };
    const warnings = [
      {
        code: "absent_field",
        path: "filter.colour",
        message: expect.stringContaining('a field "colour" (did you mean color?). Records have: '),
      },
    ];
    for (const [route, body, answer] of [
      ["countVectors", {}, { count: 0 }],
      ["facetVectors", { field: "n" }, { facets: [] }],
      ["facetVectors", { fields: ["n", "x"] }, { facets: { n: [], x: [] } }],
      ["scrollVectors", {}, { vectors: [], next_cursor: null }],
      ["deleteMatching", {}, { deleted: 0 }],
      ["updateMatching", { metadata: { a: 1 } }, { updated: 0 }],
      ["searchDense", { query_vector: [1, 1, 1, 1] }, { results: [] }],
      ["searchDense", { query_vector: [1, 1, 1, 1], include: ["metadata"] }, { results: [] }],
      ["searchText", { query: "fox" }, { results: [] }],
    ] as const)
      expect((await server.call(route, c, { ...body, filter })).json, route).toEqual({ ...answer, warnings });
    const batch = { queries: [{ vector: [1, 1, 1, 1] }, { vector: [1, 1, 1, 1], filter }] };
    const [found, none] = (await server.call("searchBatchDense", c, batch)).json;
    expect(found).toEqual({ results: expect.any(Array) });
    expect(none).toEqual({ results: [], warnings: [{ ...warnings[0], path: "queries[1].filter.colour" }] });
    // Again, when its matches are known.
    const again = await server.call("searchDense", c, { query_vector: [1, 1, 1, 1], filter });
    expect(again.json.warnings).toEqual(warnings);
    const right = await server.call("searchDense", c, { query_vector: [1, 1, 1, 1], filter: { n: -5 } });
    expect(right.json).toEqual({ results: [] });
  });

  test("[H1] [W10] [W11] are listed and fetched, with the metadata as it was written", async () => {
    const record = { id: "exact", dense_values: [1, 1, 1, 1], metadata: {} };
    const raw = JSON.stringify({ vectors: [record] }).replace(
      '"metadata":{}',
      '"metadata":{"n":1.0,"big":12345678901234567890}',
    );
    const upserted = await server.ask(`/vectordb/collections/c/streaming/upsert`, { raw });
    expect(upserted.status, upserted.text).toBe(200);
    const exact = '{"id":"exact","document_id":null,"metadata":{"n":1.0,"big":12345678901234567890}}';
    const fetched = await server.call("fetchVectors", c, { ids: ["exact", "none"], include: ["metadata"] });
    expect(fetched.text).toBe(`[${exact},null]`);
    const page = await server.call("scrollVectors", c, { filter: { id: "exact" }, include: ["metadata"] });
    expect(page.text).toBe(`{"vectors":[${exact}],"next_cursor":null}`);
    const searched = await server.call("searchDense", c, {
      query_vector: [1, 1, 1, 1],
      filter: { id: "exact" },
      include: ["metadata"],
    });
    expect(searched.text).toMatch(
      /"score":[\d.]+,"text":null,"metadata":\{"n":1\.0,"big":12345678901234567890\}\}\]\}$/,
    );
    const [first, second] = [await server.call("scrollVectors", c, { filter, limit: 3 })].flatMap(
      ({ json }) => [json, server.call("scrollVectors", c, { filter, limit: 3, cursor: json.next_cursor })],
    );
    expect(first.vectors.map(({ id }: { id: string }) => id)).toEqual(["r10", "r13", "r16"]);
    expect((await second).json.vectors).toMatchObject([{ id: "r19", sparse_values: [[1, 20]] }]);
    expect((await second).json.next_cursor).toBeNull();
    for (const field of ["n", "long ".repeat(4_000), "half of a pair: \ud83d"]) {
      const answer = await server.call("scrollVectors", c, { order_by: { field } });
      expectError(answer, 400, "index_not_found");
      expect(answer.text.length).toBeLessThan(1_000);
    }
    // The order of ids is that without order_by, and no index makes another one of what the record itself has.
    const byId = await server.call("scrollVectors", c, { filter, order_by: { field: "id" }, limit: 3 });
    expect(byId.json.vectors.map(({ id }: { id: string }) => id)).toEqual(["r10", "r13", "r16"]);
    for (const order_by of [{ field: "id", direction: "desc" }, { field: "document_id" }]) {
      const refused = expectError(
        await server.call("scrollVectors", c, { order_by }),
        400,
        "invalid_request",
      );
      expect(refused.details.path).toBe("order_by");
      expect(refused.message).not.toContain("metadata-indexes");
    }
  });

  test("[H1] [W12] are changed and deleted by filter, and one by its id", async () => {
    const patched = await server.ask("/vectordb/collections/c/vectors/r7", {
      method: "PATCH",
      raw: '{"metadata":{"color":null,"size":1e400}}',
    });
    expect([patched.status, patched.json]).toEqual([200, {}]);
    const { text } = await server.call("getVector", path);
    expect(text).toContain('"metadata":{"n":7,"size":1e400}');
    expectError(
      await server.call("patchVector", { ...c, vector_id: "none" }, { metadata: {} }),
      404,
      "vector_not_found",
    );
    const update = { filter: { n: { gte: 40 } }, metadata: { old: true } };
    expect((await server.call("updateMatching", c, update)).json).toEqual({ updated: 10 });
    expect((await server.call("countVectors", c, { filter: { old: true } })).json).toEqual({ count: 10 });
    expect((await server.call("deleteMatching", c, { filter: { old: true } })).json).toEqual({ deleted: 10 });
    const again = await server.call("deleteMatching", c, { filter: { old: true } });
    expect(again.json).toMatchObject({ deleted: 0, warnings: [{ code: "absent_field" }] });
    for (const body of [{ filter: {} }, { filter: { and: [] } }])
      expectError(await server.call("deleteMatching", c, body), 400, "invalid_filter");
    expectError(await server.call("deleteMatching", c, {}), 400, "invalid_request");
  });
});

describe("[H1] [W8] metadata indexes", () => {
  const field = (name: string) => ({ ...c, field: name });
  test("are declared, shown with their status, used and deleted", async () => {
    for (let i = 0; i < 2; i++) {
      const created = await server.call("createMetadataIndex", field("n"), { type: "number" });
      expect([created.status, created.json]).toEqual([202, {}]);
    }
    expect((await server.call("createMetadataIndex", field("a/b.c d"), { type: "keyword" })).status).toBe(
      202,
    );
    await expect.poll(() => metadataStates(c)).toEqual(Array(6).fill("ready"));
    const { json } = await server.call("getMetadataIndexes", c);
    expect(json.indexes).toMatchObject([
      { field: "a/b.c d", type: "keyword", status: { state: "ready" } },
      { field: "n", type: "number", status: { state: "ready", percentage_complete: 100 } },
    ]);
    const page = await server.call("scrollVectors", c, {
      order_by: { field: "n", direction: "desc" },
      limit: 2,
    });
    expect(page.json.vectors.map(({ id }: { id: string }) => id)).toEqual(["r39", "r38"]);
    expectError(
      await server.call("createMetadataIndex", field("n"), { type: "keyword" }),
      409,
      "index_already_exists",
    );
    expectError(
      await server.call("createMetadataIndex", field("x"), { type: "text" }),
      400,
      "invalid_request",
    );
    expectError(
      await server.call("createMetadataIndex", field("id"), { type: "keyword" }),
      400,
      "invalid_request",
    );
    expect((await server.call("deleteMetadataIndex", field("n"))).status).toBe(204);
    const missing = expectError(await server.call("deleteMetadataIndex", field("n")), 404, "index_not_found");
    expect(missing.message).toContain("no metadata index of the field 'n'");
    expect(missing.details).toEqual({ field: "n" });
    expect((await server.call("getIndexes", c)).json).not.toHaveProperty("metadata:a/b.c d");
  });
});

test("[W2] [W8] [W9] [W10] [W13] a number beyond the 64-bit floats is infinite, everywhere, with an index and without", async () => {
  await server.makeCollection("great");
  const great = { collection_id: "great" };
  const numbers = ["1", "1e400", "-1e400", "1e500", "[2,1e400]", '"1e400"', "1.7976931348623157e308"];
  const lines = numbers.map(
    (number, i) => `{"id":"g${i}","dense_values":[1,${i},0,0],"metadata":{"n":${number}}}`,
  );
  const raw = `{"vectors":[${lines.join(",")}]}`;
  const post = (path: string, raw: string, method = "POST") =>
    server.ask(`/vectordb/collections/great/${path}`, { method, raw });
  expect((await post("streaming/upsert", raw)).status).toBe(200);

  const check = async () => {
    const matching = async (condition: string) => {
      const { json, text } = await post("vectors/scroll", `{"filter":{"n":${condition}},"include":[]}`);
      return json.vectors?.map(({ id }: { id: string }) => id).join(" ") ?? text;
    };
    expect(await matching("1e999")).toBe("g1 g3 g4");
    expect(await matching('{"in":[-1e999,1]}')).toBe("g0 g2");
    expect(await matching('{"gt":1.7976931348623157e308}')).toBe("g1 g3 g4");
    expect(await matching('{"lt":1e400}')).toBe("g0 g2 g4 g6");
    expect(await matching('{"lte":-1e400}')).toBe("g2");
    const facets = await post("vectors/facet", '{"field":"n"}');
    expect(facets.text).toBe(
      '{"facets":[{"value":1e999,"count":3},{"value":-1e999,"count":1},{"value":1,"count":1},{"value":2,"count":1},' +
        '{"value":1.7976931348623157e+308,"count":1},{"value":"1e400","count":1}]}',
    );
    const grouped = await post(
      "search/dense",
      '{"query_vector":[1,0,0,0],"group_by":"n","filter":{"n":{"exists":true}}}',
    );
    expect(grouped.text.match(/"group":[^}]*/g)?.sort()).toEqual(
      ['"1e400"', "-1e999", "1", "1.7976931348623157e+308", "1e999", "2"].map((value) => `"group":${value}`),
    );
  };
  await check();
  expect((await post("metadata-indexes/n", '{"type":"number"}', "PUT")).status).toBe(202);
  for (const ready of [false, true]) {
    if (ready) await expect.poll(() => metadataStates(great)).toEqual(Array(3).fill("ready"));
    await check();
    for (const direction of ["asc", "desc"]) {
      const ids: string[] = [];
      for (let cursor: string | null = null; ; ) {
        const body = { order_by: { field: "n", direction }, limit: 1, include: [], cursor };
        const { json } = await server.call("scrollVectors", great, body);
        ids.push(...json.vectors.map(({ id }: { id: string }) => id));
        cursor = json.next_cursor;
        if (cursor === null) break;
      }
      const ascending = ["g2", "g0", "g4", "g6", "g1", "g3"];
      expect(ids).toEqual(direction === "asc" ? ascending : ["g1", "g3", "g4", "g6", "g0", "g2"]);
    }
  }
});

test("[A23] a key's filter has no number that would be stored as null", async () => {
  const raw = '{"name":"k","role":"read","filter":{"tenant":"a","n":{"gt":1,"gte":1e400}}}';
  const refused = await server.ask("/auth/keys", { method: "POST", raw });
  expectError(refused, 400, "invalid_filter");
  expect(refused.json.error.message).toContain("'gte'");
});
