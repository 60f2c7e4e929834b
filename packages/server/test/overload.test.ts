// What does the server do when more comes than it can do?

import type { Socket } from "node:net";
import { Deadline } from "@quiver/engine/database/contract";
import { isQuiverError, type QuiverError } from "@quiver/protocol/errors";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Lane } from "../src/admission.ts";
import { expectError, pathOf, rawHead, readAnswer, startTestServer, type TestServer } from "./running.ts";

const soon = (ms = 5) => new Promise((resolve) => setTimeout(resolve, ms));

function refusalOf(act: () => unknown): QuiverError {
  try {
    act();
  } catch (error) {
    if (isQuiverError(error, "overloaded")) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("a lane", () => {
  test("[O1] has as many inside as it may, and their places come back", async () => {
    const lane = new Lane("recall", 1_000);
    const present = Array.from({ length: 18 }, () => lane.arrive());
    expect(refusalOf(() => lane.arrive())).toMatchObject({ status: 503, details: { queue: "recall" } });
    expect(lane.refused).toBe(1);
    present[0]();
    lane.arrive();
  });

  test("[O1] lets the first one in first, as many at a time as may run", async () => {
    const lane = new Lane("search", 1_000);
    const order: number[] = [];
    let [running, most] = [0, 0];
    await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        const leave = await lane.enter(Deadline.none);
        order.push(i);
        most = Math.max(most, ++running);
        await soon(1);
        running--;
        leave();
        leave();
      }),
    );
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    expect(most).toBe(16);
    expect([lane.running, lane.waiting]).toEqual([0, 0]);
  });

  test("[O1] refuses at once when the wait would be too long, and says when to come again", async () => {
    const lane = new Lane("search", 20);
    const inside = await Promise.all(Array.from({ length: 16 }, () => lane.enter(Deadline.none)));
    const waiting = lane.enter(Deadline.none);
    lane.arrive();
    await soon(40);
    const refusal = refusalOf(() => lane.arrive());
    expect(refusal.details.retry_after_seconds).toBe(1);
    expect(refusal.details.waiting).toBe(1);
    inside[0]();
    (await waiting)();
    lane.arrive();
  });

  test("[O3] who waits leaves at the deadline, and nobody loses a place", async () => {
    const lane = new Lane("recall", 1_000);
    const inside = [await lane.enter(Deadline.none), await lane.enter(Deadline.none)];
    const hasty = Promise.resolve(lane.enter(Deadline.of({ timeoutMs: 10 })));
    const patient = lane.enter(Deadline.none);
    await expect(hasty).rejects.toMatchObject({ code: "deadline_exceeded" });
    expect(lane.waiting).toBe(1);
    inside[0]();
    (await patient)();
    inside[1]();
    expect([lane.running, lane.waiting]).toEqual([0, 0]);
  });

  test("[O1] work that never waits leaves the event loop its turns", async () => {
    const lane = new Lane("search", 1_000);
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    await Promise.all(
      Array.from({ length: 100 }, async () => {
        const leave = await lane.enter(Deadline.none);
        const end = performance.now() + 3;
        while (performance.now() < end);
        leave();
      }),
    );
    clearInterval(timer);
    // 300 milliseconds of work in turns of 10; all in one turn would leave the timer none.
    expect(turns).toBeGreaterThan(5);
  });
});

