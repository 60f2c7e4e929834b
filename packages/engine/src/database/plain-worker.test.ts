// Does the engine run without Node.js?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { afterEach, expect, test } from "vitest";
import { definition, indexes, takeSteps } from "../../test/database/plain-steps.ts";
import type { PlainReport } from "../../test/database/plain-thread.ts";
import { openDatabase } from "./database.ts";

const directory = mkdtempSync(join(tmpdir(), "quiver-plain-"));
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** What a thread without Node.js has done. */
async function plainReport(): Promise<PlainReport> {
  const worker = new Worker(new URL("../../test/database/plain-thread.ts", import.meta.url));
  try {
    return await new Promise((resolve, reject) => {
      worker.on("message", resolve);
      worker.on("error", reject);
      worker.on("exit", (code) => reject(new Error(`the thread ended with ${code}`)));
    });
  } finally {
    await worker.terminate();
  }
}

test("a collection in memory, in a thread without Node.js, answers as the database does", async () => {
  const database = await openDatabase({ dataDir: directory });
  try {
    await database.createCollection(definition);
    const collection = database.collection(definition.name);
    await collection.createIndex("dense", indexes.dense);
    await collection.createIndex("sparse", indexes.sparse);
    await collection.createIndex("tf-idf", indexes.text);
    const built = () =>
      expect
        .poll(() => Object.values(collection.indexes()).map(({ status }) => status.state))
        .toEqual(["ready", "ready", "ready"]);
    const expected = await takeSteps(Object.assign(collection, { built }));
    const report = await plainReport();
    expect(report.left).toEqual([]);
    expect(report.dataType).toBe(collection.indexes().dense?.status.data_type);
    expect(report.dataType).toBeDefined();
    expect(report.hash).toBe(collection.currentVersion().hash);
    // What a walk costs depends on the levels of the nodes, which are drawn.
    const withoutCosts = (answers: readonly unknown[]) =>
      answers.map((answer) => ({ ...(answer as object), legs: null }));
    expect(withoutCosts(report.answers)).toEqual(withoutCosts(expected));
    for (const { results } of expected) expect(results).toHaveLength(10);
  } finally {
    await database.close();
  }
});
