// Does a server that is searched collect garbage cheaply?
//
// V8 marks the old generation of a heap, in threads of its own and in pauses of some milliseconds, when it has grown by less than the young one may
// be large. With the sizes that V8 chooses itself, that was after every hundred requests, and cost as much as the searches
// (docs/decisions/memory.md). The server sets other sizes; this test counts what V8 tells of its collections.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { open } from "@quiverdb/database";
import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { ServerProcess } from "./campaigns/server-process.ts";

const records = 2_000;
const dimension = 256;
/** With bodies of 1.5 KB. */
const searches = 6_000;
const connections = 4;
/** Of the whole server while it is searched; with the sizes of V8, it was 51 without serving threads, and 18 with two. */
const markingsMax = 12;

test.each(["0", "2"])(
  "%s serving threads: few collections of the whole heap in 6,000 searches",
  async (threads) => {
    const directory = mkdtempSync(join(tmpdir(), "quiver-garbage-"));
    const server = new ServerProcess(directory, {
      flags: ["--serving-threads", threads, "--log-level", "info"],
      nodeFlags: ["--trace-gc"],
    });
    try {
      const client = await server.client();
      const random = randomNumbers(1);
      const vector = () => Float32Array.from({ length: dimension }, () => random() - 0.5);
      const collection = await client.createCollection({
        name: "c",
        dense_vector: { enabled: true, dimension },
      });
      await collection.createDenseIndex({ distance_metric_type: "cosine" });
      await collection.upsert(
        Array.from({ length: records }, (_, i) => ({ id: `${i}`, dense_values: vector() })),
      );
      await collection.waitForIndex();
      const markings = () => server.output().split("Mark-Compact").length - 1;
      let left = searches;
      const connection = async () => {
        while (left-- > 0) await collection.search.dense({ query_vector: vector(), top_k: 10 });
      };
      const before = markings();
      await Promise.all(Array.from({ length: connections }, connection));
      expect(server.output()).toContain("Scavenge");
      expect(markings() - before).toBeLessThan(markingsMax);
    } finally {
      await server.stop();
      rmSync(directory, { recursive: true, force: true });
    }
  },
  120_000,
);

/**
 * Bytes of a call that may stay until a full collection: 130 to 440 do, mostly tables of maps. When each call made generators of its own
 * (query/search.ts), it was 2,700 to 4,000 of a search, and 1,300 of a count.
 */
const keptMax = 1_000;
const warmUps = 400;
const calls = 1_500;
/** Calls between two collections of the young generation: what is still there at the second is old. */
const callsPerCollection = 50;

test("what a call uses is gone when it ends: nothing waits for a collection of the whole heap", async () => {
  const directory = mkdtempSync(join(tmpdir(), "quiver-garbage-"));
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as (options?: { type: "minor" }) => void;
  const database = await open(directory);
  try {
    const collection = await database.createCollection({
      name: "c",
      dense_vector: { enabled: true, dimension: 16 },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
    });
    await collection.createDenseIndex({ distance_metric_type: "cosine" });
    await collection.createSparseIndex({});
    await collection.createTextIndex({});
    const random = randomNumbers(1);
    const vector = () => Float32Array.from({ length: 16 }, () => random() - 0.5);
    await collection.upsert(
      Array.from({ length: 500 }, (_, i) => ({
        id: `${i}`,
        dense_values: vector(),
        sparse_indices: [i % 7, 7 + (i % 11)],
        sparse_values: [1, 2],
        text: `word${i % 5} all`,
        metadata: { n: i, color: i % 2 === 0 ? "red" : "blue" },
      })),
    );
    await collection.waitForIndex();
    const query_terms = [{ index: 1, value: 1 }];
    const filter = { color: "red" };
    const called: Readonly<Record<string, () => Promise<unknown>>> = {
      dense: () => collection.search.dense({ query_vector: vector() }),
      filtered: () => collection.search.dense({ query_vector: vector(), filter }),
      sparse: () => collection.search.sparse({ query_terms }),
      text: () => collection.search.text({ query: "word1 +all" }),
      hybrid: () =>
        collection.search.hybrid({ query_vector: vector(), query_terms, query_text: "word1 all" }),
      count: () => collection.count(),
      get: () => collection.get("7"),
      fetch: () => collection.fetch({ ids: ["7", "8"] }),
    };
    const kept: Record<string, number> = {};
    for (const [name, call] of Object.entries(called)) {
      for (let i = 0; i < warmUps; i++) await call();
      gc();
      gc();
      const before = getHeapStatistics().used_heap_size;
      for (let i = 0; i < calls; i++) {
        await call();
        if (i % callsPerCollection === 0) gc({ type: "minor" });
      }
      gc({ type: "minor" });
      gc({ type: "minor" });
      kept[name] = Math.round((getHeapStatistics().used_heap_size - before) / calls);
    }
    for (const [name, bytes] of Object.entries(kept)) expect(bytes, name).toBeLessThan(keptMax);
  } finally {
    await database.close();
    rmSync(directory, { recursive: true, force: true });
  }
}, 120_000);
