// A process that is killed while its dense index is written to disk harms neither the index nor what was acknowledged.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { vectorOf } from "../../test/database/kept-vectors.ts";
import { runAndKill } from "../../test/database/killed-process.ts";
import { openDatabase } from "./database.ts";

const kills = 6;
const program = new URL("../../test/database/keeping-process.ts", import.meta.url);

it(`[I5] an index that is written at the moment of a kill is intact or rebuilt: ${kills} kills`, async () => {
  const directory = mkdtempSync(join(tmpdir(), "quiver-keeping-"));
  try {
    const database = await openDatabase({ dataDir: directory });
    await database.createCollection({
      name: "c",
      dense_vector: { enabled: true, dimension: 8 },
      sparse_vector: { enabled: false },
      tf_idf_options: { enabled: false },
      config: {},
    });
    const collection = database.collection("c");
    await collection.createIndex("dense", {
      name: "d",
      distance_metric_type: "euclidean",
      quantization: { type: "scalar", properties: { data_type: "u8", range: { min: -1, max: 1 } } },
      index: { type: "hnsw", properties: { neighbors_count: 6, ef_construction: 32 } },
    });
    const all = Array.from({ length: 3_000 }, (_, i) => i);
    await collection.upsert(all.map((i) => ({ id: `v${i}`, dense_values: vectorOf(i, 0) })));
    await database.close();
    let acknowledged = 0;
    for (let kill = 0; kill < kills; kill++) {
      acknowledged = await runAndKill(program, directory, acknowledged + 1, 300 + 170 * kill);
      const warnings: unknown[] = [];
      const warn = (...words: unknown[]) => void warnings.push(words);
      const after = await openDatabase({
        dataDir: directory,
        log: { info: () => {}, warn, error: warn },
      });
      const kept = after.collection("c");
      await kept.load();
      // The response to the last round may have been cut off.
      const round = Math.max(acknowledged, kept.currentVersion().version_number - 1);
      expect(round - acknowledged).toBeLessThanOrEqual(1);
      acknowledged = round;
      const roundOf = (i: number): number => {
        const part = Math.floor(i / 300);
        const last = round - ((round - part + 10) % 10);
        return last > 0 ? last : 0;
      };
      const { results } = await kept.search("dense", {
        query_vector: vectorOf(0, roundOf(0)),
        exact: true,
        top_k: 3_001,
      });
      expect(results.length).toBe(3_000);
      for (let i = 0; i < 3_000; i += 97) {
        const query_vector = vectorOf(i, roundOf(i));
        expect(kept.get(`v${i}`).toRecord().dense_values).toEqual([...Float32Array.from(query_vector)]);
        for (const exact of [true, false]) {
          const found = await kept.search("dense", { query_vector, exact, top_k: 1 });
          expect(found.results).toMatchObject([{ id: `v${i}`, score: 1 }]);
        }
      }
      const { recall } = await kept.measureRecall({ sample: 20 });
      expect(recall).toBeGreaterThan(0.9);
      await after.close();
      expect(warnings).toEqual([]);
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}, 120_000);
