import { describe, expect, it } from "vitest";
import { answer, fail, hangUp, type Step, scriptedServer, silence } from "../test/scripted-server.ts";
import { type ClientOptions, type Collection, createClient, QuiverError, type RetryEvent } from "./client.ts";

const detail = { name: "c", vectors_count: 0 };

/** A client whose waits take no time and are recorded. */
function patientClient(url: string, options: ClientOptions = {}) {
  const waits: number[] = [];
  let now = 1_700_000_000_000;
  const client = createClient({
    url,
    runtime: {
      now: () => now,
      random: () => 0.5,
      sleep: async (ms) => {
        waits.push(ms);
        now += ms;
      },
    },
    ...options,
  });
  return { client, waits };
}

const errorOf = async (promise: Promise<unknown>): Promise<QuiverError> => {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(QuiverError);
  return error as QuiverError;
};

describe("requests", () => {
  it("carry the key, the extra headers and, with a body, its type", async () => {
    await using server = await scriptedServer(answer(200, { collections: [] }), answer(200, { results: [] }));
    const client = createClient({ url: server.url, apiKey: "secret\n", headers: { "X-Tenant": "t" } });
    await client.listCollections();
    await client.collection("c").search.text({ query: "q" });
    const [list, search] = server.received;
    expect(list).toMatchObject({ method: "GET", url: "/vectordb/collections" });
    expect(list.headers).toMatchObject({ authorization: "Bearer secret", "x-tenant": "t" });
    expect(search.headers["content-type"]).toBe("application/json");
    expect(JSON.parse(search.body)).toEqual({ query: "q" });
  });

  it("percent-encode names and ids and keep the prefix of the url", async () => {
    await using server = await scriptedServer(answer(200, {}), answer(200, []));
    const client = createClient({ url: `${server.url}/db/` });
    await client.collection("bücher & mehr").get("a/b?c#d%e.jpg");
    await client.collection("c").byDocument("x+y z&");
    const [get, byDocument] = server.received;
    expect(get.url).toBe("/db/vectordb/collections/b%C3%BCcher%20%26%20mehr/vectors/a%2Fb%3Fc%23d%25e.jpg");
    expect(new URL(byDocument.url, server.url).searchParams.get("document_id")).toBe("x+y z&");
  });

  it.each(["", ".", "..", "\ud800"])("reject the id %j, which cannot be part of a path", async (id) => {
    await using server = await scriptedServer();
    const error = await errorOf(
      Promise.resolve().then(() => createClient({ url: server.url }).collection("c").get(id)),
    );
    expect(error.code).toBe("invalid_request");
    expect(server.received).toEqual([]);
  });

  it.each(["nonsense", "ftp://host", "http://user:pass@host"])("refuse the url %s at once", (url) => {
    expect(() => createClient({ url })).toThrow(QuiverError);
  });

  it("reject a key that cannot be sent in a header, without repeating it", () => {
    expect(() => createClient({ apiKey: "se\ncret" })).toThrow(/^(?!.*cret)/);
  });
});

describe("errors", () => {
  it("are the server's own, with the status of the answer", async () => {
    const body = {
      error: { code: "collection_not_found", message: "There is no c.", details: { name: "c" } },
    };
    await using server = await scriptedServer(answer(400, body));
    const error = await errorOf(createClient({ url: server.url }).collection("c").load());
    expect(error).toMatchObject({ code: "collection_not_found", status: 400, message: "There is no c." });
    expect(error.details).toEqual({ name: "c" });
  });

  it("[E7] a misspelt option of the client is refused with a suggestion", () => {
    const misspelt = { timeoutMS: 5 } as object;
    expect(() => createClient(misspelt)).toThrow(
      expect.objectContaining({
        code: "unknown_field",
        details: expect.objectContaining({ path: "timeoutMS", suggestion: "timeoutMs" }),
      }),
    );
  });

  it("keep an unknown code of a newer server readable", async () => {
    await using server = await scriptedServer(fail(409, "too_new", "Something new."));
    const error = await errorOf(createClient({ url: server.url }).collection("c").describe());
    expect(error).toMatchObject({ code: "invalid_request", status: 409, message: "Something new." });
    expect(error.details.code).toBe("too_new");
    expect(error.retryable).toBe(false);
  });

  it("report a response of something other than Quiver", async () => {
    const page: Step = (_, response) => {
      response.writeHead(404, { "content-type": "text/html" }).end("<h1>Not Found</h1>");
    };
    const greeting: Step = (_, response) => {
      response.writeHead(200, { "content-type": "text/plain" }).end("hello");
    };
    await using server = await scriptedServer(page, greeting);
    const missing = await errorOf(createClient({ url: server.url }).collection("c").describe());
    expect(missing).toMatchObject({ code: "route_not_found", status: 404 });
    expect(missing.message).toContain("<h1>Not Found</h1>");
    const greeted = await errorOf(createClient({ url: server.url }).collection("c").describe());
    expect(greeted).toMatchObject({ code: "internal", status: 200 });
  });

  it("are connection_failed when nothing listens", async () => {
    const server = await scriptedServer();
    await server[Symbol.asyncDispose]();
    const { client, waits } = patientClient(server.url);
    const error = await errorOf(client.listCollections());
    expect(error).toMatchObject({ code: "connection_failed", status: 0, retryable: true });
    expect(error.details.reason).toBe("ECONNREFUSED");
    expect(waits).toEqual([50, 100, 200, 400]);
    // Even a create request may be repeated: no server has seen it.
    await errorOf(client.createCollection({ name: "c" }));
    expect(waits).toHaveLength(8);
  });

  it("are the signal's reason when the caller aborts", async () => {
    await using server = await scriptedServer(silence);
    const abort = new AbortController();
    const call = createClient({ url: server.url }).listCollections({ signal: abort.signal });
    setTimeout(() => abort.abort(new Error("no longer wanted")), 20);
    await expect(call).rejects.toThrow("no longer wanted");
  });

  it("are connection_failed when the whole call takes longer than timeoutMs", async () => {
    await using server = await scriptedServer(silence);
    const error = await errorOf(createClient({ url: server.url }).listCollections({ timeoutMs: 50 }));
    expect(error).toMatchObject({
      code: "connection_failed",
      details: { reason: "timeout", timeout_ms: 50 },
    });
    expect(server.received).toHaveLength(1);
  });
});

