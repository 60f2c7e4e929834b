// Do threads that build and threads that search get on with each other?

import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { randomNumbers } from "@quiverdb/kernels/random";
import { afterEach, describe, expect, test, vi } from "vitest";
import { loudBackground } from "../../test/base/loud-background.ts";
import type { SearchingReport, SearchingStart } from "../../test/runtime/searching-thread.ts";
import { ByteWriter } from "../base/bytes.ts";
import { readOperations, storedRecord, type UpsertOperation, writeUpsert } from "../collection/record.ts";
import { ask } from "../index/builders.ts";
import type { Graph } from "../index/dense/graph.ts";
import { HnswIndex } from "../index/dense/hnsw-index.ts";
import type { HnswOptions } from "../index/dense/hnsw-options.ts";
import type { HnswState } from "../index/dense/saved-changes.ts";
import type { StoredRecords } from "../index/kind.ts";
import { textAnalysis } from "../index/text/tasks.ts";
import { CheckpointOnDisk } from "../runtime/checkpoint-place.ts";
import { bytesOfFloats } from "../vector/floats.ts";
import { BuilderThreads } from "./builders.ts";

function vectorsOf(count: number, dimension: number): Float32Array {
  const next = randomNumbers(11);
  return Float32Array.from({ length: count * dimension }, () => next() + next() + next() - 1.5);
}

let builders: BuilderThreads | undefined;
afterEach(async () => {
  await builders?.close();
  builders = undefined;
});

const idle = async (index: HnswIndex) => {
  await expect
    .poll(() => (!index.tidy() && index.isIdle) || index.failure !== undefined, { timeout: 60_000 })
    .toBe(true);
  expect(index.failure).toBeUndefined();
};

const dimension = 16;
const options = (threads: BuilderThreads, more: Partial<HnswOptions> = {}): HnswOptions => ({
  dimension,
  metric: "euclidean",
  dataType: "u8",
  m: 8,
  efConstruction: 60,
  sampleCount: 200,
  memoryBytesMax: 2 ** 26,
  builders: threads,
  ...more,
});

