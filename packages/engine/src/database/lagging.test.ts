// What does a search answer that needs an index which lags behind what was acknowledged?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isQuiverError } from "@quiverdb/protocol/errors";
import { expect, test } from "vitest";
import { openDatabase } from "./database.ts";

const records = 2_000;
const texts = Array.from({ length: records }, (_, i) => ({
  id: `r${i}`,
  text: `common ${Array.from({ length: 40 }, (_, j) => `word${40 * i + j}`).join(" ")}`,
}));

test("[I7] a search that has waited long enough for an index is told so, and never gets less than was acknowledged", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "quiver-lagging-"));
  const database = await openDatabase({ dataDir, indexWaitMs: 1 });
  try {
    await database.createCollection({
      name: "c",
      dense_vector: { enabled: true, dimension: 2 },
      tf_idf_options: { enabled: true },
      config: {},
    });
    const collection = database.collection("c");
    await collection.createIndex("dense", { distance_metric_type: "dot_product" });
    await collection.upsert([{ id: "d", dense_values: [1, 0] }]);
    await collection.upsert(texts);
    await collection.createIndex("tf-idf", {});
    const refusals: Record<string, unknown>[] = [];
    for (;;) {
      try {
        const { results } = await collection.search("text", { query: "common", top_k: records });
        expect(results).toHaveLength(records);
        break;
      } catch (error) {
        if (!isQuiverError(error, "not_ready")) throw error;
        refusals.push(error.details);
      }
      await sleep(20);
      // The other indexes serve meanwhile.
      const { results } = await collection.search("dense", { query_vector: [1, 0], top_k: 1 });
      expect(results[0].id).toBe("d");
    }
    expect(refusals.length).toBeGreaterThan(0);
    for (const { index_types, progress, retry_after_seconds } of refusals) {
      expect(index_types).toEqual(["tf-idf"]);
      expect(progress).toBeGreaterThanOrEqual(0);
      expect(progress).toBeLessThanOrEqual(1);
      expect(retry_after_seconds).toBeGreaterThan(0);
    }
  } finally {
    await database.close();
    rmSync(dataDir, { recursive: true });
  }
});
