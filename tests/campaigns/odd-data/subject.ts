// How does the campaign add records to the dense index and search it?
//
// In two ways: the index alone, with builders in its own thread or in worker threads, and the whole engine, which writes records durably
// first. Labels are increasing numbers that are never reused.

import "@quiverdb/engine/process/node-host";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Collection, Database } from "@quiverdb/engine/database/contract";
import { openDatabase } from "@quiverdb/engine/database/database";
import type { HnswDataType } from "@quiverdb/engine/index/dense/code-types";
import type { Graph } from "@quiverdb/engine/index/dense/graph";
import { HnswIndex } from "@quiverdb/engine/index/dense/hnsw-index";
import type { HnswOptions } from "@quiverdb/engine/index/dense/hnsw-options";
import type { HnswState } from "@quiverdb/engine/index/dense/saved-changes";
import type { BuilderThreads } from "@quiverdb/engine/runtime/builders";
import { CheckpointOnDisk } from "@quiverdb/engine/runtime/checkpoint-place";
import { bytesOfFloats } from "@quiverdb/engine/vector/floats";
import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import type { Settings } from "./marks.ts";

export type DataType = HnswDataType | "auto";

export type Wanted = {
  readonly dimension: number;
  readonly metric: MetricName;
  readonly dataType: DataType;
  /** Values are clamped to this range, as in the definition of the index. */
  readonly range?: { readonly min: number; readonly max: number } | undefined;
  readonly settings: Settings;
  /** Number of records before codes are calibrated. */
  readonly sampleCount: number;
  /** Number of builder threads; 0: in place. */
  readonly builders: 0 | 1 | 2;
};

export type Subject = {
  /** Labels from `first` on. */
  add(first: number, rows: readonly Float32Array[]): Promise<void>;
  remove(labels: readonly number[]): Promise<void>;
  /** Closes and restores from a checkpoint while records are being removed. */
  restart(removing: readonly number[]): Promise<void>;
  /** Resolves when all background work is done, with the number of records. @throws if the result is not valid */
  ready(): Promise<number>;
  search(query: Float32Array, k: number): Promise<readonly number[]>;
  /** The current type of codes. */
  dataType(): string;
  close(): Promise<void>;
};

// ---- The index alone

