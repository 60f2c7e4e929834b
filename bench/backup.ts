// How fast are a backup and a restore, and is their memory independent of the collection's size?
//
//   npm run bench backup [-- --records 100000,400000 --dimension 128]
//
// Vectors of random floats, which hardly compress, and short texts, which compress well. Memory is RssAnon of the process, without the
// mapped pages of the store.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase } from "@quiverdb/engine/database/database";
import { randomNumbers } from "@quiverdb/kernels/random";
import { readOptions } from "./shared/options.ts";
import { publish } from "./shared/publish.ts";
import type { Row } from "./shared/results.ts";

const { values, isKept } = readOptions({}, { records: "100000,400000", dimension: "128" });
const dimension = Number(values.dimension);
const mebibyte = 1024 * 1024;

const anonymousBytes = (): number =>
  1024 * Number(/RssAnon:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))?.[1]);

/** Runs and measures: seconds, peak additional memory, and the longest time for which the event loop was blocked. */
async function measured<T>(
  act: () => Promise<T>,
): Promise<[T, { seconds: number; bytes: number; heldMs: number }]> {
  globalThis.gc?.();
  const before = anonymousBytes();
  let [bytes, heldMs, lookedAt] = [0, 0, performance.now()];
  const look = setInterval(() => {
    bytes = Math.max(bytes, anonymousBytes() - before);
    heldMs = Math.max(heldMs, performance.now() - lookedAt - 10);
    lookedAt = performance.now();
  }, 10);
  const startedAt = performance.now();
  const result = await act();
  clearInterval(look);
  return [result, { seconds: (performance.now() - startedAt) / 1000, bytes, heldMs }];
}

const rows: Row[] = [];
for (const count of values.records.split(",").map(Number)) {
  const dataDir = mkdtempSync(join(tmpdir(), "quiver-bench-backup-"));
  const database = await openDatabase({ dataDir });
  try {
    await database.createCollection({
      name: "c",
      dense_vector: { enabled: true, dimension },
      sparse_vector: { enabled: false },
      tf_idf_options: { enabled: true },
      config: {},
      store_raw_text: true,
    });
    const collection = database.collection("c");
    const next = randomNumbers(count);
    for (let from = 0; from < count; from += 5_000)
      await collection.upsert(
        Array.from({ length: Math.min(5_000, count - from) }, (_, i) => ({
          id: `record-${from + i}`,
          dense_values: Float32Array.from({ length: dimension }, () => next() - 0.5) as unknown as number[],
          text: `A short text about the record ${from + i}, as texts are: rivers carve valleys.`,
          metadata: { number: from + i, kind: "benchmark" },
        })),
      );
    const [snapshot, made] = await measured(() => database.snapshots.create("c"));
    const request = { snapshots: [snapshot.id] };
    const [, restored] = await measured(() => database.restoreCollection("copy", request));
    const rawBytes = count * (4 * dimension + 150);
    for (const [act, { seconds, bytes, heldMs }] of Object.entries({ backup: made, restore: restored }))
      rows.push({
        act,
        records: count,
        fileMiB: snapshot.size_bytes / mebibyte,
        seconds,
        MiBPerSecond: rawBytes / mebibyte / seconds,
        memoryMiB: bytes / mebibyte,
        eventLoopHeldMs: heldMs,
      });
  } finally {
    await database.close();
    rmSync(dataDir, { recursive: true, force: true });
  }
}
publish("backup", { key: "all", title: "Backup and restore", options: { dimension }, rows }, isKept);
