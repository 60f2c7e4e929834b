// Embeddings of an endpoint, over real HTTP, and of transformers.js.

import { expect, it } from "vitest";
import { answer, hangUp, scriptedServer, silence } from "../test/scripted-server.ts";
import {
  isQuiverError,
  openAiEmbeddings,
  type QuiverError,
  type TransformersModule,
  transformersEmbeddings,
} from "./client.ts";

const failureOf = async (promise: Promise<unknown>): Promise<QuiverError> => {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isQuiverError(error)) throw new Error(`expected a QuiverError, got ${error}`);
  return error;
};

const runtime = { sleep: async () => undefined, random: () => 0 };
const model = "small";

it("an endpoint gets the model, the texts and the key, and its vectors are put into the order of the texts", async () => {
  await using server = await scriptedServer(
    answer(200, {
      data: [
        { index: 1, embedding: [2, 2] },
        { index: 0, embedding: [1, 1] },
      ],
    }),
    answer(200, { data: [{ embedding: [3] }] }),
  );
  const embed = openAiEmbeddings({
    url: `${server.url}/v1/`,
    apiKey: "the-key\n",
    model,
    dimensions: 2,
    headers: { "x-team": "search" },
  });
  expect(await embed(["one", "two"])).toEqual([
    [1, 1],
    [2, 2],
  ]);
  const [{ method, url, headers, body }] = server.received;
  expect([method, url, headers.authorization, headers["x-team"]]).toEqual([
    "POST",
    "/v1/embeddings",
    "Bearer the-key",
    "search",
  ]);
  expect(JSON.parse(body)).toEqual({ model, input: ["one", "two"], encoding_format: "float", dimensions: 2 });
  expect(await openAiEmbeddings({ url: server.url, model })(["three"])).toEqual([[3]]);
  expect(server.received[1].headers.authorization).toBeUndefined();
});

it("an endpoint that is busy, down or gone is asked again, after the pause that it asks for", async () => {
  await using server = await scriptedServer(
    answer(429, { error: { message: "slow down" } }, { "retry-after": "7" }),
    answer(503),
    hangUp,
    answer(200, { data: [{ embedding: [1] }] }),
  );
  const delays: number[] = [];
  const onRetry = ({ delayMs }: { delayMs: number }) => delays.push(delayMs);
  const embed = openAiEmbeddings({ url: server.url, model, runtime, onRetry });
  expect(await embed(["a"])).toEqual([[1]]);
  expect(delays).toEqual([7_000, 0, 0]);
});

it("an endpoint's error is reported with its status and message, and is not repeated where that cannot help", async () => {
  await using server = await scriptedServer(
    answer(401, { error: { message: "no such key" } }),
    answer(404, { error: "model not found" }),
    answer(429, { error: { message: "tomorrow" } }, { "retry-after": "86400" }),
    answer(200, { data: "none" }),
    answer(200, { data: [{ index: 3, embedding: [1] }] }),
    answer(200, { data: [{ embedding: "AACAPw==" }] }),
    answer(200, { data: [] }),
    (_, response) => response.end("<html>"),
  );
  const embed = openAiEmbeddings({ url: server.url, model, runtime });
  const refused = await failureOf(embed(["a"]));
  expect([refused.code, refused.status]).toEqual(["embedding_failed", 401]);
  expect(refused.message).toContain("no such key");
  expect((await failureOf(embed(["a"]))).message).toContain("model not found");
  expect((await failureOf(embed(["a"]))).status).toBe(429);
  for (let i = 0; i < 5; i++) expect((await failureOf(embed(["a"]))).code).toBe("embedding_failed");
  expect(server.received).toHaveLength(8);
});

it("an endpoint that never answers, or is not there, is a failed connection", async () => {
  await using server = await scriptedServer(silence);
  const slow = openAiEmbeddings({ url: server.url, model, timeoutMs: 50, retries: 0 });
  expect((await failureOf(slow(["a"]))).code).toBe("connection_failed");
  const gone = openAiEmbeddings({ url: "http://127.0.0.1:9/v1", model, retries: 0 });
  expect((await failureOf(gone(["a"]))).code).toBe("connection_failed");
  expect(() => openAiEmbeddings({ url: "localhost", model })).toThrow("is not a URL");
});

it("transformers.js is loaded once, with the first text, and its tensor becomes a vector for each text", async () => {
  const loads: unknown[][] = [];
  const calls: unknown[] = [];
  const load = async (): Promise<TransformersModule> => ({
    pipeline: async (...args) => {
      loads.push(args);
      return async (texts: string[], options: unknown) => {
        calls.push(options);
        return { dims: [texts.length, 2], data: new Float32Array(texts.flatMap((text) => [text.length, 1])) };
      };
    },
  });
  const embed = transformersEmbeddings({ model, load, pooling: "cls", pipelineOptions: { dtype: "q8" } });
  expect(loads).toEqual([]);
  expect(await embed(["a", "bb"])).toEqual([new Float32Array([1, 1]), new Float32Array([2, 1])]);
  expect(await embed(["ccc"])).toEqual([new Float32Array([3, 1])]);
  expect(loads).toEqual([["feature-extraction", model, { dtype: "q8" }]]);
  expect(calls[0]).toEqual({ pooling: "cls", normalize: true });
});

it("a model that cannot be loaded is a failed embedding, and is loaded again; a tensor of another shape is reported", async () => {
  let loads = 0;
  const cause = new Error("no network");
  const load = async (): Promise<TransformersModule> => {
    if (++loads === 1) throw cause;
    if (loads === 2) return { pipeline: () => Promise.reject(cause) };
    return { pipeline: async () => async () => ({ dims: [1, 3, 2], data: new Float32Array(6) }) };
  };
  const embed = transformersEmbeddings({ model, load });
  for (let attempt = 0; attempt < 2; attempt++) {
    const error = await failureOf(embed(["a"]));
    expect([error.code, error.details, error.cause]).toEqual(["embedding_failed", { model }, cause]);
    expect(error.message).toContain("no network");
  }
  expect((await failureOf(embed(["a"]))).message).toContain("[1, 3, 2]");
  expect(loads).toBe(3);
});

it("a model whose download broke off is loaded again at once", async () => {
  let loads = 0;
  const pipeline = async () => {
    if (++loads === 1)
      throw new TypeError("fetch failed", {
        cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }),
      });
    return async (texts: string[]) => ({ dims: [texts.length, 1], data: new Float32Array(texts.length) });
  };
  const embed = transformersEmbeddings({ model, load: async () => ({ pipeline }), runtime });
  expect(await embed(["a"])).toEqual([new Float32Array(1)]);
  expect(loads).toBe(2);
});

it("without transformers.js the error says how to install it", async () => {
  const error = await failureOf(transformersEmbeddings({ model })(["a"]));
  expect(error.code).toBe("embedding_failed");
  expect(error.message).toContain("npm install @huggingface/transformers");
});
