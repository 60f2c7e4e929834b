// Does the OpenAPI document describe the server correctly?

import { type Route, type RouteName, routes } from "@quiver/protocol/routes";
import { validate } from "@scalar/openapi-parser";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectError, startTestServer, type TestServer } from "./running.ts";

// biome-ignore lint/suspicious/noExplicitAny: a document is walked here.
type Document = any;

let server: TestServer;
let document: Document;
beforeAll(async () => {
  server = await startTestServer();
  document = (await server.ask("/openapi.json")).json;
});
afterAll(() => server.end());

const all = Object.entries(routes) as [RouteName, Route][];
const operationOf = (route: Route) => document.paths[route.path]?.[route.method.toLowerCase()];

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
    expect(
      inQuery.map((p: { name: string; required?: boolean }) => `${p.required ? "!" : ""}${p.name}`),
    ).toEqual(Object.keys(route.query ?? {}));
    const plain = (shape: unknown) => JSON.parse(JSON.stringify(shape));
    if (route.body) {
      expect(operation.requestBody.required).toBe(true);
      const { content } = operation.requestBody;
      // Examples stand beside the schema.
      const { examples, ...shape } = plain(route.body);
      expect(content["application/json"].schema).toEqual(shape);
      if (examples)
        expect(Object.values(content["application/json"].examples)).toEqual(
          examples.map((value: unknown) => ({ value })),
        );
      const bulk = ["application/x-ndjson", "application/msgpack"];
      expect(Object.keys(content)).toEqual(["application/json", ...(route.bulk ? bulk : [])]);
      if (route.bulk) for (const type of bulk) expect(content[type].schema.properties.metadata).toBeDefined();
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

  test("[H23] every endpoint requires the bearer key, except login", () => {
    expect(document.components.securitySchemes.bearer).toMatchObject({ type: "http", scheme: "bearer" });
    expect(document.security).toEqual([{ bearer: [] }]);
    expect(operationOf(routes.createSession).security).toEqual([]);
    expect(operationOf(routes.searchDense).security).toBeUndefined();
  });

  test("[H23] a response of the server fits the schema in the document", async () => {
    expect(document.components.schemas.Error.required).toEqual(["error"]);
    const error = expectError(await server.call("getCollection", { collection_id: "none" }), 404);
    expect(Object.keys(error).sort()).toEqual(
      document.components.schemas.Error.properties.error.required.toSorted(),
    );
  });
});
