// What does a new kind of index need to be created and searched over HTTP?
//
// Its folder (packages/engine/test/index/toy-kind.ts), its shapes, a line in the registry, and records of operations.

import { collectionPath, type Operation, operation } from "@quiverdb/engine/operations/operation";
import { allOperations, type OperationName } from "@quiverdb/engine/operations/operations";
import { Fields } from "@quiverdb/protocol/shapes/common";
import { BatchSearchResponse, SearchResponse } from "@quiverdb/protocol/shapes/search";
import { afterAll, beforeAll, expect, test } from "vitest";
import { register } from "../../engine/src/index/registry.ts";
import { BatchToySearch, ToySearch, toyKind, toyName } from "../../engine/test/index/toy-kind.ts";
import { startTestServer, type TestServer } from "./running.ts";

const searching = {
  method: "POST",
  role: "read",
  keyFilter: "filtered",
  work: "search",
  tag: "Search",
  summary: "Records whose texts have a length",
  statusOf: { index_not_found: 400 },
} as const;

const toyOperations: Record<string, Operation> = {
  createToyIndex: operation(
    {
      method: "POST",
      path: `${collectionPath}/indexes/toy`,
      role: "write",
      tag: "Indexes",
      summary: "Create toy index",
      body: Fields({}),
      answer: Fields({}),
      status: 201,
    },
    ({ collection, body }) => collection.createIndex(toyName, body as never),
  ),
  searchToy: operation(
    { ...searching, path: `${collectionPath}/search/toy`, body: ToySearch, answer: SearchResponse },
    ({ collection, body, options }): Promise<SearchResponse> =>
      collection.search("toy" as never, body as never, options),
  ),
  searchBatchToy: operation(
    {
      ...searching,
      path: `${collectionPath}/search/batch-toy`,
      body: BatchToySearch,
      answer: BatchSearchResponse,
    },
    ({ collection, body, options }): Promise<BatchSearchResponse> =>
      collection.search("batchToy" as never, body as never, options),
  ),
};

let server: TestServer;
let unregister: () => void;
const before = allOperations.length;

beforeAll(async () => {
  unregister = register(toyKind);
  allOperations.push(...(Object.entries(toyOperations) as [OperationName, Operation][]));
  // Threads of the server load the registry and the operations anew, without the toys.
  server = await startTestServer({ servingThreads: 0 });
});

afterAll(async () => {
  await server.end();
  allOperations.length = before;
  unregister();
});

test("a kind of one folder is created and searched over HTTP, by the name of its search alone", async () => {
  const at = "/vectordb/collections/c";
  await server.call(
    "createCollection",
    {},
    { name: "c", tf_idf_options: { enabled: true }, store_raw_text: true },
  );
  const search = (body: object) => server.ask(`${at}/search/toy`, { body });
  const missing = await search({ length: 2 });
  expect([missing.status, missing.json.error.code]).toEqual([400, "index_not_found"]);
  expect(missing.json.error.message).toMatch(`no toy index. Create it with POST ${at}/indexes/toy`);

  expect((await server.ask(`${at}/indexes/toy`, { body: {} })).status).toBe(201);
  expect((await server.ask(`${at}/indexes/toy`, { body: {} })).json.error.code).toBe("index_already_exists");
  const vectors = ["a", "bb", "cc", "dd", "eee"].map((text) => ({
    id: `id-${text}`,
    text,
    metadata: { text },
  }));
  expect((await server.call("streamingUpsert", { collection_id: "c" }, { vectors })).status).toBe(200);
  expect((await server.call("getIndexes", { collection_id: "c" })).json.toy).toMatchObject({
    name: "toy",
    status: { served_by: "toys", records_total: 5 },
  });

  const idsOf = ({ results }: SearchResponse) => results.map(({ id }) => id);
  const found = await search({ length: 2, top_k: 2, return_raw_text: true, explain: true });
  expect([found.status, idsOf(found.json)]).toEqual([200, ["id-bb", "id-cc"]]);
  expect(found.json.results[1]).toMatchObject({ text: "cc", explanation: { toy: { rank: 2, length: 2 } } });
  const filter = { text: { in: ["a", "dd", "eee"] } };
  expect(idsOf((await search({ length: 2, filter })).json)).toEqual(["id-dd"]);
  expect(idsOf((await search({ length: 2, offset: 1, top_k: 1 })).json)).toEqual(["id-cc"]);

  const batch = (body: object) => server.ask(`${at}/search/batch-toy`, { body });
  const both = await batch({ queries: [3, 1, 9] });
  expect(both.status).toBe(200);
  expect(both.json.map(idsOf)).toEqual([["id-eee"], ["id-a"], []]);
  expect((await batch({ queries: [] })).json).toEqual([]);

  for (const [wrong, code, path] of [
    [await search({ length: -1 }), "invalid_request", "length"],
    [await batch({ queries: [1, -1] }), "invalid_request", "queries[1]"],
    [await search({ length: 1, exact: true }), "unknown_field", "exact"],
    [await search({ length: 1, offset: 9_999, top_k: 2 }), "invalid_request", "offset"],
  ] as const) {
    expect([wrong.status, wrong.json.error.code]).toEqual([400, code]);
    expect(wrong.json.error.details.path).toBe(path);
  }
});
