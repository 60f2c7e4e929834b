// Inverted indexes are built, merged and written to disk while records change and searches run: every result is exact.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openDatabase } from "./database.ts";

/** Records that stay as they are, and others that change with each round. */
const fixed = 9_000;
const changing = 2_500;
const rounds = 5;

it("[I2] [I4] searches are exact while inverted indexes are built, merged and checkpointed, and records change", async () => {
  const directory = mkdtempSync(join(tmpdir(), "quiver-building-"));
  const warnings: string[] = [];
  const warn = (_: unknown, message: string) => void warnings.push(message);
  const database = await openDatabase({ dataDir: directory, log: { info: () => {}, warn, error: warn } });
  try {
    await database.createCollection({
      name: "c",
      dense_vector: { enabled: false },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
      config: {},
    });
    const collection = database.collection("c");
    await collection.upsert(
      Array.from({ length: fixed }, (_, i) => ({
        id: `f${i}`,
        text: `common fixed${i} tenth${i % 10}`,
        sparse_values: [
          [0, 1],
          [1 + i, 2],
        ] as [number, number][],
      })),
    );
    /** The changing records of a round: all of them, or all but the last ones. */
    const countOf = (round: number) => changing - 5 * round;
    const replace = async (round: number) => {
      // One transaction makes one version of it all.
      const { transaction_id } = await collection.beginTransaction();
      const transaction = collection.transaction(transaction_id);
      for (let first = 0; first < countOf(round); first += 1_000)
        await transaction.upsert(
          Array.from({ length: Math.min(1_000, countOf(round) - first) }, (_, i) => ({
            id: `c${first + i}`,
            text: `common changing round${round}`,
            sparse_values: [
              [0, 1],
              [100_000 + round, 1 + first + i],
            ] as [number, number][],
          })),
        );
      if (round > 0)
        for (let i = countOf(round); i < countOf(round - 1); i++) await transaction.delete(`c${i}`);
      await transaction.commit();
    };
    await replace(0);
    // Both are built from existing records during the first rounds.
    const { version_number: versionBefore } = collection.currentVersion();
    const building = Promise.all([
      collection.createIndex("sparse", { name: "s", quantization: 64, sample_threshold: 100 }),
      collection.createIndex("tf-idf", { name: "t", sample_threshold: 1, k1: 1.2, b: 0.75, positions: true }),
    ]);
    let isOver = false;
    let searches = 0;
    let hasFailed = false;
    const writing = (async () => {
      await building;
      for (let round = 1; round < rounds; round++) {
        await replace(round);
        // Some searches of each round, however busy the machine is.
        for (let i = 0; !hasFailed && (i < 10 || searches < 4 * round); i++)
          await new Promise((resolve) => setTimeout(resolve, 5));
        // The indexes are unloaded and loaded again in between.
        if (round % 2 === 0) await collection.unload();
      }
    })().finally(() => {
      isOver = true;
    });
    const searching = (async () => {
      await building;
      for (let i = 0; !isOver; i += 37) {
        const record = i % fixed;
        const [own, tenth, rest] = await Promise.all([
          collection.search("text", { query: `fixed${record}` }),
          collection.search("text", {
            query: `fixed${record} tenth${record % 10}`,
            top_k: 20,
            explain: true,
          }),
          collection.search("text", { query: "changing", top_k: 1, explain: true }),
        ]);
        expect(own.results.map(({ id }) => id)).toEqual([`f${record}`]);
        expect(tenth.results[0].id).toBe(`f${record}`);
        expect(tenth.results[0].explanation?.["tf-idf"]?.matches.map(({ df }) => df)).toEqual([
          1,
          fixed / 10,
        ]);
        // All records of one round and none of another; df and N are those of that version, so equal texts have equal scores.
        const [match] = rest.results[0].explanation?.["tf-idf"]?.matches ?? [];
        const count = match.df;
        const round = (changing - count) / 5;
        expect(Number.isInteger(round) && round >= 0 && round < rounds).toBe(true);
        const idf = Math.log(1 + (fixed + count - count + 0.5) / (count + 0.5));
        expect(match.idf).toBe(idf);
        const bySparse = await collection.search("sparse", { query_terms: [[1 + record, 3]] });
        expect(bySparse.results.map(({ id, score }) => [id, score])).toEqual([[`f${record}`, 6]]);
        searches += 4;
        // A search that does not have to wait does not yield.
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    })();
    searching.catch(() => {
      hasFailed = true;
    });
    await Promise.all([writing, searching]);
    expect(versionBefore).toBeGreaterThan(0);
    expect(searches).toBeGreaterThanOrEqual(4 * (rounds - 1));
    await collection.load();
    const last = rounds - 1;
    const { results } = await collection.search("text", {
      query: `"changing round${last}"`,
      syntax: "operators",
      top_k: 4_000,
    });
    expect(results.length).toBe(countOf(last));
    const best = await collection.search("sparse", { query_terms: [[100_000 + last, 1]], top_k: 3 });
    expect(best.results.map(({ score }) => score)).toEqual([0, 1, 2].map((i) => countOf(last) - i));
    expect((await collection.search("sparse", { query_terms: [[100_000, 1]] })).results).toEqual([]);
    expect(warnings).toEqual([]);
  } finally {
    await database.close();
    rmSync(directory, { recursive: true, force: true });
  }
}, 120_000);
