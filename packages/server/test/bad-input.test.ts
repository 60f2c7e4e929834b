// Every field of every body, with every kind of invalid value for its shape.
//
// The cases are generated from the shapes, so that a new field is tested automatically. Each must answer 400 with the field's path, and
// change nothing; an optional key takes null. The same request in the same process must give the same error.

import { Database } from "@quiverdb/client/database";
import { EmbeddedTransport } from "@quiverdb/database/embedded";
import { type OperationName, operations } from "@quiverdb/engine/operations/operations";
import type { QuiverError } from "@quiverdb/protocol/errors";
import type { TSchema } from "typebox";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import {
  type Answer,
  adminKey,
  type CollectionOptions,
  collectionBody,
  denseIndexBody,
  expectError,
  record,
  sparseIndexBody,
  startTestServer,
  type TestServer,
  textIndexBody,
} from "./running.ts";

type Schema = {
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  enum?: unknown[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  minLength?: number;
  maxItems?: number;
};

type Step = string | number;
type Field = { steps: readonly Step[]; schema: Schema; required: boolean };
type Case = { what: string; steps: readonly Step[]; value: unknown };

/** Sent as JSON, this omits the key. */
const missing = undefined;

/** Every field under a shape; arrays by their first item. */
function* fieldsOf(schema: Schema, steps: readonly Step[] = []): Generator<Field> {
  const required = new Set(schema.required);
  for (const [key, inner] of Object.entries(schema.properties ?? {})) {
    const field = { steps: [...steps, key], schema: inner, required: required.has(key) };
    yield field;
    yield* fieldsOf(inner, field.steps);
  }
  if (schema.items) {
    const field = { steps: [...steps, 0], schema: schema.items, required: true };
    yield field;
    yield* fieldsOf(schema.items, field.steps);
  }
}

const samples: Record<string, unknown> = {
  string: "words",
  number: 0.5,
  boolean: true,
  array: [],
  object: {},
};

function* casesOf({ steps, schema, required }: Field): Generator<Case> {
  const bad = (what: string, value: unknown): Case => ({ what, steps, value });
  if (required) {
    if (typeof steps.at(-1) === "string") yield bad("missing", missing);
    yield bad("null", null);
  }
  if (schema.anyOf) {
    for (const value of ["words", true, {}, [], [1], [1, 2, 3], ["1", 2], { index: 1 }, { value: 1 }])
      yield bad("of no branch", value);
    for (const index of [-1, 1.5, 2 ** 32, "1", null]) yield bad("with a bad index", { index, value: 1 });
    yield bad("with a bad value", { index: 1, value: "1" });
    return;
  }
  if (schema.type === undefined) {
    // A filter, whose schema accepts everything: the engine refuses what is no object.
    for (const type of ["string", "number", "boolean", "array"] as const)
      yield bad(`a ${type}`, samples[type]);
    yield bad("with a null", { color: null });
    return;
  }
  const types = [schema.type].flat().filter((type) => type !== undefined && type !== "null") as string[];
  const accepted = new Set(types.map((type) => (type === "integer" ? "number" : type)));
  for (const [type, value] of Object.entries(samples)) {
    if (!accepted.has(type)) yield bad(`a ${type}`, value);
  }
  if (types.includes("integer")) yield bad("a fraction", (schema.minimum ?? 0) + 0.5);
  if (schema.enum) yield bad("of no known word", types.includes("integer") ? 17 : "bogus");
  if (schema.minimum !== undefined) yield bad("too small", schema.minimum - 1);
  if (schema.maximum !== undefined && schema.maximum < Number.MAX_SAFE_INTEGER)
    yield bad("too large", schema.maximum + 1);
  if (schema.exclusiveMinimum !== undefined) yield bad("at the excluded bound", schema.exclusiveMinimum);
  if (schema.minLength !== undefined) yield bad("too short", "");
  if (schema.maxItems !== undefined) yield bad("too long", Array(schema.maxItems + 1).fill("a"));
}

const pathText = (steps: readonly Step[]) =>
  steps
    .map((step, index) => (typeof step === "number" ? `[${step}]` : index === 0 ? step : `.${step}`))
    .join("");

function withValue(body: unknown, steps: readonly Step[], value: unknown): unknown {
  const copy = structuredClone(body) as Record<Step, unknown>;
  let at = copy;
  // Creates an object that the body does not have: an optional one, or one that stands in place of a list.
  for (const [i, step] of steps.slice(0, -1).entries()) {
    at[step] ??= {};
    if (Array.isArray(at[step]) && typeof steps[i + 1] === "string") at[step] = {};
    if (!Array.isArray(at[step]) && typeof steps[i + 1] === "number") at[step] = [];
    at = at[step] as Record<Step, unknown>;
  }
  at[steps.at(-1) as Step] = value;
  return copy;
}

/** The objects of a body, without metadata and filters: their paths and fields. */
function* objectsOf(
  value: unknown,
  steps: readonly Step[] = [],
): Generator<{ steps: readonly Step[]; names: string[] }> {
  if (typeof value !== "object" || value === null || ["metadata", "filter"].includes(String(steps.at(-1))))
    return;
  if (!Array.isArray(value)) yield { steps, names: Object.keys(value) };
  for (const [name, inner] of Object.entries(value))
    yield* objectsOf(inner, [...steps, Array.isArray(value) ? Number(name) : name]);
}

const vector = record("bad-input");
const terms = [{ index: 1, value: 1 }];
const filter = { color: "red" };
const options = {
  ...{ top_k: 3, return_raw_text: true, explain: true, filter },
  ...{ include: ["metadata"], score_threshold: -9, offset: 1, group_by: "color", group_size: 2 },
};
const dense = { ef_search: 10, exact: true };
const legs = { query_vector: [1, 2, 3, 4], query_terms: terms, query_text: "fox" };
const scalarIndexBody = {
  ...denseIndexBody,
  quantization: {
    type: "scalar",
    properties: { data_type: "u8", range: { min: -1, max: 1 }, sample_threshold: 10 },
  },
};
const hnsw = {
  num_layers: 4,
  max_cache_size: 10,
  ef_construction: 10,
  ef_search: 10,
  neighbors_count: 4,
  level_0_neighbors_count: 8,
};

/** Valid bodies, with every field. */
const bodies: readonly { route: OperationName; body: unknown; collection?: string }[] = [
  {
    route: "createCollection",
    body: {
      ...collectionBody("bad-input"),
      description: "words",
      dense_vector: { enabled: true, dimension: 4, auto_create_index: false },
      sparse_vector: { enabled: true, auto_create_index: false },
      config: { max_vectors: 5, replication_factor: 1 },
      store_raw_text: true,
    },
  },
  {
    route: "createDenseIndex",
    collection: "bare",
    body: { ...denseIndexBody, index: { type: "hnsw", properties: hnsw } },
  },
  { route: "createDenseIndex", collection: "bare", body: scalarIndexBody },
  { route: "createSparseIndex", collection: "bare", body: sparseIndexBody },
  {
    route: "createTextIndex",
    collection: "bare",
    body: { ...textIndexBody, language: "german", stop_words: ["und"], positions: true },
  },
  { route: "analyzeText", body: { text: "the fox" } },
  { route: "searchDense", body: { query_vector: [1, 2, 3, 4], ...options, ...dense, diversity: 0.5 } },
  {
    route: "searchBatchDense",
    body: { queries: [{ vector: [1, 2, 3, 4], filter }], ...options, ...dense, diversity: 0.5 },
  },
  {
    route: "recommend",
    body: {
      positive: [[1, 2, 3, 4]],
      negative: [[1, 1, 1, 1]],
      strategy: "average_vector",
      ...options,
      ...dense,
      diversity: 0.5,
    },
  },
  { route: "searchSparse", body: { query_terms: terms, early_terminate_threshold: 0.1, ...options } },
  {
    route: "searchBatchSparse",
    body: { query_terms_list: [{ query_terms: terms, filter }], early_terminate_threshold: 0.1, ...options },
  },
  { route: "searchText", body: { query: "fox", query_text: "fox", syntax: "operators", ...options } },
  {
    route: "searchBatchText",
    body: { queries: [{ query: "fox", filter }], syntax: "operators", ...options },
  },
  {
    route: "searchHybrid",
    body: {
      ...legs,
      sparse_early_terminate_threshold: 0.1,
      fusion_constant_k: 60,
      syntax: "plain",
      ...options,
      ...dense,
    },
  },
  {
    route: "searchBatchHybrid",
    body: {
      queries: [{ ...legs, filter }],
      sparse_early_terminate_threshold: 0.1,
      fusion_constant_k: 60,
      syntax: "plain",
      ...options,
      ...dense,
    },
  },
  { route: "countVectors", body: { filter } },
  { route: "facetVectors", body: { field: "color", filter, limit: 3 } },
  {
    route: "scrollVectors",
    body: { filter, limit: 3, order_by: { field: "color", direction: "asc" }, include: ["text"] },
  },
  { route: "fetchVectors", body: { ids: ["a"], include: ["text"] } },
  { route: "deleteMatching", body: { filter } },
  { route: "updateMatching", body: { filter, metadata: { a: 1 } } },
  { route: "createMetadataIndex", body: { type: "keyword" } },
  { route: "addVector", body: vector },
  { route: "upsertVectors", body: { vectors: [vector] } },
  { route: "streamingUpsert", body: { vectors: [vector] } },
  { route: "createSession", body: { username: "admin", password: adminKey } },
];

/** Optional keys that the rest of the body makes necessary: null is as invalid as missing. */
const neededHere = new Set([
  "createCollection dense_vector.dimension",
  "createDenseIndex quantization.properties.data_type",
  "createDenseIndex quantization.properties.range",
  "facetVectors field",
  "addVector sparse_indices",
  "addVector sparse_values",
  "upsertVectors vectors[0].sparse_indices",
  "upsertVectors vectors[0].sparse_values",
  "streamingUpsert vectors[0].sparse_indices",
  "streamingUpsert vectors[0].sparse_values",
]);
/** The body for `auto` has no scalar properties at all. */
const isScalar = (body: unknown) => body === scalarIndexBody;

let server: TestServer;
/** The database of the server, in this process. */
let inProcess: Database;
let transaction_id: string;
const collections = ["c", "bare"];

beforeAll(async () => {
  server = await startTestServer();
  inProcess = new Database(new EmbeddedTransport(server.database));
  await makeHere("c", {});
  await makeHere("bare", { indexes: false });
  await server.call("streamingUpsert", { collection_id: "c" }, { vectors: [record("kept")] });
  await server.call("createMetadataIndex", { collection_id: "c", field: "color" }, { type: "keyword" });
  transaction_id = (await server.call("createTransaction", { collection_id: "c" })).json.transaction_id;
});
afterAll(() => server.end());

/** Makes a collection of which this process serves a shard: over three nodes, where shards lie is chance. */
async function makeHere(name: string, options: CollectionOptions): Promise<void> {
  for (;;) {
    await server.makeCollection(name, options);
    const count = () => inProcess.request("countVectors", { params: { collection_id: name }, body: {} });
    const code = () =>
      count().then(
        () => "here",
        ({ code }: QuiverError) => code,
      );
    // Another node has made it: this one reads of it.
    const found = await vi.waitUntil(async () => /^(?:here|not_ready)$/.exec(await code()), 10_000);
    if (found[0] === "here") return;
    expect((await server.call("deleteCollection", { collection_id: name })).status).toBe(204);
  }
}

const send = (route: OperationName, body: unknown, collection = "c") =>
  server.call(route, { collection_id: collection, transaction_id, field: "color" }, body);
/** Asserts that the same process refuses a request as the server does. */
async function expectSameInProcess(
  answer: Answer,
  route: OperationName,
  body: unknown,
  collection = "c",
): Promise<void> {
  // Sessions are the server's alone.
  if (route === "createSession") return;
  const params = { collection_id: collection, transaction_id, field: "color" };
  const error = await inProcess.request(route, { params: params as never, body }).then(
    () => undefined,
    ({ code, message, details, status }) => ({ error: { code, message, details }, status }),
  );
  expect(error, `${route} ${JSON.stringify(body)}`.slice(0, 1_000)).toEqual({
    ...answer.json,
    status: answer.status,
  });
}
const everything = async () => {
  const state = await Promise.all(collections.map((name) => server.fingerprint(name)));
  // A session that was not created leaves no trace either.
  return { state, sessions: server.database.credentials.entries("session:").length };
};

describe.each(bodies)("$route", ({ route, body, collection }) => {
  const shape = (operations[route] as { body?: TSchema }).body as unknown as Schema;
  const fields = [...fieldsOf(shape)].filter(({ steps }) => {
    // Fields of the other kind of quantization are not in this body.
    return !(
      route === "createDenseIndex" &&
      !isScalar(body) &&
      ["data_type", "range"].includes(String(steps[2]))
    );
  });

  test("[E3] [P1] a wrong field is 400 with its path, in the same process too, and nothing changes", async () => {
    const before = await everything();
    expect(fields.flatMap((field) => [...casesOf(field)]).length).toBeGreaterThan(fields.length * 3);
    for (const field of fields) {
      for (const { what, steps, value } of casesOf(field)) {
        const wrong = withValue(body, steps, value);
        const answer = await send(route, wrong, collection);
        const label = `${route}: ${pathText(steps)} ${what} -> ${answer.status} ${answer.text.slice(0, 300)}`;
        expect(answer.status, label).toBe(400);
        const { code, details, message } = answer.json.error;
        expect(["invalid_request", "invalid_vector", "invalid_name", "invalid_filter"], label).toContain(
          code,
        );
        expect(details.path, label).toBe(pathText(steps) + (what === "with a null" ? ".color" : ""));
        expect(message, label).toContain(pathText(steps));
        await expectSameInProcess(answer, route, wrong, collection);
      }
    }
    expect(await everything()).toEqual(before);
  });

  test("[E7] an unknown field, at every level, is named with its path and a suggestion; nothing changes", async () => {
    const before = await everything();
    const places = [...objectsOf(body)];
    expect(places.length).toBeGreaterThan(0);
    for (const { steps, names } of places) {
      for (const name of names) {
        // `top_k` is present, and so is `TOP_K`.
        const misspelt = [...steps, name.toUpperCase()];
        const wrong = withValue(body, misspelt, null);
        const answer = await send(route, wrong, collection);
        await expectSameInProcess(answer, route, wrong, collection);
        const error = expectError(answer, 400, "unknown_field");
        expect([error.details.path, error.details.suggestion]).toEqual([pathText(misspelt), name]);
        expect(error.message).toContain(pathText(misspelt));
        expect(error.message).toContain(`did you mean \`${name}\`?`);
      }
      const strange = await send(route, withValue(body, [...steps, "zzzzzzzz"], 1), collection);
      expect(expectError(strange, 400, "unknown_field").details.suggestion).toBeUndefined();
    }
    expect(await everything()).toEqual(before);
  });

  test("[H3] without a body, what is missing is a required field", async () => {
    const { required = [] } = (operations[route] as { body?: { required?: readonly string[] } }).body ?? {};
    if (required.length === 0) return;
    const answer = await send(route, undefined, collection);
    await expectSameInProcess(answer, route, undefined, collection);
    const { details, message } = expectError(answer, 400, "invalid_request");
    expect(required).toContain(details.path);
    expect(message).toMatch(`${details.path} is missing; expected `);
  });

  test("[H11] the body itself null, or of another type is 400", async () => {
    for (const wrong of [null, [], "words", 7, true]) {
      const answer = await send(route, wrong, collection);
      expect([wrong, answer.status, answer.json?.error.details.path]).toEqual([wrong, 400, "body"]);
      await expectSameInProcess(answer, route, wrong, collection);
    }
  });

  test("[H11] an optional field takes null, unless the others make it necessary", async () => {
    for (const { steps, required } of fields) {
      if (required) continue;
      const path = pathText(steps);
      const isOfScalar = path === "quantization.properties" && JSON.stringify(body).includes('"scalar"');
      const needed = path === "group_by" || isOfScalar || neededHere.has(`${route} ${path}`);
      const answer = await send(route, withValue(body, steps, null), collection);
      const label = `${route}: ${path} null -> ${answer.status} ${answer.text.slice(0, 300)}`;
      if (needed) {
        expect(answer.status, label).toBe(400);
        expect(answer.json.error.details.path, label).toMatch(
          /sparse|dimension|quantization|group_size|^field$/,
        );
        await expectSameInProcess(answer, route, withValue(body, steps, null), collection);
      } else {
        expect(answer.status, label).toBe(operations[route].status);
        await undo(route, collection);
      }
    }
  });
});

async function undo(route: OperationName, collection = "c"): Promise<void> {
  const c = { collection_id: collection };
  if (route === "createCollection") await server.call("deleteCollection", { collection_id: "bad-input" });
  for (const index_type of ["dense", "sparse", "tf_idf"]) {
    if (collection === "bare") await server.call("deleteIndex", { ...c, index_type });
  }
}

describe("too long", () => {
  const at = async (route: OperationName, body: unknown, collection?: string) => {
    const answer = await send(route, body, collection);
    if (answer.status === 400) await expectSameInProcess(answer, route, body, collection);
    return [answer.status, answer.json?.error?.details?.path];
  };
  const vectors = (field: Record<string, unknown>) => ({
    vectors: [record("fine"), { ...record("long"), ...field }],
  });

  test("[E3] texts, names, ids and metadata beyond their limit are 400 with the path; up to the limit they are accepted", async () => {
    const before = await everything();
    expect(await at("createCollection", collectionBody("n".repeat(256)))).toEqual([400, "name"]);
    const described = { ...collectionBody("described"), description: "d".repeat(65_537) };
    expect(await at("createCollection", described)).toEqual([400, "description"]);
    const named = { ...sparseIndexBody, name: "ä".repeat(128) };
    expect(await at("createSparseIndex", named, "bare")).toEqual([400, "name"]);
    expect(await at("streamingUpsert", vectors({ id: "" }))).toEqual([400, "vectors[1].id"]);
    expect(await at("streamingUpsert", vectors({ id: "ä".repeat(257) }))).toEqual([400, "vectors[1].id"]);
    expect(await at("streamingUpsert", vectors({ document_id: "x".repeat(513) }))).toEqual([
      400,
      "vectors[1].document_id",
    ]);
    expect(await at("streamingUpsert", vectors({ document_id: "" }))).toEqual([
      400,
      "vectors[1].document_id",
    ]);
    const text = "x".repeat(16 * 1024 * 1024 + 1);
    expect(await at("streamingUpsert", vectors({ text }))).toEqual([400, "vectors[1].text"]);
    const metadata = { a: "x".repeat(65_536) };
    expect(await at("streamingUpsert", vectors({ metadata }))).toEqual([400, "vectors[1].metadata"]);
    expect(await at("searchText", { query: "x".repeat(1024 * 1024 + 1) })).toEqual([400, "query"]);
    expect(await at("streamingUpsert", vectors({ dense_values: [1, 2, 3, 4, 5] }))).toEqual([
      400,
      "vectors[1].dense_values",
    ]);
    expect(await at("streamingUpsert", vectors({ dense_values: [] }))).toEqual([
      400,
      "vectors[1].dense_values",
    ]);
    expect(await at("searchDense", { query_vector: [1, 2, 3] })).toEqual([400, "query_vector"]);
    expect(await everything()).toEqual(before);

    const longest = {
      ...record("x".repeat(512)),
      document_id: "ä".repeat(256),
      metadata: { a: "x".repeat(65_536 - 8) },
    };
    expect(await at("streamingUpsert", { vectors: [longest] })).toEqual([200, undefined]);
  });

  test("[E3] numbers that a 32-bit float cannot hold, unequal lengths and repeated indices have a position", async () => {
    expect(await at("streamingUpsert", vectors({ dense_values: [1, 2, 1e39, 4] }))).toEqual([
      400,
      "vectors[1].dense_values[2]",
    ]);
    expect(await at("streamingUpsert", vectors({ sparse_values: [1, -1e39] }))).toEqual([
      400,
      "vectors[1].sparse_values[1]",
    ]);
    expect(await at("streamingUpsert", vectors({ sparse_indices: [1, 2, 3] }))).toEqual([
      400,
      "vectors[1].sparse_indices",
    ]);
    expect(await at("streamingUpsert", vectors({ sparse_indices: [5, 5] }))).toEqual([
      400,
      "vectors[1].sparse_indices[1]",
    ]);
    expect(
      await at("searchSparse", {
        query_terms: [
          [1, 1],
          [1, 2],
        ],
      }),
    ).toEqual([400, "query_terms[1]"]);
    expect(await at("searchDense", { query_vector: [1, 2, 3, 1e39] })).toEqual([400, "query_vector[3]"]);
    const range = (min: number, max: number) => ({
      ...denseIndexBody,
      quantization: { type: "scalar", properties: { data_type: "u8", range: { min, max } } },
    });
    expect((await at("createDenseIndex", range(1, 1), "bare"))[0]).toBe(400);
    expect((await at("createDenseIndex", range(2, 1), "bare"))[0]).toBe(400);
  });
});
