// Is a checkpoint that was deleted on purpose silent, while one that cannot be read or written is still reported?

import { mkdtempSync, readdirSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomNumbers } from "@quiverdb/kernels/random";
import { isQuiverError } from "@quiverdb/protocol/errors";
import { expect, test } from "vitest";
import type { DatabaseLog } from "./contract.ts";
import { openDatabase } from "./database.ts";

/** As many as make a checkpoint worth it (checkpointer.ts). */
const count = 1_500;

/** Of operations that race, those that come too late fail with these. */
const expected = [
  "index_already_exists",
  "index_not_found",
  "shutting_down",
  "collection_not_found",
] as const;

test("indexes that are deleted and made while loads, unloads and writes go on leave no warning; a damaged checkpoint does", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "quiver-deleted-"));
  const told: [fields: Record<string, unknown>, message: string][] = [];
  const tell: DatabaseLog["warn"] = (fields, message) => void told.push([fields, message]);
  const database = await openDatabase({
    dataDir,
    log: { info: () => {}, warn: tell, error: tell },
  });
  try {
    await database.createCollection({
      name: "c",
      tf_idf_options: { enabled: true },
    });
    const collection = database.collection("c");
    const random = randomNumbers(11);
    const records = (first: number, n: number) =>
      Array.from({ length: n }, (_, i) => ({
        id: `r${first + i}`,
        text: `word${(first + i) % 97} bees`,
        metadata: { n: first + i },
      }));
    await collection.upsert(records(0, count));

    const acts: readonly (() => Promise<unknown>)[] = [
      () => collection.createIndex("tf-idf", {}),
      () => collection.deleteIndex("tf-idf"),
      () => collection.createMetadataIndex("n", { type: "number" }),
      () => collection.deleteMetadataIndex("n"),
      () => collection.load(),
      () => collection.unload(),
      () => collection.upsert(records(Math.floor(random() * count), 400)),
    ];
    const failed: unknown[] = [];
    for (let round = 0; round < 60; round++)
      await Promise.all(
        Array.from({ length: 8 }, () =>
          acts[Math.floor(random() * acts.length)]().catch((error: unknown) => {
            if (!expected.some((code) => isQuiverError(error, code))) failed.push(error);
          }),
        ),
      );
    expect(failed).toEqual([]);
    const makeText = () => collection.createIndex("tf-idf", {});
    await makeText().catch(() => collection.deleteIndex("tf-idf").then(makeText));
    await collection.load();
    await collection.unload();
    expect(told).toEqual([]);

    const [directory] = readdirSync(join(dataDir, "collections"));
    truncateSync(join(dataDir, "collections", directory, "checkpoints", "tf-idf"), 100);
    await collection.load();
    expect(told).toEqual([
      [expect.anything(), "the checkpoint of the tf-idf index could not be written or read"],
    ]);
  } finally {
    await database.close();
    rmSync(dataDir, { recursive: true });
  }
});
