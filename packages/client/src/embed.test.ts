// Batches, retries, concurrency and caches of embeddings, with functions that misbehave on purpose.

import { expect, it } from "vitest";
import { embedWords, wordVector } from "../test/word-embeddings.ts";
import { type Embed, type EmbeddingCache, embedder, memoryCache, QuiverError } from "./client.ts";

/** Without waiting; the delays are noted. */
const quick = () => {
  const delays: number[] = [];
  const sleep = async (ms: number, signal: AbortSignal) => {
    delays.push(ms);
    signal.throwIfAborted();
  };
  return { delays, runtime: { random: () => 1, sleep } };
};

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => (error instanceof QuiverError ? error.code : error),
  );

it("[J1] texts go in batches of limited number and size, and the vectors come in the order of the texts", async () => {
  const batches: string[][] = [];
  const embed = embedder(
    async (texts) => {
      batches.push(texts);
      return embedWords(texts);
    },
    { batchTexts: 3, batchCharacters: 8, concurrency: 1 },
  );
  const texts = ["a", "b", "c", "d", "much longer text", "e", "ffff", "gggg", "h", "a"];
  expect(await embed(texts)).toEqual(texts.map(wordVector));
  expect(batches).toEqual([["a", "b", "c"], ["d"], ["much longer text"], ["e", "ffff"], ["gggg", "h"]]);
  expect(await embed([])).toEqual([]);
});

it("[J1] no more calls are under way than `concurrency`, and a failure ends the others before it is thrown", async () => {
  let underWay = 0;
  let most = 0;
  const embed: Embed = async (texts, { signal } = {}) => {
    most = Math.max(most, ++underWay);
    try {
      await new Promise((resolve) => setImmediate(resolve));
      if (texts[0] === "bad") throw new Error("no");
      if (texts[0] === "slow")
        await new Promise((_, reject) =>
          signal?.addEventListener("abort", () => reject(signal.reason), { once: true }),
        );
      return await embedWords(texts);
    } finally {
      underWay--;
    }
  };
  const parallel = embedder(embed, { batchTexts: 1, concurrency: 3 });
  await parallel(["a", "b", "c", "d", "e", "f", "g"]);
  expect(most).toBe(3);
  await expect(parallel(["slow", "bad", "never"])).rejects.toThrow("no");
  expect(underWay).toBe(0);
});

it("what may pass is repeated after a wait that doubles; what may not is thrown at once", async () => {
  const failures: unknown[] = [
    Object.assign(new Error("busy"), { status: 429 }),
    Object.assign(new Error("down"), { status: 503 }),
    new TypeError("fetch failed", { cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }) }),
    new QuiverError("connection_failed", "no answer"),
  ];
  const { delays, runtime } = quick();
  let calls = 0;
  const retries: number[] = [];
  const embed = embedder(
    async (texts) => {
      const failure = failures[calls++];
      if (failure !== undefined) throw failure;
      return embedWords(texts);
    },
    { runtime, onRetry: ({ retry }) => retries.push(retry) },
  );
  expect(await embed(["a"])).toEqual([wordVector("a")]);
  expect(delays).toEqual([100, 200, 400, 800]);
  expect(retries).toEqual([1, 2, 3, 4]);

  for (const error of [
    Object.assign(new Error("key"), { status: 401 }),
    new TypeError("x is not a function"),
    new QuiverError("embedding_failed", "wrong"),
    "text",
  ]) {
    let tries = 0;
    const once = embedder(
      async () => {
        tries++;
        throw error;
      },
      { runtime },
    );
    await expect(once(["a"])).rejects.toBe(error);
    expect(tries).toBe(1);
  }

  let always = 0;
  const busy = embedder(
    async () => {
      always++;
      throw Object.assign(new Error("busy"), { status: 429 });
    },
    { runtime, retries: 2 },
  );
  await expect(busy(["a"])).rejects.toThrow("busy");
  expect(always).toBe(3);
});

it("[J1] a function that returns anything but a vector for each text is reported", async () => {
  for (const vectors of [[], [[1], [2]], [[]], [undefined], ["vector"], "vectors", undefined])
    expect(await codeOf(embedder(async () => vectors as never)(["a"]))).toBe("embedding_failed");
  expect(await codeOf(embedder(async () => [[1, 2], [1]])(["a", "b"]))).toBe("embedding_failed");
});

it("a call can be cancelled, before, while it waits and while the function runs", async () => {
  const reason = new Error("enough");
  await expect(embedder(embedWords)(["a"], { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  const waiting = new AbortController();
  const busy = embedder(
    async () => {
      throw Object.assign(new Error("busy"), { status: 429 });
    },
    { onRetry: () => waiting.abort(reason) },
  );
  await expect(busy(["a"], { signal: waiting.signal })).rejects.toBe(reason);
  const running = new AbortController();
  const slow = embedder((_, { signal } = {}) => {
    setImmediate(() => running.abort(reason));
    return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(new Error("other"))));
  });
  await expect(slow(["a"], { signal: running.signal })).rejects.toBe(reason);
});

it("a cache is asked for all texts at once, and equal texts are embedded once", async () => {
  const embedded: string[] = [];
  const asked: (readonly string[])[] = [];
  const inner = memoryCache({ textsMax: 3 });
  const cache: EmbeddingCache = {
    get: async (texts) => {
      asked.push(texts);
      return inner.get(texts);
    },
    set: async (entries) => inner.set(entries),
  };
  const embed = embedder(
    async (texts) => {
      embedded.push(...texts);
      return texts.map((text) => [text.length, 0.5]);
    },
    { cache },
  );
  expect(await embed(["a", "bb", "a"])).toEqual([
    [1, 0.5],
    [2, 0.5],
    [1, 0.5],
  ]);
  expect(embedded).toEqual(["a", "bb"]);
  expect(await embed(["a", "ccc"])).toEqual([new Float32Array([1, 0.5]), [3, 0.5]]);
  expect(embedded).toEqual(["a", "bb", "ccc"]);
  expect(asked).toEqual([
    ["a", "bb"],
    ["a", "ccc"],
  ]);
  // The least recently used text makes room.
  await embed(["dddd"]);
  await embed(["bb", "a", "ccc"]);
  expect(embedded).toEqual(["a", "bb", "ccc", "dddd", "bb"]);
});

it("a cached vector is the caller's own", async () => {
  const embed = embedder(async (texts) => texts.map(() => [1, 2]), { cache: memoryCache() });
  await embed(["a"]);
  const [vector] = (await embed(["a"])) as Float32Array[];
  vector[0] = 9;
  expect(await embed(["a"])).toEqual([new Float32Array([1, 2])]);
});

it("[E7] wrong options are refused", () => {
  const codeOfCall = (call: () => unknown) => {
    try {
      call();
    } catch (error) {
      return (error as QuiverError).code;
    }
    return undefined;
  };
  expect(codeOfCall(() => embedder(embedWords, { batchSize: 3 } as never))).toBe("unknown_field");
  for (const options of [
    { batchTexts: 0 },
    { concurrency: 1.5 },
    { retries: -1 },
    { batchCharacters: Number.NaN },
  ])
    expect(codeOfCall(() => embedder(embedWords, options))).toBe("invalid_request");
  expect(codeOfCall(() => memoryCache({ textsMax: 0 }))).toBe("invalid_request");
});
