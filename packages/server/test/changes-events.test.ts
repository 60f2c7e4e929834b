// Do server-sent events give every change once and in order, wherever the stream is cut?

import { afterAll, beforeAll, expect, test } from "vitest";
import { inCluster } from "./nodes.ts";
import { adminKey, expectError, startTestServer, type TestServer } from "./running.ts";

let server: TestServer;
const c = { collection_id: "c" };
const path = "/vectordb/collections/c/changes";

beforeAll(async () => {
  server = await startTestServer();
  await server.makeCollection("c");
  await server.call("patchCollection", c, { config: { history: "all" } });
});
afterAll(() => server.end());

type Event = { id?: string; event?: string; data?: string };

/** The events of a connection, until it is cut after so many characters. */
async function* events(query: string, headers: Record<string, string> = {}, cut = Number.POSITIVE_INFINITY) {
  const stop = new AbortController();
  const response = await fetch(`${server.url}${path}${query}`, {
    headers: { authorization: `Bearer ${adminKey}`, accept: "text/event-stream", ...headers },
    signal: stop.signal,
  });
  expect(response.status, response.ok ? "" : await response.clone().text()).toBe(200);
  expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  let text = "";
  let read = 0;
  try {
    for await (const chunk of (response.body as ReadableStream<Uint8Array>).pipeThrough(
      new TextDecoderStream() as never,
    ) as unknown as AsyncIterable<string>) {
      // What arrives behind the cut is lost, as when a connection breaks.
      text += chunk.slice(0, Math.max(0, cut - read));
      read += chunk.length;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const event: Event = {};
        for (const line of text.slice(0, end).split("\n")) {
          const [, field, value] = /^(\w+): (.*)$/.exec(line) ?? [];
          if (field === "data") event.data = event.data === undefined ? value : `${event.data}\n${value}`;
          else if (field === "id" || field === "event") event[field] = value;
        }
        text = text.slice(end + 2);
        yield event;
      }
      if (read >= cut) return;
    }
  } finally {
    stop.abort();
  }
}

const write = async (id: string, n: number, metadata: object = { n }) => {
  const vectors = [{ id, dense_values: [n, 0, 0, 1], metadata }];
  expect((await server.call("streamingUpsert", c, { vectors })).status).toBe(200);
};
const toldBy = (data: string) => {
  const { version, op, id, vector } = JSON.parse(data);
  return { version, op, id, n: vector?.metadata?.n };
};

/** All changes by pages. */
async function pages(): Promise<{ told: object[]; places: string[] }> {
  const told: object[] = [];
  const places: string[] = [];
  for (let since = "0"; ; ) {
    const { changes, next } = (await server.call("readChanges", c, undefined, `?since=${since}&limit=7`))
      .json;
    if (changes.length === 0) return { told, places };
    for (const { version, op, id, place, vector } of changes) {
      told.push({ version, op, id, n: vector?.metadata.n });
      places.push(place);
    }
    since = next;
  }
}

test("[V13] each change has the place behind it", async () => {
  for (let n = 0; n < 30; n++) {
    await write(`r${n % 7}`, n);
    if (n % 5 === 4)
      expect((await server.call("streamingDelete", { ...c, vector_id: `r${n % 7}` })).status).toBe(204);
  }
  const vectors = Array.from({ length: 10 }, (_, i) => ({
    id: `b${i}`,
    dense_values: [i, 0, 0, 1],
    metadata: { n: i },
  }));
  await server.call("streamingUpsert", c, { vectors });
  const { told, places } = await pages();
  for (const [i, place] of places.entries()) {
    const { changes } = (await server.call("readChanges", c, undefined, `?since=${place}&limit=1`)).json;
    const next = changes[0];
    expect(next && { version: next.version, op: next.op, id: next.id, n: next.vector?.metadata.n }).toEqual(
      told[i + 1],
    );
  }
});

