// Does every endpoint of a running server require the declared permissions?
//
// The endpoints are those that Fastify registers, read from its own hooks, so an endpoint outside the list of operations is found, too. Each
// gets requests without a key, with a wrong key, and with keys of every role and every set of collections.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { type Operation, operations } from "@quiverdb/engine/operations/operations";
import { type Role, roles } from "@quiverdb/protocol/shapes/key";
import type { FastifyInstance, RouteOptions } from "fastify";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  adminKey,
  collectionBody,
  expectError,
  record,
  startTestServer,
  type TestServer,
} from "./running.ts";

type Endpoint = { method: string; url: string };

/** Every endpoint outside the list of operations, and the role that it needs; `anyone` needs no key. */
const others: Record<string, Role | "anyone"> = {
  "GET /health/live": "anyone",
  "GET /health/ready": "anyone",
  "GET /openapi.json": "anyone",
  "GET /api-docs/openapi.json": "anyone",
  "GET /docs": "anyone",
  "GET /docs/": "anyone",
  "GET /docs/js/scalar.js": "anyone",
  "GET /llms.txt": "anyone",
  // The console is a page without data; what it asks for needs a key.
  "GET /": "anyone",
  "HEAD /": "anyone",
  "GET /console/:file": "anyone",
  "HEAD /console/:file": "anyone",
  "GET /metrics": "read",
  "GET /metrics/last-hour": "read",
  // Only if CORS origins are configured: it returns the methods and headers that a page may use, for any path.
  "OPTIONS *": "anyone",
};

let server: TestServer;
const endpoints: Endpoint[] = [];
const collect = (message: unknown) => {
  const { fastify } = message as { fastify: FastifyInstance };
  fastify.addHook("onRoute", ({ method, url }: RouteOptions) => {
    for (const each of [method].flat()) endpoints.push({ method: each, url });
  });
};

/** The keys of the test: name -> role, and whether they have access to collection `c`, and to all collections. */
type Asker = { key: string; role: Role; reachesC: boolean; reachesAll: boolean };
const askers: Record<string, Asker> = {};

beforeAll(async () => {
  subscribe("fastify.initialization", collect);
  server = await startTestServer({ corsOrigins: ["https://app.example.org"] });
  unsubscribe("fastify.initialization", collect);
  await server.makeCollection("c");
  await server.call("streamingUpsert", { collection_id: "c" }, { vectors: [record("v")] });
  const reaches = {
    all: null,
    "c by name": ["c"],
    "c by prefix": ["other", "c*"],
    "another one": ["d", "c-*"],
  };
  for (const role of roles) {
    for (const [reach, collections] of Object.entries(reaches)) {
      const made = await server.call("createKey", {}, { name: reach, role, collections });
      expect(made.status, made.text).toBe(201);
      const reachesC = reach !== "another one";
      askers[`${role}, ${reach}`] = { key: made.json.key, role, reachesC, reachesAll: reach === "all" };
    }
  }
});
afterAll(() => server.end());

const pattern = (path: string) => path.replaceAll(/\{(\w+)\}/g, ":$1");
const routeOf = ({ method, url }: Endpoint): Operation | undefined => {
  const all = Object.values(operations) as Operation[];
  const ofMethod = (wanted: string) => all.find((r) => r.method === wanted && pattern(r.path) === url);
  return ofMethod(method) ?? (method === "HEAD" ? ofMethod("GET") : undefined);
};
const roleOf = (endpoint: Endpoint): Role | "anyone" | undefined => {
  const { method, url } = endpoint;
  return routeOf(endpoint)?.role ?? others[`${method === "HEAD" ? "GET" : method} ${url}`];
};

const params: Record<string, string> = {
  collection_id: "c",
  vector_id: "v",
  transaction_id: "t",
  index_type: "nothing",
  version_hash: "h",
  key_id: "k",
};
const ask = ({ method, url }: Endpoint, key: string | null) => {
  const path = url.replaceAll(/:(\w+)/g, (_, name: string) => params[name] ?? "x").replace("*", "/nowhere");
  const route = routeOf({ method, url });
  const needsBody = route?.body !== undefined && method === route.method;
  // A body that is valid only as far as a name must be read.
  const named = route?.path.includes("{alias}") ? { collection: "c" } : {};
  const body = route?.collections === "body.name" ? collectionBody("c") : named;
  return server.ask(path, { method, key, body: needsBody ? body : undefined });
};
const labelled = () =>
  endpoints.map((endpoint) => ({ endpoint, label: `${endpoint.method} ${endpoint.url}` }));

