// A process that is killed at a random moment loses nothing that it acknowledged, and leaves nothing half done.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runAndKill } from "../../test/database/killed-process.ts";
import { openDatabase } from "./database.ts";

const kills = 8;
const program = new URL("../../test/database/writing-process.ts", import.meta.url);

it(`[I3] a version is one atomic durable write: ${kills} kills lose nothing acknowledged and leave nothing half done`, async () => {
  const directory = mkdtempSync(join(tmpdir(), "quiver-kill-"));
  try {
    const database = await openDatabase({ dataDir: directory });
    await database.createCollection({
      name: "c",
      dense_vector: { enabled: true, dimension: 2 },
      sparse_vector: { enabled: false },
      tf_idf_options: { enabled: true },
      config: {},
      store_raw_text: true,
    });
    await database
      .collection("c")
      .createIndex("tf-idf", { name: "t", sample_threshold: 1, k1: 1, b: 0, language: "none" });
    await database.close();
    let acknowledged = 0;
    for (let kill = 0; kill < kills; kill++) {
      acknowledged = await runAndKill(program, directory, acknowledged + 1, 20 + 37 * kill);
      const after = await openDatabase({ dataDir: directory });
      const collection = after.collection("c");
      const rounds = new Set<number>();
      for (const vector of collection.exportVectors()) {
        const { dense_values, text } = vector.toRecord();
        expect(text).toBe(`round${dense_values?.[0]}`);
        rounds.add(dense_values?.[0] as number);
      }
      // One complete round: the last acknowledged one, or the next one, whose response the kill cut off.
      expect(rounds.size).toBe(1);
      const [round] = rounds;
      expect([acknowledged, acknowledged + 1]).toContain(round);
      expect((await collection.describe()).vectors_count).toBe(200);
      expect(await collection.byDocument("d3")).toHaveLength(20);
      expect(collection.currentVersion().version_number).toBe(round);
      const { results } = await collection.search("text", { query: `round${round}`, top_k: 300 });
      expect(results).toHaveLength(200);
      acknowledged = round;
      await after.close();
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
