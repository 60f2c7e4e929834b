// Does the OpenAPI document describe the server correctly?

import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import { validate } from "@scalar/openapi-parser";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { adminKey, expectError, startTestServer, type TestServer } from "./running.ts";

// biome-ignore lint/suspicious/noExplicitAny: a document is walked here.
type Document = any;

let server: TestServer;
let document: Document;
beforeAll(async () => {
  server = await startTestServer();
  document = (await server.ask("/openapi.json")).json;
});
afterAll(() => server.end());

const all = Object.entries(operations) as [OperationName, Operation][];
const operationOf = (route: Operation) => document.paths[route.path]?.[route.method.toLowerCase()];

describe("openapi", () => {
  test("[H23] the document is valid OpenAPI 3.1, at both of its addresses", async () => {
    expect(document.openapi).toBe("3.1.0");
    const { valid, errors } = await validate(JSON.stringify(document));
    expect(errors).toEqual([]);
    expect(valid).toBe(true);
    expect((await server.ask("/api-docs/openapi.json")).json).toEqual(document);
  });

  test("[H23] it lists exactly the endpoints of the list, each under its name", () => {
    const listed = Object.entries(
      document.paths as Record<string, Record<string, { operationId: string }>>,
    ).flatMap(([path, operations]) =>
      Object.entries(operations).map(
        ([method, { operationId }]) => `${operationId} ${method.toUpperCase()} ${path}`,
      ),
    );
    expect(listed.sort()).toEqual(all.map(([name, route]) => `${name} ${route.method} ${route.path}`).sort());
  });

  test.each(all)("[H23] %s: parameters, body, response and every error of the contract", (name, route) => {
    const operation = operationOf(route);
    expect(operation.tags).toEqual([route.tag]);
    const inPath = (operation.parameters ?? []).filter((p: { in: string }) => p.in === "path");
    const names = [...route.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
    expect(inPath.map((p: { name: string }) => p.name)).toEqual(names);
    for (const parameter of inPath)
      expect(parameter).toMatchObject({ required: true, schema: { type: "string" } });
    const inQuery = (operation.parameters ?? []).filter((p: { in: string }) => p.in === "query");
    expect(inQuery.map((p: { name: string; required?: boolean }) => [p.name, p.required === true])).toEqual(
      Object.entries(route.query ?? {}).map(([each, { isRequired }]) => [each, isRequired === true]),
    );
    const plain = (shape: unknown) => JSON.parse(JSON.stringify(shape));
    if (route.body) {
      expect(operation.requestBody.required).toBe(true);
      const { content } = operation.requestBody;
      expect(content["application/json"].schema).toEqual(plain(route.body));
      // Examples stand beside the schema.
      const given = route.examples;
      expect(given.length).toBeGreaterThan(0);
      const { example, examples: several } = content["application/json"];
      const shown = several ? Object.values(several as Document[]).map(({ value }) => value) : [example];
      expect(shown).toEqual(given);
      const isBulk = route.records === "vectors";
      const bulk = ["application/x-ndjson", "application/msgpack"];
      expect(Object.keys(content)).toEqual(["application/json", ...(isBulk ? bulk : [])]);
      if (isBulk) for (const type of bulk) expect(content[type].schema.properties.metadata).toBeDefined();
    } else if (route.upload) {
      expect(operation.requestBody.content["application/octet-stream"].schema.format).toBe("binary");
    } else expect(operation.requestBody).toBeUndefined();
    const success = operation.responses[route.status];
    if (route.answer)
      expect(success.content[route.mediaType ?? "application/json"].schema).toEqual(plain(route.answer));
    else expect(success.content).toBeUndefined();
    for (const status of [...route.errors, ...(name === "createSession" ? [] : [401])]) {
      const answer = operation.responses[status];
      expect(answer, `${name} ${status}`).toBeDefined();
      if (route.method === "HEAD") expect(answer.content).toBeUndefined();
      else expect(answer.content["application/json"].schema).toEqual({ $ref: "#/components/schemas/Error" });
    }
  });

  test("[H23] every path parameter has an example, but for what the server gives", () => {
    const given = ["transaction_id", "version_hash", "key_id", "snapshot_id"];
    for (const [path, operations] of Object.entries(document.paths as object))
      for (const { parameters = [] } of Object.values(operations as object))
        for (const { in: where, name, example } of parameters)
          if (where === "path") expect(example === undefined, `${path} ${name}`).toBe(given.includes(name));
  });

  test("[H23] every example of a body is served as it stands", async () => {
    const params = {
      collection_id: "articles",
      field: "year",
      vector_id: "a1",
      tag: "release-1",
      transaction_id: "",
    };
    const sessionOf = (password: string) => ({ username: "admin", password });
    const begin: readonly OperationName[] = [
      "createCollection",
      "createDenseIndex",
      "createSparseIndex",
      "createTextIndex",
      "createMetadataIndex",
      "patchCollection",
      "streamingUpsert",
    ];
    const end: readonly OperationName[] = ["deleteMatching", "createSnapshot", "restoreCollection"];
    const rank = (name: OperationName) =>
      begin.includes(name) ? begin.indexOf(name) - begin.length : end.indexOf(name) + 1;
    // The story of the examples: a collection is made, filled, searched and changed.
    const story = all.filter(([, { examples }]) => examples.length > 0).sort(([a], [b]) => rank(a) - rank(b));
    for (const [name, { examples }] of story) {
      if (name === "addVector")
        params.transaction_id = (await server.call("createTransaction", params)).json.transaction_id;
      if (name === "deleteMatching") {
        expect((await server.call("commitTransaction", params)).status).toBe(204);
        expect((await server.call("countVectors", params, {})).json).toEqual({ count: 5 });
      }
      for (const body of examples as readonly object[]) {
        const { status, text, json } = await server.call(name, params, body);
        // The two that name what only the reader has.
        if (name === "createSession") {
          expect(json.error.code).toBe("invalid_credentials");
          expect((await server.call(name, params, sessionOf(adminKey))).status).toBe(200);
        } else if (name === "restoreCollection") {
          expect(json.error.code).toBe("snapshot_not_found");
          const { snapshots } = (await server.call("listSnapshots", params)).json;
          const ids = snapshots
            .filter(({ since_version }: { since_version: unknown }) => since_version === null)
            .map(({ id }: { id: string }) => id);
          const restored = await server.call(name, params, { ...body, snapshots: ids });
          expect(restored.status, restored.text).toBe(operations[name].status);
        } else expect(status, `${name} ${text}`).toBe(operations[name].status);
        if (name.startsWith("search") && "results" in json)
          expect(json.results.length, name).toBeGreaterThan(0);
      }
    }
  });

  test("[H31] llms.txt has every endpoint with the first example of its body, and leads to the document", async () => {
    const { status, headers, text } = await server.ask("/llms.txt", { key: null });
    expect([status, headers.get("content-type")]).toEqual([200, "text/plain; charset=utf-8"]);
    expect(text.startsWith("# Quiver\n\n> ")).toBe(true);
    for (const [name, { method, path, summary }] of all) {
      const lines = text.split("\n").filter((line) => line.startsWith(`- \`${method} ${path}\`: ${summary}`));
      expect(lines, name).toHaveLength(1);
      const [body] = operations[name].examples;
      if (body !== undefined) expect(lines[0]).toContain(JSON.stringify(body));
    }
    for (const [, address] of text.matchAll(/\]\((\/[^)]*)\)/g))
      expect((await server.ask(address, { key: null })).status, address).toBe(200);
  });

  test("[H23] every endpoint requires the bearer key, except login", () => {
    expect(document.components.securitySchemes.bearer).toMatchObject({ type: "http", scheme: "bearer" });
    expect(document.security).toEqual([{ bearer: [] }]);
    expect(operationOf(operations.createSession).security).toEqual([]);
    expect(operationOf(operations.searchDense).security).toBeUndefined();
  });

  test("[H23] a response of the server fits the schema in the document", async () => {
    expect(document.components.schemas.Error.required).toEqual(["error"]);
    const error = expectError(await server.call("getCollection", { collection_id: "none" }), 404);
    expect(Object.keys(error).sort()).toEqual(
      document.components.schemas.Error.properties.error.required.toSorted(),
    );
  });
});
