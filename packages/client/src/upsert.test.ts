import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { answer, fail, hangUp, type Step, scriptedServer } from "../test/scripted-server.ts";
import { createClient, isQuiverError, QuiverError, RawRecord, type RecordInput } from "./client.ts";
import { jsonForm } from "./json-form.ts";
import { upsertInBatches } from "./upsert.ts";

const records = (count: number): RecordInput[] =>
  Array.from({ length: count }, (_, i) => ({ id: `r${i}`, dense_values: [i] }));

const recordsOf = (body: string) => body.split("\n").map((line) => JSON.parse(line) as { id: string });
const idsOf = (body: string): string[] => recordsOf(body).map((record) => record.id);

const ok = answer(200, {});

describe("batches", () => {
  it("keep every record once, in order, within both bounds, for any sizes", async () => {
    const decoder = new TextDecoder();
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ maxLength: 40, unit: "binary" }), { maxLength: 60 }),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 1, max: 400 }),
        fc.integer({ min: 1, max: 4 }),
        async (texts, batchRecords, batchBytes, concurrency) => {
          const given = texts.map((text, i) => ({
            id: String(i),
            text: text.replace(/[\ud800-\udfff]/g, "?"),
          }));
          const sent: unknown[] = [];
          const result = await upsertInBatches(
            given,
            { batchRecords, batchBytes, concurrency },
            jsonForm,
            async ({ body: sentBody }) => {
              const body = sentBody as Uint8Array;
              const vectors = recordsOf(decoder.decode(body));
              expect(vectors.length).toBeLessThanOrEqual(batchRecords);
              if (vectors.length > 1) expect(body.length).toBeLessThanOrEqual(batchBytes);
              sent.push(...vectors);
            },
          );
          expect(sent).toEqual(given);
          expect(result.upserted).toBe(given.length);
        },
      ),
      { numRuns: 200 },
    );
  });

  it("come from a single record, an array, a generator or an asynchronous source", async () => {
    async function* asynchronous() {
      yield* records(3);
    }
    function* generator() {
      yield* records(3);
    }
    const texts = records(3).map((record) => new RawRecord(JSON.stringify(record)));
    await using server = await scriptedServer(ok, ok, ok, ok, ok);
    const collection = createClient({ url: server.url }).collection("c");
    expect(await collection.upsert(records(1)[0])).toEqual({ upserted: 1, requests: 1 });
    for (const source of [records(3), generator(), asynchronous(), texts]) {
      expect(await collection.upsert(source)).toEqual({ upserted: 3, requests: 1 });
    }
    expect(server.received.slice(1).every(({ body }) => idsOf(body).join() === "r0,r1,r2")).toBe(true);
    expect(await collection.upsert([])).toEqual({ upserted: 0, requests: 0 });
  });

  it("send a raw record byte for byte", async () => {
    await using server = await scriptedServer(ok);
    const json = '{"id":"a","dense_values":[1.0],  "metadata":{"n":9007199254740993,"x":1e999,"a":1,"a":2}}';
    await createClient({ url: server.url }).collection("c").upsert(new RawRecord(json));
    expect(server.received[0].body).toBe(json);
    expect(server.received[0].headers["content-type"]).toBe("application/x-ndjson");
  });

  it("[H28] send a raw record of several lines as one line with the same meaning", async () => {
    await using server = await scriptedServer(ok);
    const record = { id: "a\n", metadata: { list: [1, { b: "\\n" }] } };
    const raw = [new RawRecord(JSON.stringify(record, null, 2)), new RawRecord('{"id":\r\n"b"}')];
    await createClient({ url: server.url }).collection("c").upsert(raw);
    expect(recordsOf(server.received[0].body)).toEqual([record, { id: "b" }]);
  });

  it.each([
    ["no JSON", '{"id":"a\nb"}'],
    ["two records", '{"id":"a"}\n{"id":"b"}'],
    ["empty", " \n "],
  ])(
    "refuse a raw record of several lines that is %s, and send nothing of its batch",
    async (_what, json) => {
      await using server = await scriptedServer();
      const call = createClient({ url: server.url })
        .collection("c")
        .upsert([...records(2), new RawRecord(json)]);
      await expect(call).rejects.toMatchObject({ code: "invalid_vector", details: { path: "vectors[2]" } });
      expect(server.received).toHaveLength(0);
    },
  );

  it("keep at most `concurrency` requests in progress", async () => {
    let underWay = 0;
    let most = 0;
    const options = { batchRecords: 1, concurrency: 3 };
    await upsertInBatches(records(20), options, jsonForm, async () => {
      most = Math.max(most, ++underWay);
      await new Promise((resolve) => setTimeout(resolve, 2));
      underWay--;
    });
    expect(most).toBe(3);
  });
});

