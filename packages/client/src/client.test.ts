// The client against a real server on a real store.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type OperationName, operations } from "@quiverdb/engine/operations/operations";
import type { RunningServer } from "@quiverdb/server/running-server";
import { startServer } from "@quiverdb/server/server";
import { describe, expect, it } from "vitest";
import { animals, codeOf, databaseContract, makeCollectionIn } from "../test/database-contract.ts";
import { connect, createClient, type QuiverClient } from "./client.ts";

const adminKey = "the-admin-key";
let dataDir: string;
let server: RunningServer;
let client: QuiverClient;
/** Routes that any test has called. */
const called = new Set<OperationName>();

databaseContract(
  async () => {
    dataDir = mkdtempSync(join(tmpdir(), "quiver-client-"));
    server = await startServer({ dataDir, port: 0, adminKey, logLevel: "silent" });
    client = connect(server.url, { apiKey: adminKey, fetch: notingFetch });
    return client;
  },
  async () => {
    await client.close();
    await server.close();
    rmSync(dataDir, { recursive: true });
  },
);

/** The real fetch, which also records the route of each request. */
const notingFetch: typeof fetch = (input, init) => {
  const { pathname } = new URL(String(input));
  const matches = (Object.keys(operations) as OperationName[]).filter((name) => {
    const pattern = operations[name].path.replaceAll(/\{\w+\}/g, "[^/]+");
    return operations[name].method === init?.method && new RegExp(`^${pattern}$`).test(pathname);
  });
  // A literal path (`/loaded`, `/current`) also matches the pattern of a parameter; the literal one is meant.
  const [route] = matches.sort(
    (a, b) => operations[a].path.split("{").length - operations[b].path.split("{").length,
  );
  if (route) called.add(route);
  return fetch(input, init);
};

describe("the server", () => {
  it("reports its health without a key", async () => {
    const anonymous = createClient({ url: server.url });
    expect(await anonymous.health()).toEqual({ live: true, ready: true });
    await anonymous.waitUntilReady({ timeoutMs: 5_000 });
    const nobody = createClient({ url: "http://127.0.0.1:9" });
    expect(await nobody.health()).toEqual({ live: false, ready: false });
    expect(await codeOf(nobody.waitUntilReady({ timeoutMs: 100 }))).toEqual(["connection_failed", 0]);
  });

  it("requires a key or a session for everything else", async () => {
    const anonymous = createClient({ url: server.url, fetch: notingFetch });
    expect(await codeOf(anonymous.listCollections())).toEqual(["unauthorized", 401]);
    expect(await codeOf(anonymous.collection("c").has("x"))).toEqual(["unauthorized", 401]);
    const session = await anonymous.createSession({ username: "admin", password: adminKey });
    const known = createClient({ url: server.url, apiKey: session.access_token });
    await expect(known.listCollections()).resolves.toBeDefined();
    const wrong = anonymous.createSession({ username: "admin", password: "wrong" });
    expect(await codeOf(wrong)).toEqual(["invalid_credentials", 400]);
  });
});

describe("API keys", () => {
  it("are created with their limits, listed, recorded and revoked", async () => {
    const { name } = await makeCollectionIn(client, { records: animals });
    const { key, ...information } = await client.createKey({
      name: "reader",
      role: "read",
      collections: [name],
    });
    const reader = createClient({ url: server.url, apiKey: key });
    expect(await reader.listCollections()).toMatchObject([{ name }]);
    const forbidden = reader.collection(name).delete("bee");
    expect(await codeOf(forbidden)).toEqual(["forbidden", 403]);
    expect(await codeOf(reader.collection("another").has("x"))).toEqual(["forbidden", 403]);
    expect(await client.listKeys()).toEqual([{ ...information, last_used_at: expect.any(Number) }]);
    await client.revokeKey(information.key_id);
    expect(await client.listKeys()).toEqual([]);
    expect(await codeOf(reader.listCollections())).toEqual(["unauthorized", 401]);
    expect(await codeOf(client.revokeKey(information.key_id))).toEqual(["key_not_found", 404]);
    const { entries } = await client.audit({ limit: 2 });
    expect(entries.map(({ operation, phase }) => [operation, phase])).toEqual([
      ["revokeKey", "failed"],
      ["revokeKey", "begun"],
    ]);
  });
});

it("every endpoint has a method, and the tests have called it", async () => {
  const collection = await makeCollectionIn(client, { records: animals });
  // These are alternative paths of `Collection.delete` and `restoreVersion`, for other clients.
  const params = { collection_id: collection.name, vector_id: "bee" };
  await client.request("deleteVector", { params });
  await client.request("streamingDeleteAlias", { params: { ...params, vector_id: "ant" } });
  const { version_number: version, hash: version_hash } = await collection.currentVersion();
  await client.request("putCurrentVersion", { params, body: { version } });
  await client.request("putCurrentVersionByHash", { params: { ...params, version_hash } });
  expect([...called].sort()).toEqual(Object.keys(operations).sort());
});