describe("two builders", () => {
  test("[N3] threads search while two builders insert, delete and reuse slots: every result is a set of records that existed during the search, and near ones are found", async () => {
    const stable = 1_500;
    const turnover = 9_000;
    const total = stable + turnover;
    const vectors = vectorsOf(total, dimension);
    const rowOf = (i: number) => vectors.subarray(i * dimension, (i + 1) * dimension);
    const shared = new Float32Array(new SharedArrayBuffer(vectors.byteLength));
    shared.set(vectors);
    builders = new BuilderThreads(loudBackground(), 2);
    const index = new HnswIndex(options(builders, { searchers: 3 }));
    for (let i = 0; i < stable; i++) index.add(i, bytesOfFloats(rowOf(i)));
    await idle(index);
    const clock = new Int32Array(new SharedArrayBuffer(8));
    const removedAt = new Int32Array(new SharedArrayBuffer(4 * total));
    const [graph] = index.graphs;
    const { encoding } = index;
    if (encoding === undefined) throw new Error("there is no encoding");
    const searchers = [1, 2].map((scratch) => {
      const start: SearchingStart = {
        graph: graph.shared,
        encoding,
        scratch,
        vectors: shared,
        clock,
        removedAt,
        stable,
      };
      return new Worker(new URL("../../test/runtime/searching-thread.ts", import.meta.url), {
        workerData: start,
      });
    });
    const reports = searchers.map((worker) => once(worker, "message"));
    let oldest = stable;
    for (let i = stable; i < total; i++) {
      index.add(i, bytesOfFloats(rowOf(i)));
      // In addition to the stable records about 1,500 others exist at a time, so that slots are swept and reused many times.
      while (i - oldest > 1_500) {
        index.remove(oldest);
        Atomics.store(removedAt, oldest, Atomics.add(clock, 0, 1) + 1);
        oldest++;
      }
      if (i % 100 === 0) {
        const found = index.reader.search(rowOf(i % stable), 10, { ef: 64 });
        for (const ordinal of found.ordinals)
          expect(ordinal < stable || (ordinal >= oldest && ordinal <= i)).toBe(true);
        expect(new Set(found.ordinals).size).toBe(found.count);
        await new Promise((resolve) => setTimeout(resolve, 1));
        // BuilderThreads must keep up, or the test would only scan the tail.
        while (index.tailCount > 500) await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
    await idle(index);
    Atomics.store(clock, 1, 1);
    let own = 0;
    for (let i = 0; i < stable; i++)
      if (index.reader.search(rowOf(i), 1, { ef: 64 }).ordinals[0] === i) own++;
    const quiet = own / stable;
    expect(quiet).toBeGreaterThan(0.95);
    for (const waiting of reports) {
      const [report] = (await waiting) as [SearchingReport];
      expect(report.wrong).toEqual([]);
      expect(report.searches).toBeGreaterThan(100);
      expect(report.found / report.searches).toBeGreaterThan(quiet - 0.05);
    }
    await idle(index);
    index.check();
    // Slots of some 3,000 living records were used again: without reuse there would be 10,500 of them. How many wait to be swept depends on
    // what the builders get of the processors: 5,082 slots were seen with ten threads on two cores.
    expect(index.graphs[0].slots).toBeLessThan(8_000);
  });

  test("a record that is removed while a builder links it is gone", async () => {
    const count = 3_000;
    const vectors = vectorsOf(count, dimension);
    builders = new BuilderThreads(loudBackground(), 2);
    const index = new HnswIndex(options(builders));
    for (let i = 0; i < count; i++) {
      index.add(i, bytesOfFloats(vectors.subarray(i * dimension, (i + 1) * dimension)));
      if (i % 3 === 0) index.remove(i);
      if (i % 64 === 0) await new Promise((resolve) => setImmediate(resolve));
      if (i > 100 && i % 7 === 0) index.remove(i - 50);
    }
    await idle(index);
    await idle(index);
    index.check();
    for (let i = 0; i < count; i++) if (i % 3 === 0) expect(index.has(i)).toBe(false);
    const { ordinals } = index.reader.search(vectors.subarray(0, dimension), index.count, { ef: 100 });
    for (const ordinal of ordinals) expect(index.has(ordinal)).toBe(true);
    expect(ordinals.length).toBe(index.count);
  });
});

test("[N2] several graphs, two builders, records that are added and removed, and checkpoints in between: all records are found", async () => {
  const living = 3_000;
  const total = 12_000;
  const vectors = vectorsOf(total, dimension);
  const rowOf = (i: number) => vectors.subarray(i * dimension, (i + 1) * dimension);
  const directory = mkdtempSync(join(tmpdir(), "quiver-builders-"));
  builders = new BuilderThreads(loudBackground(), 2);
  const threads = builders;
  const place = new CheckpointOnDisk(join(directory, "dense"), threads);
  // A graph has room for about 1,600 records, so there are always two or more.
  const small = options(threads, { memoryBytesMax: 4 * 65_536 });
  let index = new HnswIndex(small);
  let graphsMost = 0;
  /** Makes a checkpoint of the index while builders and removals continue. */
  const keep = () =>
    new Promise<void>((resolve, reject) => {
      index.save(
        (state, graphs, done) => {
          const images = graphs.map(({ image }) => image);
          place.save({ configuration: "", version: 1, hash: "" }, state, images).then(
            () => {
              done(true);
              resolve();
            },
            (error: unknown) => {
              done(false);
              reject(error);
            },
          );
        },
        () => reject(new Error("no checkpoint can be made")),
      );
    });
  const restored = async () => {
    const state = (await place.open()).state as HnswState;
    const load = (graphs: readonly Graph[]) => place.load(graphs.map(({ image }) => image));
    const kept = await HnswIndex.restored(small, state, load);
    return { kept, from: state.linkedEnd };
  };
  try {
    let oldest = 0;
    for (let i = 0; i < total; i++) {
      index.add(i, bytesOfFloats(rowOf(i)));
      while (i - oldest >= living) index.remove(oldest++);
      if (i % 100 === 99) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        while (index.tailCount > 500) await new Promise((resolve) => setTimeout(resolve, 1));
        graphsMost = Math.max(graphsMost, index.partitionCount);
      }
      if (i % 3_000 !== 2_999) continue;
      const keeping = keep();
      // Records that are removed while the checkpoint is written are in the file, and must be removed after reading it.
      const removedFrom = oldest;
      for (; oldest < removedFrom + 40; oldest++) index.remove(oldest);
      await keeping;
      const { kept, from } = await restored();
      index.close();
      index = kept;
      for (let ordinal = 0; ordinal < oldest; ordinal++) index.remove(ordinal);
      for (let ordinal = from; ordinal <= i; ordinal++) index.add(ordinal, bytesOfFloats(rowOf(ordinal)));
    }
    await idle(index);
    await idle(index);
    const vectorOf = (ordinal: number) => rowOf(ordinal);
    index.check(vectorOf);
    expect(graphsMost).toBeGreaterThan(1);
    expect(index.count).toBe(total - oldest);
    let own = 0;
    for (let i = oldest; i < total; i++)
      if (index.reader.search(rowOf(i), 1, { ef: 64, vectorOf }).ordinals[0] === i) own++;
    expect(own / (total - oldest)).toBeGreaterThan(0.95);
  } finally {
    index.close();
    rmSync(directory, { recursive: true });
  }
});

test("a failing builder is reported, and every record is still found", async () => {
  builders = new BuilderThreads(loudBackground(), 1);
  const problems: unknown[] = [];
  const index = new HnswIndex(options(builders, { onError: (problem) => problems.push(problem) }));
  const vectors = vectorsOf(300, dimension);
  const add = (i: number) =>
    index.add(i, bytesOfFloats(vectors.subarray(i * dimension, (i + 1) * dimension)));
  for (let i = 0; i < 250; i++) add(i);
  await idle(index);
  // The thread gets a message about an unknown graph.
  builders.run = (_task, _request, done) => void setImmediate(() => done(new Error("no such graph"), null));
  for (let i = 250; i < 300; i++) add(i);
  await expect.poll(() => problems.length).toBe(1);
  expect(String(index.failure)).toContain("no such graph");
  for (let i = 0; i < 300; i++) {
    const query = vectors.subarray(i * dimension, (i + 1) * dimension);
    expect([...index.reader.search(query, 1, { ef: 64 }).ordinals]).toEqual([i]);
  }
});

test("[O10] a task of one collection does not wait for all tasks of another one in a builder", async () => {
  builders = new BuilderThreads(loudBackground(), 1);
  const [greedy, modest] = [builders.share(), builders.share()];
  const analysis = { language: "english", stopWords: null, hasPositions: false } as const;
  const rowOf = (text: string): StoredRecords => {
    const out = new ByteWriter();
    const record = { id: "a", documentId: null, dense: null, sparse: null, metadataJson: null };
    writeUpsert(out, { ...record, text: { kind: "raw", value: text } });
    const [operation] = readOperations(out.take());
    const bytes = storedRecord(operation as UpsertOperation, 1);
    return { ordinals: Uint32Array.of(0), ends: Uint32Array.of(bytes.length), bytes };
  };
  const next = randomNumbers(5);
  const long = () =>
    Array.from({ length: 50_000 }, () => `w${Math.floor(next() * 1e9).toString(36)}`).join(" ");
  const order: string[] = [];
  const greedily = Array.from({ length: 6 }, async (_, i) => {
    await ask(greedy, textAnalysis, { records: rowOf(long()), ...analysis });
    order.push(`long ${i}`);
  });
  const modestly = Array.from({ length: 3 }, async (_, i) => {
    await ask(modest, textAnalysis, { records: rowOf(`few words ${i}`), ...analysis });
    order.push(`short ${i}`);
  });
  await Promise.all([...greedily, ...modestly]);
  expect(order.slice(0, 3)).toEqual(["short 0", "short 1", "short 2"]);
  expect(order.slice(3)).toEqual(greedily.map((_, i) => `long ${i}`));
});

test.skipIf(process.platform !== "linux")(
  "a builder without a task ends, and another one goes on with the same graph",
  async () => {
    const nameOf = (id: string) => {
      try {
        return readFileSync(`/proc/self/task/${id}/comm`, "utf8");
      } catch (error) {
        // The thread has ended since it was listed.
        if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return "";
        throw error;
      }
    };
    const names = () =>
      readdirSync("/proc/self/task").filter((id) => nameOf(id).startsWith("quiver builder"));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      builders = new BuilderThreads(loudBackground(), 1);
      const index = new HnswIndex(options(builders));
      const vectors = vectorsOf(600, dimension);
      const vector = (i: number) => vectors.subarray(i * dimension, (i + 1) * dimension);
      const done = () => !index.tidy() && index.isIdle;
      for (let i = 0; i < 300; i++) index.add(i, bytesOfFloats(vector(i)));
      while (!done()) await new Promise(setImmediate);
      expect(names()).toHaveLength(1);
      vi.advanceTimersByTime(60_000);
      while (names().length > 0) await new Promise(setImmediate);
      for (let i = 300; i < 600; i++) index.add(i, bytesOfFloats(vector(i)));
      while (!done()) await new Promise(setImmediate);
      expect(names()).toHaveLength(1);
      for (let i = 0; i < 600; i++)
        expect([...index.reader.search(vector(i), 1, { ef: 64 }).ordinals]).toEqual([i]);
    } finally {
      vi.useRealTimers();
    }
  },
  60_000,
);