describe("retries", () => {
  it("repeat a read after a broken connection and after refusals", async () => {
    await using server = await scriptedServer(
      hangUp,
      fail(503, "overloaded"),
      fail(429, "rate_limited"),
      answer(200, detail),
    );
    const events: RetryEvent[] = [];
    const { client } = patientClient(server.url, { onRetry: (event) => events.push(event) });
    expect(await client.getCollection("c")).toEqual(detail);
    expect(events.map(({ retry, error }) => [retry, error.code])).toEqual([
      [1, "connection_failed"],
      [2, "overloaded"],
      [3, "rate_limited"],
    ]);
  });

  it("stop after the given number, and at once with retries: 0", async () => {
    await using server = await scriptedServer(hangUp, hangUp, hangUp, hangUp);
    const { client } = patientClient(server.url, { retries: 2 });
    await errorOf(client.listCollections());
    expect(server.received).toHaveLength(3);
    await errorOf(client.listCollections({ retries: 0 }));
    expect(server.received).toHaveLength(4);
  });

  it("do not repeat a request that the server has decided", async () => {
    await using server = await scriptedServer(fail(500, "internal"));
    const { client } = patientClient(server.url);
    await errorOf(client.listCollections());
    expect(server.received).toHaveLength(1);
  });

  it("repeat what a node's log did not take, and an upsert of which that is not known", async () => {
    const unavailable = (applied: string) =>
      answer(503, { error: { code: "log_unavailable", message: "", details: { applied } } });
    const written = answer(200, {});
    await using server = await scriptedServer(
      ...[unavailable("no"), unavailable("unknown"), written],
      ...[unavailable("no"), unavailable("unknown")],
    );
    const { client } = patientClient(server.url);
    await client.collection("c").upsert({ id: "a" });
    expect(server.received).toHaveLength(3);
    const made = client.request("createCollection", { body: {} });
    expect((await errorOf(made)).details).toEqual({ applied: "unknown" });
    expect(server.received).toHaveLength(5);
  });

  it("wait as long as Retry-After asks, in seconds or as a date", async () => {
    const date = new Date(1_700_000_000_000 + 7_000 + 3_000).toUTCString();
    await using server = await scriptedServer(
      fail(503, "not_ready", "", { "retry-after": "7" }),
      fail(503, "not_ready", "", { "retry-after": date }),
      answer(200, { collections: [] }),
    );
    const { client, waits } = patientClient(server.url);
    await client.listCollections();
    expect(waits).toEqual([7_000, 3_000]);
  });

  it("give up at once when Retry-After is beyond the deadline", async () => {
    await using server = await scriptedServer(fail(503, "not_ready", "", { "retry-after": "120" }));
    const { client, waits } = patientClient(server.url);
    expect((await errorOf(client.listCollections())).code).toBe("not_ready");
    expect(waits).toEqual([]);
  });

  it("continue for retryForMs if that is given", async () => {
    const server = await scriptedServer();
    await server[Symbol.asyncDispose]();
    const { client, waits } = patientClient(server.url, { retryForMs: 10_000 });
    await errorOf(client.listCollections());
    const waited = waits.reduce((sum, ms) => sum + ms, 0);
    expect(waits.length).toBeGreaterThan(5);
    expect(waited).toBeLessThanOrEqual(10_000);
    expect(waited).toBeGreaterThan(7_000);
  });

  it.each([
    ["createCollection", "/vectordb/collections"],
    ["createDenseIndex", "/vectordb/collections/c/indexes/dense"],
    ["createTransaction", "/vectordb/collections/c/transactions"],
  ] as const)("do not repeat %s after a lost response, but do after a refusal", async (route, path) => {
    const created = answer(200, { transaction_id: "t", created_at: "" });
    await using server = await scriptedServer(hangUp, fail(503, "not_ready"), created);
    const { client } = patientClient(server.url);
    const params = { collection_id: "c" };
    expect((await errorOf(client.request(route, { params, body: {} }))).code).toBe("connection_failed");
    expect(server.received).toHaveLength(1);
    await client.request(route, { params, body: {} });
    expect(server.received.map(({ url }) => url)).toEqual([path, path, path]);
  });

  it.each([
    ["delete", fail(404, "vector_not_found"), (c: Clients) => c.collection.delete("a")],
    ["delete in a transaction", fail(400, "vector_not_found"), (c: Clients) => c.transaction.delete("a")],
    ["drop", fail(400, "collection_not_found"), (c: Clients) => c.collection.drop()],
    ["deleteIndex", fail(404, "index_not_found"), (c: Clients) => c.collection.deleteIndex("dense")],
  ])(
    "treat 'not found' after a lost response of %s as success, and otherwise as an error",
    async (_, notFound, act) => {
      await using server = await scriptedServer(hangUp, notFound, notFound);
      const { client } = patientClient(server.url);
      const collection = client.collection("c");
      const clients = { collection, transaction: collection.resumeTransaction("t") };
      await act(clients);
      expect(server.received).toHaveLength(2);
      expect((await errorOf(act(clients))).code).toMatch(/_not_found$/);
    },
  );

  it("do not mistake a missing collection for a deleted record", async () => {
    await using server = await scriptedServer(hangUp, fail(404, "collection_not_found"));
    const { client } = patientClient(server.url);
    expect((await errorOf(client.collection("c").delete("a"))).code).toBe("collection_not_found");
  });
});