describe("a server", () => {
  const c = { collection_id: "c" };
  const dimension = 64;
  const vectorOf = (seed: number) =>
    Array.from({ length: dimension }, (_, i) => Math.round(Math.sin(seed * 7 + i) * 100) / 100);
  /** Takes far longer than any test. */
  const long = JSON.stringify({
    queries: Array.from({ length: 10_000 }, (_, i) => ({ vector: vectorOf(i % 100) })),
    top_k: 100,
    exact: true,
  });
  const batchPath = pathOf("searchBatchDense", c);
  let server: TestServer;

  const metric = async (name: string) => {
    const text = (await server.ask("/metrics")).text;
    const line = text.split("\n").find((each) => each.startsWith(`${name} `) || each.startsWith(`${name}{`));
    return Number(line?.slice(line.lastIndexOf(" ")));
  };
  const running = () => metric('quiver_requests_running{queue="search"}');

  async function startLong(count: number) {
    const sockets = await Promise.all(Array.from({ length: count }, () => server.connect()));
    for (const socket of sockets) {
      socket.on("error", () => {});
      socket.write(rawHead("POST", batchPath, { "Content-Length": Buffer.byteLength(long) }) + long);
    }
    return sockets;
  }

  beforeAll(async () => {
    server = await startTestServer({ queueWaitMs: 1_000, answerStallMs: 300 });
    await server.makeCollection("c", { dimension });
    for (let from = 0; from < 20_000; from += 2_000) {
      const vectors = Array.from({ length: 2_000 }, (_, i) => ({
        id: `v${from + i}`,
        dense_values: vectorOf(from + i),
      }));
      expect((await server.call("streamingUpsert", c, { vectors })).status).toBe(200);
    }
  });
  afterAll(() => server.end());

  test("[O3] a request says for how long it waits: 504, with what it was given", async () => {
    const answer = await server.ask(batchPath, { raw: long, headers: { "x-quiver-timeout-ms": "300" } });
    const error = expectError(answer, 504, "deadline_exceeded");
    expect(error.details.timeout_ms).toBe(300);
    await expect.poll(running).toBe(0);
    for (const wrong of ["0", "-1", "1.5", "soon", "2147483648", ""]) {
      const refused = await server.ask(pathOf("getCollection", c), {
        headers: { "x-quiver-timeout-ms": wrong },
      });
      expect(expectError(refused, 400, "invalid_request").details.path).toBe("x-quiver-timeout-ms");
    }
  });

  test("[O3] a search that says nothing has the server's default", async () => {
    const hasty = await startTestServer({ requestDeadlineMs: 1 });
    await hasty.makeCollection("c", { dimension });
    const vectors = Array.from({ length: 2_000 }, (_, i) => ({ id: `v${i}`, dense_values: vectorOf(i) }));
    // Only searches have a default.
    expect((await hasty.call("streamingUpsert", c, { vectors })).status).toBe(200);
    expectError(await hasty.ask(batchPath, { raw: long }), 504, "deadline_exceeded");
    const patient = await hasty.ask(pathOf("searchDense", c), {
      body: { query_vector: vectorOf(1) },
      headers: { "x-quiver-timeout-ms": "60000" },
    });
    expect(patient.status).toBe(200);
    await hasty.end();
  });

  test("[O4] a client that hangs up ends its search", async () => {
    const [socket] = await startLong(1);
    await expect.poll(running).toBe(1);
    socket.destroy();
    await expect.poll(running, { timeout: 10_000 }).toBe(0);
    await expect.poll(() => server.log.filter(({ status }) => status === 499).length).toBeGreaterThan(0);
    expect(server.log.filter(({ msg }) => msg === "request failed")).toEqual([]);
  });

  test("[O1] when searches are full, further ones get 503 with Retry-After at once, and all else goes on", async () => {
    const sockets: Socket[] = [];
    // However fast the machine is and however few of them it lets finish: long ones come until one more search is refused.
    const hasty = () =>
      server.ask(pathOf("searchDense", c), {
        body: { query_vector: vectorOf(1) },
        headers: { "x-quiver-timeout-ms": "2000" },
      });
    let refused = await hasty();
    for (const endMs = Date.now() + 90_000; refused.status !== 503 && Date.now() < endMs; ) {
      expect([200, 504]).toContain(refused.status);
      sockets.push(...(await startLong(2)));
      refused = await hasty();
    }
    const error = expectError(refused, 503, "overloaded");
    expect(["search", "event_loop"]).toContain(error.details.queue);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    const write = () =>
      server.call("streamingUpsert", c, { vectors: [{ id: "w", dense_values: vectorOf(1) }] });
    await expect.poll(async () => (await write()).status, { timeout: 60_000 }).toBe(200);
    const read = () => server.call("getVector", { ...c, vector_id: "w" });
    await expect.poll(async () => (await read()).status, { timeout: 60_000 }).toBe(200);
    expect((await server.ask("/health/live")).status).toBe(200);
    expect(await metric('quiver_requests_refused_total{queue="search"}')).toBeGreaterThan(0);
    for (const socket of sockets) socket.destroy();
    await expect.poll(running, { timeout: 60_000 }).toBe(0);
    await expect.poll(async () => (await hasty()).status, { timeout: 60_000 }).toBe(200);
  });

  test("[O7] an answer that nobody reads is given up, and what it held is free", async () => {
    const body = JSON.stringify({
      queries: Array.from({ length: 500 }, (_, i) => ({ vector: vectorOf(i) })),
      top_k: 1_000,
    });
    const socket = await server.connect();
    socket.on("error", () => {});
    socket.pause();
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write(rawHead("POST", batchPath, { "Content-Length": body.length }) + body);
    await expect.poll(() => metric("quiver_answers_bytes"), { timeout: 60_000 }).toBeGreaterThan(10_000_000);
    await expect.poll(() => metric("quiver_answers_bytes"), { timeout: 60_000 }).toBe(0);
    socket.resume();
    await closed;
    expect(server.log.filter(({ status }) => status === 499).length).toBeGreaterThan(1);
  });

  test("[O7] while too many answers are unread, further requests are refused", async () => {
    const small = await startTestServer({ answersInMemoryBytesMax: 20_000 });
    await small.makeCollection("c");
    const text = "x".repeat(15_000_000);
    await small.call("streamingUpsert", c, { vectors: [{ id: "large", text }] });
    const socket = await small.connect();
    socket.pause();
    socket.write(rawHead("GET", pathOf("getVector", { ...c, vector_id: "large" })));
    await expect
      .poll(async () => (await small.call("getVector", { ...c, vector_id: "none" })).status, {
        timeout: 20_000,
      })
      .toBe(503);
    const answer = readAnswer(socket);
    socket.resume();
    expect((await answer)?.status).toBe(200);
    await expect
      .poll(async () => (await small.call("getVector", { ...c, vector_id: "none" })).status)
      .toBe(404);
    socket.destroy();
    await small.end();
  });

  test("[O5] the memory budget's refusal is 507 with figures, and no fault for the log", async () => {
    const small = await startTestServer({ memoryBudgetBytes: 100_000 });
    await small.makeCollection("c");
    const vectors = Array.from({ length: 2_000 }, (_, i) => ({ id: `v${i}`, dense_values: [i, 1, 2, 3] }));
    const error = expectError(
      await small.call("streamingUpsert", c, { vectors }),
      507,
      "memory_budget_exceeded",
    );
    expect(error.details).toMatchObject({ scope: "process", budget_bytes: 100_000 });
    expect((await small.call("getCollection", c)).json.vectors_count).toBe(0);
    expect(small.log.filter(({ msg }) => msg === "request failed")).toEqual([]);
    await small.end();
  });
});