describe("a failure", () => {
  const invalid: Step = answer(400, {
    error: {
      code: "invalid_vector",
      message: "vectors[17].dense_values has 3 values, the collection's dimension is 4",
      details: { path: "vectors[17].dense_values", dimension: 4 },
    },
  });
  const failureOf = async (promise: Promise<unknown>): Promise<QuiverError> => {
    const error = await promise.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(QuiverError);
    return error as QuiverError;
  };

  it("has positions in the caller's array and the number of acknowledged records", async () => {
    await using server = await scriptedServer(ok, invalid, ok);
    const error = await failureOf(createClient({ url: server.url }).collection("c").upsert(records(3_000)));
    expect(error.code).toBe("invalid_vector");
    expect(error.status).toBe(400);
    expect(error.message).toContain("vectors[1017].dense_values has 3 values");
    expect(error.details).toEqual({ path: "vectors[1017].dense_values", dimension: 4, acknowledged: 1_000 });
    expect(server.received).toHaveLength(2);
  });

  it("names the records whose outcome is unknown", async () => {
    await using server = await scriptedServer(ok, hangUp);
    const call = createClient({ url: server.url }).collection("c").upsert(records(1_500), { retries: 0 });
    const error = await failureOf(call);
    expect(error.code).toBe("connection_failed");
    expect(error.details).toMatchObject({ acknowledged: 1_000, in_doubt: [1_000, 1_500] });
  });

  it("with several requests in progress reports the first one in order, when all have ended", async () => {
    const late: Step = (request, response) => setTimeout(() => invalid(request, response), 60);
    const early: Step = (request, response) =>
      setTimeout(() => fail(400, "max_vectors_exceeded")(request, response), 20);
    const byFirstId: Record<string, Step> = { r0: ok, r20: late, r40: early, r60: ok, r80: ok };
    const step: Step = (request, response) => byFirstId[idsOf(request.body)[0]](request, response);
    await using server = await scriptedServer(step, step, step, step, step);
    const options = { batchRecords: 20, concurrency: 4 };
    const error = await failureOf(
      createClient({ url: server.url }).collection("c").upsert(records(100), options),
    );
    expect(error.details).toMatchObject({ path: "vectors[37].dense_values", acknowledged: 20 });
    expect(server.received.length).toBeLessThanOrEqual(5);
  });

  it("of a number that JSON cannot represent is found before any part of its batch is sent", async () => {
    await using server = await scriptedServer(ok, ok);
    const given = records(30);
    given[25] = { id: "bad", dense_values: new Float32Array([1, Number.NaN]) };
    const error = await failureOf(
      createClient({ url: server.url }).collection("c").upsert(given, { batchRecords: 10 }),
    );
    expect(error).toMatchObject({
      code: "invalid_vector",
      details: { path: "vectors[25].dense_values[1]", acknowledged: 20 },
    });
    expect(isQuiverError(error, "invalid_vector")).toBe(true);
  });

  it("of the caller's own source is thrown as it is", async () => {
    await using server = await scriptedServer(ok);
    function* source() {
      yield* records(1_000);
      yield { id: "last" };
      throw new Error("disk error");
    }
    await expect(createClient({ url: server.url }).collection("c").upsert(source())).rejects.toThrow(
      "disk error",
    );
  });
});
