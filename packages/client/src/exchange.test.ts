// Which way does a request take in Node.js?

import { afterEach, describe, expect, it, vi } from "vitest";
import { answer, type Step, scriptedServer } from "../test/scripted-server.ts";
import { createClient } from "./client.ts";

afterEach(() => vi.unstubAllGlobals());

/** `fetch` of Node.js sends it with every request, node:http does not. */
const fetchHeader = "sec-fetch-mode";

describe("a request", () => {
  it("goes through node:http, with its answer in one piece or many", async () => {
    const text = JSON.stringify({ collections: [{ name: "bücher", vectors_count: 0 }] });
    const bytes = Buffer.from(text);
    const split = bytes.indexOf("ü") + 1;
    const inPieces: Step = (_, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.write(bytes.subarray(0, split));
      setTimeout(() => response.end(bytes.subarray(split)), 20);
    };
    await using server = await scriptedServer(answer(200, JSON.parse(text)), inPieces);
    const client = createClient({ url: server.url });
    const whole = await client.listCollections();
    expect(whole).toMatchObject([{ name: "bücher" }]);
    expect(await client.listCollections()).toEqual(whole);
    for (const { headers } of server.received) expect(headers).not.toHaveProperty(fetchHeader);
  });

  it("goes through a given fetch, and through a global fetch that was replaced later", async () => {
    await using server = await scriptedServer(
      answer(200, { collections: [] }),
      answer(200, { collections: [] }),
    );
    const real = globalThis.fetch;
    const given = vi.fn<typeof fetch>((input, init) => real(input, init));
    await createClient({ url: server.url, fetch: given }).listCollections();
    expect(given).toHaveBeenCalledOnce();
    const client = createClient({ url: server.url });
    const replaced = vi.fn<typeof fetch>((input, init) => real(input, init));
    vi.stubGlobal("fetch", replaced);
    await client.listCollections();
    expect(replaced).toHaveBeenCalledOnce();
    for (const { headers } of server.received) expect(headers).toHaveProperty(fetchHeader);
  });

  it("follows a redirect with its body", async () => {
    await using target = await scriptedServer(answer(200, { results: [] }));
    const location = `${target.url}/elsewhere`;
    const redirect = answer(307, undefined, { location });
    await using server = await scriptedServer(redirect, redirect);
    await createClient({ url: server.url }).collection("c").search.text({ query: "q" });
    const [{ method, url, body }] = target.received;
    expect([method, url, body]).toEqual(["POST", "/elsewhere", '{"query":"q"}']);
  });

  it("whose answer breaks off is sent again where that is safe", async () => {
    const broken: Step = (_, response) => {
      response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
      response.write('{"collections":');
      setTimeout(() => response.socket?.destroy(), 20);
    };
    await using server = await scriptedServer(broken, answer(200, { collections: [] }), broken);
    const runtime = { sleep: async () => undefined };
    expect(await createClient({ url: server.url, runtime }).listCollections()).toEqual([]);
    await expect(createClient({ url: server.url, retries: 0 }).listCollections()).rejects.toMatchObject({
      code: "connection_failed",
      details: { reason: "ECONNRESET" },
    });
  });
});