/** @param threads builder threads, unless building is in place; they also write and read checkpoints; the caller ends them */
export function openIndex(wanted: Wanted, threads: BuilderThreads): Subject {
  const directory = mkdtempSync(join(tmpdir(), "quiver-odd-data-"));
  const path = join(directory, "dense");
  const rows = new Map<number, Float32Array>();
  let end = 0;
  let failure: unknown;
  const { settings, sampleCount, dimension, metric, dataType, range } = wanted;
  const options: HnswOptions = {
    dimension,
    metric,
    dataType,
    range,
    sampleCount,
    m: settings.m,
    m0: 2 * settings.m,
    efConstruction: settings.efConstruction,
    efSearch: settings.efSearch,
    memoryBytesMax: 2 ** 28,
    ...(wanted.builders > 0 && { builders: threads }),
    readVector: (label) => {
      const row = rows.get(label);
      return row && bytesOfFloats(row);
    },
    onError: (error) => {
      failure ??= error;
    },
  };
  let index = new HnswIndex(options);
  const vectorOf = (label: number): Float32Array => rows.get(label) as Float32Array;

  const idle = async () => {
    while ((index.tidy() || !index.isIdle) && failure === undefined) await sleep(1);
    if (failure !== undefined) throw new Error("building failed", { cause: failure });
  };
  const addOne = (label: number, row: Float32Array) => index.add(label, bytesOfFloats(row));

  const place = new CheckpointOnDisk(path, threads);

  /** Makes a checkpoint, and runs `meanwhile` before it is written; undefined if there is no graph yet. */
  const keep = async (meanwhile: () => void): Promise<HnswState | undefined> => {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    index.save(
      (state, graphs, done) => {
        const images = graphs.map(({ image }) => image);
        const writing = place.save({ configuration: "", version: 1, hash: "" }, state, images);
        meanwhile();
        writing.then(() => {
          done(true);
          resolve(true);
        }, reject);
      },
      () => {
        meanwhile();
        resolve(false);
      },
    );
    return (await promise) ? ((await place.open()).state as HnswState) : undefined;
  };

  const load = (graphs: readonly Graph[]) => place.load(graphs.map(({ image }) => image));

  const remove = (labels: readonly number[]) => {
    for (const label of labels) {
      index.retire(label);
      index.remove(label);
      rows.delete(label);
    }
  };

  return {
    async add(first, added) {
      for (const [i, row] of added.entries()) {
        rows.set(first + i, row);
        addOne(first + i, row);
      }
      end = first + added.length;
      // Lets other threads run, as between requests.
      await sleep(0);
    },
    remove: async (labels) => remove(labels),
    async restart(removing) {
      const state = await keep(() => remove(removing));
      index.close();
      // Without a graph there is no checkpoint, and everything is replayed.
      index = state === undefined ? new HnswIndex(options) : await HnswIndex.restored(options, state, load);
      const from = Math.min(end, state?.linkedEnd ?? 0);
      for (let label = 0; label < from; label++) if (!rows.has(label)) index.remove(label);
      for (let label = from; label < end; label++) if (rows.has(label)) addOne(label, vectorOf(label));
    },
    async ready() {
      await idle();
      index.check(vectorOf);
      return index.count;
    },
    async search(query, k) {
      const { ordinals, scores } = index.reader.search(query, k, { vectorOf });
      return Array.from(ordinals, (label, i) => ({ label, score: scores[i] }))
        .sort((a, b) => b.score - a.score || a.label - b.label)
        .slice(0, k)
        .map(({ label }) => label);
    },
    dataType: () => index.encoding?.dataType ?? "none",
    async close() {
      index.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

// ---- The whole engine

const name = "odd";

export async function openEngine(wanted: Wanted): Promise<Subject> {
  const dataDir = mkdtempSync(join(tmpdir(), "quiver-odd-data-"));
  const { dimension, metric, dataType, range, settings, sampleCount, builders } = wanted;
  const open = () => openDatabase({ dataDir, builderThreads: Math.max(1, builders) });
  let database: Database = await open();
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: false },
    config: {},
  });
  let collection: Collection = database.collection(name);
  await collection.createIndex("dense", {
    name: "dense",
    distance_metric_type: metric,
    quantization:
      dataType === "auto"
        ? { type: "auto", properties: { sample_threshold: sampleCount } }
        : { type: "scalar", properties: { data_type: dataType, ...(range && { range }) } },
    index: {
      type: "hnsw",
      properties: {
        neighbors_count: settings.m,
        level_0_neighbors_count: 2 * settings.m,
        ef_construction: settings.efConstruction,
        ef_search: settings.efSearch,
      },
    },
  });
  const status = () => collection.indexes().dense?.status;
  const removeAll = async (labels: readonly number[]) => {
    const transaction = collection.transaction((await collection.beginTransaction()).transaction_id);
    for (const label of labels) await transaction.delete(String(label));
    await transaction.commit();
  };
  return {
    add: (first, rows) =>
      collection.upsert(rows.map((row, i) => ({ id: String(first + i), dense_values: Array.from(row) }))),
    remove: removeAll,
    async restart(removing) {
      await removeAll(removing);
      await database.close();
      database = await open();
      await database.recovered;
      collection = database.collection(name);
      await collection.load();
    },
    async ready() {
      await collection.indexed();
      for (;;) {
        const { failure, state, records_in_tail, data_type } = status() ?? {};
        if (failure !== undefined) throw new Error(failure);
        if (state === "ready" && (records_in_tail === 0 || data_type === undefined)) break;
        await sleep(2);
      }
      const { findings } = await collection.check();
      if (findings.length > 0) throw new Error(`the check finds: ${findings[0].message}`);
      return (await collection.describe()).vectors_count;
    },
    async search(query, k) {
      const { results } = await collection.search("dense", { query_vector: Array.from(query), top_k: k });
      return results.map(({ id }) => Number(id));
    },
    dataType: () => status()?.data_type ?? "none",
    async close() {
      await database.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
