// Which way does a request take in Node.js?

import { type AddressInfo, createServer } from "node:net";
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

  it("whose answer stops in its middle ends with its deadline, or with the caller's signal", async () => {
    const stuck: Step = (_, response) => {
      response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
      response.write('{"collections":');
    };
    await using server = await scriptedServer(stuck, stuck);
    const client = createClient({ url: server.url, retries: 0 });
    await expect(client.listCollections({ timeoutMs: 100 })).rejects.toMatchObject({
      details: { reason: "timeout" },
    });
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error("the caller's reason")), 100);
    const { signal } = controller;
    await expect(client.listCollections({ signal })).rejects.toThrow("the caller's reason");
  });

  it("is answered by a server that refuses a large body without reading it", async () => {
    const server = createServer((socket) => {
      socket.on("error", () => {});
      const body = JSON.stringify({ error: { code: "body_too_large", message: "too large", details: {} } });
      socket.once("data", () => {
        socket.pause();
        socket.write(
          `HTTP/1.1 413 Payload Too Large\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`,
        );
        setTimeout(() => socket.end(body), 50);
        setTimeout(() => socket.destroy(), 150);
      });
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const { port } = server.address() as AddressInfo;
    try {
      const client = createClient({ url: `http://127.0.0.1:${port}`, retries: 0 });
      const search = client.collection("c").search.text({ query: "q".repeat(30_000_000) });
      await expect(search).rejects.toMatchObject({ code: "body_too_large", status: 413 });
    } finally {
      server.close();
    }
  });

  it("that may have been done is not repeated elsewhere, and one that the server does not answer ends", async () => {
    const location = "http://127.0.0.1:1/elsewhere";
    const switched: Step = (_, response) => {
      response.writeHead(101, { upgrade: "other", connection: "upgrade" });
      response.end();
    };
    await using server = await scriptedServer(answer(303, undefined, { location }), switched);
    const client = createClient({ url: server.url, retries: 0 });
    await expect(client.createCollection({ name: "c" })).rejects.toMatchObject({ status: 303 });
    await expect(client.listCollections()).rejects.toMatchObject({ details: { reason: "ECONNRESET" } });
    expect(server.received.length).toBe(2);
  });
});