type Clients = {
  collection: Collection;
  transaction: { delete(id: string): Promise<void> };
};

describe("a commit whose response was lost", () => {
  const notOpen = fail(400, "transaction_not_open");
  const status = (state: Record<string, unknown>) => answer(200, { status: state });

  it("has succeeded when the transaction is complete", async () => {
    await using server = await scriptedServer(hangUp, notOpen, status({ Complete: {} }));
    const { client } = patientClient(server.url);
    await client.collection("c").resumeTransaction("t").commit();
    expect(server.received.map(({ url }) => url.split("/").at(-1))).toEqual(["commit", "commit", "status"]);
  });

  it("has failed when the transaction was aborted", async () => {
    await using server = await scriptedServer(hangUp, notOpen, status({ Aborted: { aborted_at: "" } }));
    const { client } = patientClient(server.url);
    const error = await errorOf(client.collection("c").resumeTransaction("t").commit());
    expect(error.code).toBe("transaction_not_open");
    expect(error.message).toContain("Aborted");
  });

  it("is remembered when the caller commits again", async () => {
    await using server = await scriptedServer(hangUp, notOpen, status({ InProgress: {} }));
    const { client } = patientClient(server.url, { retries: 0 });
    const transaction = client.collection("c").resumeTransaction("t");
    expect((await errorOf(transaction.commit())).code).toBe("connection_failed");
    await transaction.commit();
  });

  it("is not checked when no response was lost", async () => {
    await using server = await scriptedServer(notOpen);
    const { client } = patientClient(server.url);
    const error = await errorOf(client.collection("c").resumeTransaction("t").commit());
    expect(error.code).toBe("transaction_not_open");
    expect(server.received).toHaveLength(1);
  });
});

describe("await using", () => {
  const created = answer(200, { transaction_id: "t", created_at: "2026-01-01T00:00:00.000Z" });

  it("aborts a transaction that was not committed, also when something throws", async () => {
    await using server = await scriptedServer(created, answer(204));
    const use = async () => {
      await using transaction = await createClient({ url: server.url }).collection("c").transaction();
      expect(transaction.id).toBe("t");
      throw new Error("midway");
    };
    await expect(use()).rejects.toThrow("midway");
    expect(server.received.at(-1)?.url).toMatch(/\/t\/abort$/);
  });

  it("leaves a committed transaction alone", async () => {
    await using server = await scriptedServer(created, answer(204));
    {
      await using transaction = await createClient({ url: server.url }).collection("c").transaction();
      await transaction.commit();
    }
    expect(server.received).toHaveLength(2);
  });

  it("does not hide the error that ended the block when the server is unreachable", async () => {
    await using server = await scriptedServer(created, hangUp, hangUp);
    const use = async () => {
      await using _ = await createClient({ url: server.url }).collection("c").transaction();
      throw new Error("midway");
    };
    await expect(use()).rejects.toThrow("midway");
  });
});