describe("the endpoints of a running server", () => {
  test("[A10] each is in the list of operations, or in the list of this test", () => {
    expect(endpoints.length).toBeGreaterThan(Object.keys(operations).length);
    const unknown = labelled().filter(({ endpoint }) => roleOf(endpoint) === undefined);
    expect(unknown.map(({ label }) => label)).toEqual([]);
    const all = labelled().map(({ label }) => label);
    expect(Object.keys(others).filter((label) => !all.includes(label))).toEqual([]);
    for (const route of Object.values(operations))
      expect(all).toContain(`${route.method} ${pattern(route.path)}`);
  });

  test("[A1] each needs a key, except health, documentation and login", async () => {
    const open = new Set<string>();
    for (const { endpoint, label } of labelled()) {
      for (const key of [null, "wrong", `qk_${"0".repeat(16)}_${"A".repeat(43)}`]) {
        const { status } = await ask(endpoint, key);
        if (status !== 401) open.add(label.replace("HEAD", "GET"));
      }
    }
    const expected = Object.entries(others).flatMap(([label, role]) =>
      role === "anyone" && !label.startsWith("HEAD") ? [label] : [],
    );
    expect([...open].sort()).toEqual([...expected, "POST /auth/create-session"].sort());
  });

  test("[A10] each treats every role and every set of collections as its entry declares", async () => {
    const wrong: string[] = [];
    let refused = 0;
    let allowed = 0;
    for (const { endpoint, label } of labelled()) {
      const needed = roleOf(endpoint);
      if (needed === "anyone" || needed === undefined) continue;
      for (const [name, asker] of Object.entries(askers)) {
        // Restores what an earlier request deleted.
        if (endpoint.method === "DELETE" && endpoint.url.endsWith("/:collection_id"))
          await server.call("createCollection", {}, collectionBody("c"));
        const route = routeOf(endpoint);
        const hasRole = roles.indexOf(asker.role) >= roles.indexOf(needed);
        const namesC = route?.path.includes("{collection_id}") || route?.collections === "body.name";
        // The alias x is a name that only keys without a limit reach.
        const isOpen = route?.collections === "answer" && !route.path.includes("{alias}");
        const hasReach = namesC ? asker.reachesC : isOpen || asker.reachesAll;
        const answer = await ask(endpoint, asker.key);
        const isRefused = answer.status === 403;
        if (isRefused && endpoint.method !== "HEAD") expectError(answer, 403, "forbidden");
        if (isRefused) refused++;
        else allowed++;
        // A permitted request can fail for another reason (no such transaction), but never for a missing permission or with a 500.
        const isRight = hasRole && hasReach ? ![401, 403, 429, 500].includes(answer.status) : isRefused;
        if (!isRight) wrong.push(`${label} asked by ${name}: ${answer.status}`);
      }
    }
    expect(wrong).toEqual([]);
    // Neither all nor none of the requests were rejected.
    expect(Math.min(refused, allowed)).toBeGreaterThan(100);
  });

  test("[A10] a route below admin that names no collection is closed to limited keys by default", () => {
    // The only such route outside the list; in the list every route for limited keys declares where it names collections.
    for (const [name, route] of Object.entries(operations) as [string, Operation][]) {
      if (route.role === "anyone" || route.role === "admin") continue;
      const says = route.path.includes("{collection_id}") || route.collections !== undefined;
      expect([name, says]).toEqual([name, true]);
    }
  });

  test("[A10] unknown paths and wrong methods are reported to every key in the same way", async () => {
    for (const { key } of [...Object.values(askers), { key: adminKey }]) {
      expectError(await server.ask("/nowhere", { key }), 404, "route_not_found");
      expectError(await server.ask("/auth/keys", { key, method: "PATCH" }), 405, "method_not_allowed");
    }
  });
});