test("[V13] a stream that is cut anywhere, in the middle of an event too, gives every change once and in order", async () => {
  const { told } = await pages();
  const lengths = [1, 40, 180, 333, 1_000, 2_500];
  for (let offset = 0; offset < 8; offset++) {
    const found: object[] = [];
    let lastId: string | undefined;
    for (let i = 0; found.length < told.length; i++) {
      const cut = lengths[(offset + i) % lengths.length] + 17 * offset;
      for await (const event of events(
        "?since=0",
        lastId === undefined ? {} : { "last-event-id": lastId },
        cut,
      )) {
        if (event.data !== undefined) found.push(toldBy(event.data));
        // As an EventSource keeps it: also of an event without data.
        if (event.id !== undefined) lastId = event.id;
        if (found.length === told.length) break;
      }
    }
    expect(found).toEqual(told);
  }
});

test("[V13] what is written while a stream is open arrives, with metadata as it was written", async () => {
  const { version_number } = (await server.call("currentVersion", c)).json;
  const stream = events(`?since=${version_number}`);
  expect((await stream.next()).value).toEqual({});
  const exact = '{"n":9007199254740993,"t":"a\\nb"}';
  const raw = `{"vectors":[{"id":"live","dense_values":[1,2,3,4],"metadata":${exact}}]}`;
  const written = server.ask("/vectordb/collections/c/streaming/upsert", { raw });
  let event: Event = {};
  while (event.event === undefined) event = (await stream.next()).value as Event;
  expect((await written).status).toBe(200);
  expect(event).toMatchObject({ event: "upsert" });
  expect(event.data).toContain(exact);
  await server.call("streamingDelete", { ...c, vector_id: "live" });
  event = {};
  while (event.event === undefined) event = (await stream.next()).value as Event;
  expect(event).toMatchObject({
    event: "delete",
    id: expect.stringMatching(`^${version_number + 1}[.].*1$`),
  });
  await stream.return(undefined);
});

test("[V13] what cannot be read is refused before a stream begins; other answers stay JSON", async () => {
  const ask = (query: string, headers: Record<string, string> = {}) =>
    server.ask(`${path}${query}`, { headers: { accept: "text/event-stream", ...headers } });
  expectError(await ask("?since=99999"), 404, "version_not_found");
  expectError(await ask("?since=x"), 400, "invalid_request");
  expectError(await ask("?since=0", { "last-event-id": "99999" }), 404, "version_not_found");
  expectError(
    await server.ask(`${path}?since=0`, { key: "wrong", headers: { accept: "text/event-stream" } }),
    401,
  );
  const page = await server.ask(`${path}?since=0&limit=1`, { headers: { accept: "*/*" } });
  expect(page.json.changes).toHaveLength(1);
});

test("[V13] a stream ends when its key is revoked", async () => {
  const made = (await server.call("createKey", {}, { name: "k", role: "read" })).json;
  const stream = events("?since=0", { authorization: `Bearer ${made.key}` });
  await stream.next();
  await server.call("revokeKey", { key_id: made.key_id });
  let last: Event = {};
  for await (const event of stream) last = event;
  expect(last.event).toBe("error");
  expect(JSON.parse(last.data as string).error.code).toBe("unauthorized");
});

test.skipIf(inCluster)("[V13] streams do not hold up a stop, and 300 of them hold up nobody", async () => {
  const open = Array.from({ length: 300 }, () => events("?since=0"));
  // All at once would be more work than a busy machine can begin soon, and some would be 503.
  for (let at = 0; at < open.length; at += 25)
    await Promise.all(open.slice(at, at + 25).map((stream) => stream.next()));
  expect((await server.call("getVector", { ...c, vector_id: "b1" })).status).toBe(200);
  const ends = Promise.all(
    open.map(async (stream) => {
      for await (const _ of stream);
    }),
  );
  const begun = performance.now();
  await server.close();
  expect(performance.now() - begun).toBeLessThan(5_000);
  await ends;
});
