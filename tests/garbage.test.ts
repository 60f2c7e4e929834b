// Does a server that is searched collect garbage cheaply?
//
// V8 marks the old generation of a heap, in threads of its own and in pauses of some milliseconds, when it has grown by less than the young one may
// be large. With the sizes that V8 chooses itself, that was after every hundred requests, and cost as much as the searches
// (docs/decisions/memory.md). The server sets other sizes; this test counts what V8 tells of its collections.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
