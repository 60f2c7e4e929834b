// How does the server handle overload?

import { Deadline } from "@quiverdb/engine/database/contract";
import type { WorkKind } from "@quiverdb/engine/operations/operation";
import { isQuiverError, type QuiverError } from "@quiverdb/protocol/errors";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Admission, Queue } from "../src/admission.ts";
import { FairShare } from "../src/fair-share.ts";
import { expectError, pathOf, rawHead, readAnswer, startTestServer, type TestServer } from "./running.ts";

function refusalOf(act: () => unknown): QuiverError {
  try {
    act();
  } catch (error) {
    if (isQuiverError(error, "overloaded")) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

/** A request of a key, with its own deadline. */
function arrivalOf(key: string, timeoutMs?: number, kind: WorkKind = "search") {
  return { kind, key, deadline: Deadline.of({ timeoutMs, account: { key } }) };
}

describe("a share of what all keys may hold", () => {
  test("[O11] a key holds at most twice as much as remains free, so that something always remains for the next", () => {
    const share = new FairShare(90);
    const taken = (key: string) => {
      let count = 0;
      while (share.take(key)) count++;
      return count;
    };
    expect(taken("a")).toBe(60);
    expect(taken("b")).toBe(20);
    for (const key of ["c", "d", "e"]) expect(taken(key)).toBeGreaterThan(0);
    share.giveBack("a", 60);
    expect(share.heldBy("a")).toBe(0);
    expect(taken("b")).toBeGreaterThan(0);
  });

  test("[O11] the first may always take what it needs, and a key's own limit applies whatever is free", () => {
    const share = new FairShare(10, 2);
    expect(share.take("large", 1_000)).toBe(true);
    expect(share.take("other")).toBe(false);
    share.giveBack("large", 1_000);
    expect([share.take("a"), share.take("a"), share.take("a")]).toEqual([true, true, false]);
    expect(share.take("b")).toBe(true);
  });
});

describe("admission", () => {
  const noAnswers = new FairShare(1_000);
  const admissionOf = (waitMs = 1_000, keyRequestsMax = 2_048, answers = noAnswers) =>
    new Admission(waitMs, keyRequestsMax, answers);

  test("[O1] a key has a limit of requests in progress, independent of other keys, and slots are released", () => {
    const admission = admissionOf(1_000, 3);
    const works = Array.from({ length: 3 }, () => admission.arrive(arrivalOf("a")));
    expect(refusalOf(() => admission.arrive(arrivalOf("a"))).details).toMatchObject({
      queue: "requests",
      held: 3,
    });
    expect(admission.refused).toBe(1);
    admission.arrive(arrivalOf("b"));
    works[0].left();
    works[0].left();
    admission.arrive(arrivalOf("a"));
    expect(admission.present.taken).toBe(4);
  });

  test("[O10] while one key takes its maximum of places, another one finds one", async () => {
    const admission = admissionOf();
    const { search } = admission.queues;
    const tyrants = Array.from({ length: 100 }, () => admission.arrive(arrivalOf("tyrant")));
    const begun = tyrants.map((work) => work.begin());
    await Promise.race(begun);
    await expect.poll(() => search.waiting).toBe(100 - 64);
    expect(search.running).toBe(64);
    await admission.arrive(arrivalOf("calm")).begin();
    expect(search.running).toBe(65);
    for (const work of tyrants) work.left();
    await Promise.all(begun);
    await expect.poll(() => [search.running, search.waiting]).toEqual([1, 0]);
  });

  test("[O10] large requests wait for separate places, and small ones of the same key do not wait for them", async () => {
    const admission = admissionOf(60_000);
    const large = Array.from({ length: 20 }, () => admission.arrive(arrivalOf("a")));
    for (const work of large) work.task.expect(10_000);
    const begun = large.map((work) => work.begin());
    await expect.poll(() => admission.queues.large.running).toBe(8);
    await expect.poll(() => admission.queues.large.waiting).toBe(12);
    await admission.arrive(arrivalOf("a")).begin();
    // One that turns out to be large releases its first place and waits for another.
    const late = admission.arrive(arrivalOf("a"));
    await late.begin();
    const grown = late.expect(10_000);
    expect(admission.queues.large.waiting).toBe(13);
    for (const work of large) work.left();
    await Promise.all(begun);
    await grown;
    expect(admission.queues.search.running).toBe(1);
    late.end();
    await expect.poll(() => admission.queues.large.running).toBe(0);
  });

  test("[O1] of one key the smallest request starts first", async () => {
    const admission = admissionOf();
    const holding = Array.from({ length: 2 }, () => admission.arrive(arrivalOf("a", undefined, "recall")));
    for (const work of holding) await work.begin();
    const order: string[] = [];
    const waiting = ["large", "small"].map(async (name) => {
      const work = admission.arrive(arrivalOf("a", undefined, "recall"));
      if (name === "large") work.task.expect(15);
      await work.begin();
      order.push(name);
      work.left();
    });
    holding[0].left();
    await Promise.all(waiting);
    expect(order).toEqual(["small", "large"]);
  });

  test("[O1] no request waits longer than the queue's maximum without a rejection, which has Retry-After", async () => {
    let nowMs = 0;
    const queue = new Queue("recall", 2_000, 1, () => nowMs);
    const admission = admissionOf();
    const workOf = () => admission.arrive(arrivalOf("a", undefined, "recall"));
    await queue.enter(workOf());
    await queue.enter(workOf());
    const waiting = queue.enter(workOf());
    nowMs = 2_000;
    queue.look();
    expect(queue.waiting).toBe(1);
    nowMs = 2_001;
    queue.look();
    const refused = await waiting.catch((error: unknown) => error as QuiverError);
    expect(refused).toMatchObject({
      code: "overloaded",
      details: { queue: "recall", wait_ms: 2_001, retry_after_seconds: 3 },
    });
    expect([queue.waiting, queue.running, queue.refused]).toEqual([0, 2, 1]);
  });

  test("[O1] a request that would wait too long at the recent rate is rejected on arrival", async () => {
    let nowMs = 0;
    const queue = new Queue("recall", 2_000, 1, () => nowMs);
    const admission = admissionOf();
    const entered: Promise<void>[] = [];
    for (let i = 0; i < 40; i++) entered.push(queue.enter(admission.arrive(arrivalOf("a"))));
    queue.assertSoon("a");
    for (let i = 0; i < 12; i++) {
      await expect.poll(() => queue.running).toBe(2);
      await Promise.all(entered.slice(0, i + 2));
      nowMs += 100;
      queue.leave("a");
      await entered[i + 2];
    }
    // 26 requests wait, and one starts every 100 ms.
    const refusal = refusalOf(() => queue.assertSoon("a"));
    expect(refusal.details.wait_ms).toBeGreaterThan(2_000);
    queue.assertSoon("b");
  });

  test("[O3] a waiting request leaves at its deadline, and no place is lost", async () => {
    const admission = admissionOf();
    const workOf = (timeoutMs?: number) => admission.arrive(arrivalOf("a", timeoutMs, "recall"));
    const inside = [workOf(), workOf()];
    for (const work of inside) await work.begin();
    const hasty = workOf(10).begin();
    const patient = workOf();
    const begun = patient.begin();
    await expect(hasty).rejects.toMatchObject({ code: "deadline_exceeded" });
    expect(admission.queues.recall.waiting).toBe(1);
    inside[0].left();
    await begun;
    inside[1].left();
    patient.left();
    expect([admission.queues.recall.running, admission.queues.recall.waiting]).toEqual([0, 0]);
  });

  test("[O11] a key with too many unread responses gets no more; others do", () => {
    const answers = new FairShare(1_000);
    const admission = admissionOf(1_000, 100, answers);
    answers.force("stalled", 2_000);
    expect(refusalOf(() => admission.arrive(arrivalOf("stalled"))).details.queue).toBe("answers");
    admission.arrive(arrivalOf("calm"));
  });

  test("a held place is released by its holder, or when the request is over", async () => {
    const admission = admissionOf();
    const work = admission.arrive(arrivalOf("a", undefined, "export"));
    await work.begin();
    const end = work.hold();
    work.end();
    expect(admission.queues.export.running).toBe(1);
    end();
    end();
    expect(admission.queues.export.running).toBe(0);
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
  const running = () => metric('quiver_requests_running{queue="large"}');

  async function startLong(count: number) {
    const sockets = await Promise.all(Array.from({ length: count }, () => server.connect()));
    for (const socket of sockets) {
      // A test that fails before its own end must not leave searches that the next test meets.
      onTestFinished(() => void socket.destroy());
      socket.on("error", () => {});
      socket.write(rawHead("POST", batchPath, { "Content-Length": Buffer.byteLength(long) }) + long);
    }
    return sockets;
  }

  /** A server with a collection of 2,000 records. */
  async function startFilled(config: Parameters<typeof startTestServer>[0]) {
    const filled = await startTestServer(config);
    await filled.makeCollection("c", { dimension });
    const vectors = Array.from({ length: 2_000 }, (_, i) => ({ id: `v${i}`, dense_values: vectorOf(i) }));
    for (let from = 0; from < 2_000; from += 200)
      await filled.call("streamingUpsert", c, { vectors: vectors.slice(from, from + 200) });
    return filled;
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

  test("[O3] a request can set its timeout: 504, with the given time", async () => {
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

  test("[O3] a search without a timeout has the server's default", async () => {
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

  test("[O4] a client that disconnects stops its search", async () => {
    const [socket] = await startLong(1);
    await expect.poll(running).toBe(1);
    socket.destroy();
    await expect.poll(running, { timeout: 10_000 }).toBe(0);
    await expect.poll(() => server.log.filter(({ status }) => status === 499).length).toBeGreaterThan(0);
    expect(server.log.filter(({ msg }) => msg === "request failed")).toEqual([]);
  });

  test("[O3] a client's timeout is limited by the server's maximum", async () => {
    const strict = await startFilled({ requestDeadlineMaxMs: 300 });
    const answer = await strict.ask(batchPath, {
      raw: long,
      headers: { "x-quiver-timeout-ms": "2147483647" },
    });
    expect(expectError(answer, 504, "deadline_exceeded").details.timeout_ms).toBe(300);
    await strict.end();
  });

  test("[O3] a request that exceeds the limit of work is stopped, and others are served", async () => {
    const strict = await startFilled({ requestWorkMaxMs: 100 });
    const answer = await strict.ask(batchPath, { raw: long });
    expect(expectError(answer, 504, "deadline_exceeded").details.work_ms).toBe(100);
    // Work is measured by the time of slices, so a machine that stops for a tenth of a second can stop a small search, too.
    const small = { body: { query_vector: vectorOf(1) } };
    await expect.poll(async () => (await strict.ask(pathOf("searchDense", c), small)).status).toBe(200);
    await strict.end();
  });

  test("[O1] [O10] a key beyond its limits is rejected with Retry-After, while another is served", async () => {
    const readerKey = (await server.call("createKey", {}, { name: "calm", role: "read" })).json.key;
    const sockets = await startLong(16);
    // Eight are executed; the others are refused when they have waited for a second. Bodies of this size are
    // parsed one after another, so eight can run, and none wait, before the last has been read.
    const refusals = () => metric('quiver_requests_refused_total{queue="large"}');
    await expect.poll(refusals, { timeout: 20_000 }).toBe(8);
    expect(await running()).toBe(8);
    const refused = await server.ask(batchPath, { raw: long });
    expect(expectError(refused, 503, "overloaded").details.queue).toBe("large");
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    for (let i = 0; i < 20; i++) {
      const body = { query_vector: vectorOf(i) };
      expect((await server.ask(pathOf("searchDense", c), { body, key: readerKey })).status).toBe(200);
      // Small work of the same key precedes its large work, too.
      expect((await server.ask(pathOf("searchDense", c), { body })).status).toBe(200);
    }
    const write = { vectors: [{ id: "w", dense_values: vectorOf(1) }] };
    expect((await server.call("streamingUpsert", c, write)).status).toBe(200);
    expect((await server.call("getVector", { ...c, vector_id: "w" })).status).toBe(200);
    expect((await server.ask("/health/live")).status).toBe(200);
    expect(await running()).toBe(8);
    expect(await metric('quiver_queue_wait_seconds_count{queue="large"}')).toBeGreaterThanOrEqual(16);
    for (const socket of sockets) socket.destroy();
    await expect.poll(running, { timeout: 20_000 }).toBe(0);
  });

  test("[O10] a weight is set with a key, shown with it, and stored", async () => {
    const made = await server.call("createKey", {}, { name: "heavy", role: "read", weight: 5 });
    expect(made.json.weight).toBe(5);
    const listed = (await server.call("listKeys")).json.keys as { key_id: string; weight: number }[];
    expect(listed.find(({ key_id }) => key_id === made.json.key_id)?.weight).toBe(5);
    for (const weight of [0, 101, 1.5, "2"]) {
      const refused = await server.call("createKey", {}, { name: "x", role: "read", weight });
      expect(expectError(refused, 400, "invalid_request").details.path).toBe("weight");
    }
  });

  test("[O12] a large answer, and a large body, are the same as small ones", async () => {
    const queries = Array.from({ length: 100 }, (_, i) => ({ vector: vectorOf(i) }));
    const all = await server.ask(batchPath, { body: { queries, top_k: 200 } });
    expect(all.text.length).toBeGreaterThan(500_000);
    expect(Number(all.headers.get("content-length"))).toBe(Buffer.byteLength(all.text));
    for (const i of [0, 57, 99]) {
      const alone = await server.ask(pathOf("searchDense", c), {
        body: { query_vector: queries[i].vector, top_k: 200 },
      });
      expect(all.json[i]).toEqual(alone.json);
    }
  });

  test("[O7] an unread response is aborted, and its memory is released", async () => {
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

  test("[O7] while too many responses are unread, further requests are rejected", async () => {
    const small = await startTestServer({ answersInMemoryBytesMax: 20_000 });
    await small.makeCollection("c");
    const text = "x".repeat(3_900_000);
    const vectors = Array.from({ length: 4 }, (_, i) => ({ id: `v${i}`, document_id: "large", text }));
    await small.call("streamingUpsert", c, { vectors });
    const socket = await small.connect();
    socket.pause();
    socket.write(rawHead("GET", `${pathOf("vectorsByDocument", c)}?document_id=large`));
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

  test("[O5] a rejection by the memory budget is 507 with figures, and not logged as a fault", async () => {
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
