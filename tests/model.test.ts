// Random sequences of all operations on several collections, with restarts, against the model.
//
// A failure prints its seed and path; QUIVER_TEST_SEED and QUIVER_RUNS repeat and lengthen the test
// (`npm run campaign model-in-process` runs the long form).

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Collection, Database } from "@quiverdb/engine/database/contract";
import { openDatabase } from "@quiverdb/engine/database/database";
import { QuiverError } from "@quiverdb/protocol/errors";
import fc from "fast-check";
import { expect, it, vi } from "vitest";
import { fused, type Metric, ModelCollection, type ModelRecord, type Ranked, tolerance } from "./model.ts";
import { seed } from "./seed.ts";

const runs = Number(process.env.QUIVER_RUNS ?? 30);

const names = ["one", "zwei 二", "troi's.3"];
/** Words that text analysis does not change. */
const words = ["kappa", "zulu", "tango", "delta", "bravo"];
const ids = Array.from({ length: 12 }, (_, i) => `v${i}`);

const small = fc.integer({ min: -3, max: 3 });
const vector = fc.tuple(small, small, small);
const sparse = fc.uniqueArray(fc.tuple(fc.integer({ min: 0, max: 5 }), fc.integer({ min: -2, max: 3 })), {
  selector: ([index]) => index,
  maxLength: 4,
});
const text = fc.array(fc.constantFrom(...words), { maxLength: 6 }).map((list) => list.join(" "));
const record = fc
  .record({
    id: fc.constantFrom(...ids),
    document: fc.option(fc.constantFrom("d1", "d2")),
    dense: fc.option(vector, { freq: 4 }),
    sparse: fc.option(sparse),
    text: fc.option(text, { freq: 3 }),
    metadata: fc.option(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 })),
  })
  .filter((r) => r.dense !== null || r.sparse !== null || r.text !== null)
  .map(
    (r): ModelRecord => ({
      id: r.id,
      document_id: r.document,
      dense_values: r.dense,
      sparse_indices: r.sparse?.map(([index]) => index) ?? null,
      sparse_values: r.sparse?.map(([, value]) => value) ?? null,
      text: r.text,
      metadata: r.metadata === null ? null : JSON.parse(JSON.stringify(r.metadata)),
    }),
  );
const records = fc.array(record, { maxLength: 6 });
const name = fc.constantFrom(...names);
const id = fc.constantFrom(...ids);
const topK = fc.constantFrom(1, 2, 3, 5, 100);

const operation = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("create" as const),
      name,
      max: fc.option(fc.integer({ min: 3, max: 9 }), { freq: 2 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("drop" as const), name }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant("upsert" as const), name, records }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("parallel" as const),
      name,
      batches: fc.array(records, { maxLength: 4 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("delete" as const), name, id }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("begin" as const), name }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("stage" as const), name, records }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("stageDelete" as const), name, id }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("commit" as const), name }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("abort" as const), name }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("index" as const),
      name,
      kind: fc.constantFrom("dense" as const, "sparse" as const, "tf-idf" as const),
      metric: fc.constantFrom<Metric>("cosine", "euclidean", "dot_product"),
      k1: fc.constantFrom(0, 0.9, 1.2),
      b: fc.constantFrom(0, 0.4, 1),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("unindex" as const),
      name,
      kind: fc.constantFrom("dense" as const, "sparse" as const, "tf-idf" as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("unload" as const), name }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("load" as const), name }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const) }) },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant("search" as const),
      name,
      topK,
      vector,
      terms: sparse,
      text: fc.array(fc.constantFrom(...words, "absent"), { maxLength: 3 }),
    }),
  },
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

async function codeOf(act: () => Promise<unknown>): Promise<string> {
  try {
    await act();
    return "ok";
  } catch (error) {
    if (error instanceof QuiverError) return error.code;
    throw error;
  }
}

/**
 * The best k in order. Scores that are equal in the model may differ in their last bits, because the engine adds in another order: such
 * hits may be in either order, but hits with equal scores are ordered by id.
 */
function expectRanked(found: Ranked, model: Ranked, k: number): void {
  expectAmong(found, model, Math.min(k, model.length));
  for (const [i, { id, score }] of found.entries()) {
    expect(Math.abs(score - model[i].score)).toBeLessThanOrEqual(tolerance);
    if (i > 0 && score === found[i - 1].score) expect(id > found[i - 1].id).toBe(true);
  }
}

/** The expected number of hits, each with the score of the model, in order. */
function expectAmong(found: Ranked, model: Ranked, count: number): void {
  expect(found.length).toBe(count);
  const scores = new Map(model.map(({ id, score }) => [id, score]));
  for (const [i, { id, score }] of found.entries()) {
    expect(Math.abs(score - (scores.get(id) ?? Number.NaN))).toBeLessThanOrEqual(tolerance);
    if (i > 0) expect(score).toBeLessThanOrEqual(found[i - 1].score);
  }
}

class Pair {
  readonly #directory = mkdtempSync(join(tmpdir(), "quiver-model-"));
  #database!: Database;
  readonly #models = new Map<string, ModelCollection>();
  readonly #open = new Map<string, string>();

  async start(): Promise<void> {
    this.#database = await openDatabase({ dataDir: this.#directory });
  }

  async end(): Promise<void> {
    await this.#database.close();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  async run(op: Operation): Promise<void> {
    if (op.do === "restart") {
      await this.#database.close();
      await this.start();
      return;
    }
    const model = this.#models.get(op.name);
    if (op.do === "create") return this.#create(op.name, op.max, model);
    if (!model) {
      expect(() => this.#database.collection(op.name)).toThrow(/no collection/);
      return;
    }
    const real = this.#database.collection(op.name);
    await this.#act(op, real, model);
    await this.#compare(real, model);
  }

  async #create(collection: string, max: number | null, model?: ModelCollection): Promise<void> {
    const code = await codeOf(() =>
      this.#database.createCollection({
        name: collection,
        dense_vector: { enabled: true, dimension: 3 },
        sparse_vector: { enabled: true },
        tf_idf_options: { enabled: true },
        config: { max_vectors: max },
        store_raw_text: true,
      }),
    );
    expect(code).toBe(model ? "collection_already_exists" : "ok");
    if (!model) this.#models.set(collection, new ModelCollection(max));
  }

  async #act(
    op: Exclude<Operation, { do: "restart" | "create" }>,
    real: Collection,
    model: ModelCollection,
  ): Promise<void> {
    const transaction = real.transaction(this.#open.get(op.name) ?? "1-000000000000000000000000");
    const absent = this.#open.has(op.name) ? null : ["transaction_not_found", "transaction_not_open"];
    switch (op.do) {
      case "drop":
        await this.#database.deleteCollection(op.name);
        this.#models.delete(op.name);
        this.#open.delete(op.name);
        return;
      case "upsert":
        expect(await codeOf(() => real.upsert(op.records))).toBe(
          model.upsert(op.records) ? "ok" : "max_vectors_exceeded",
        );
        return;
      case "parallel":
        return this.#parallel(real, model, op.batches);
      case "delete":
        expect(await codeOf(() => real.delete(op.id))).toBe(model.delete(op.id) ? "ok" : "vector_not_found");
        return;
      case "begin": {
        if (this.#open.has(op.name)) {
          expect(await codeOf(() => real.beginTransaction())).toBe("transaction_ongoing");
          return;
        }
        this.#open.set(op.name, (await real.beginTransaction()).transaction_id);
        model.begin();
        return;
      }
      case "stage": {
        const code = await codeOf(() => transaction.upsert(op.records));
        if (absent) expect(absent).toContain(code);
        else if (code === "ok") model.stageUpserts(op.records);
        else expect([code, model.maxVectors !== null]).toEqual(["max_vectors_exceeded", true]);
        return;
      }
      case "stageDelete": {
        const code = await codeOf(() => transaction.delete(op.id));
        if (absent) expect(absent).toContain(code);
        else {
          expect(code).toBe(model.canStageDelete(op.id) ? "ok" : "vector_not_found");
          if (code === "ok") model.stageDelete(op.id);
        }
        return;
      }
      case "commit": {
        const code = await codeOf(() => transaction.commit());
        if (absent) {
          expect(absent).toContain(code);
          return;
        }
        if (model.commit() === "too many") {
          expect(code).toBe("max_vectors_exceeded");
          return;
        }
        expect(code).toBe("ok");
        this.#open.delete(op.name);
        // Graphs are linked in the background: searches see all records at once, and soon everything is complete.
        await vi.waitUntil(() => "Complete" in transaction.status().status, { timeout: 30_000, interval: 1 });
        const { status } = transaction.status();
        expect(Object.keys(status)).toEqual(["Complete"]);
        expect("Complete" in status && status.Complete.stats).toMatchObject({
          version_created: model.version,
          records_upserted: model.given.upserted,
          records_deleted: model.given.deleted,
          total_operations: model.given.upserted + model.given.deleted,
        });
        return;
      }
      case "abort": {
        const code = await codeOf(() => transaction.abort());
        if (absent) expect(absent).toContain(code);
        else {
          expect(code).toBe("ok");
          this.#open.delete(op.name);
          model.staged = null;
        }
        return;
      }
      case "index":
        return this.#index(op, real, model);
      case "unindex": {
        const had = { dense: model.metric !== null, sparse: model.hasSparse, "tf-idf": model.text !== null }[
          op.kind
        ];
        expect(await codeOf(() => real.deleteIndex(op.kind))).toBe(had ? "ok" : "index_not_found");
        if (op.kind === "dense") model.metric = null;
        else if (op.kind === "sparse") model.hasSparse = false;
        else model.text = null;
        return;
      }
      case "unload":
        await real.unload();
        expect((await real.describe()).loaded).toBe(false);
        return;
      case "load":
        expect((await real.load()).loaded).toBe(true);
        return;
      case "search":
        return this.#search(op, real, model);
    }
  }

  /** Concurrent requests are applied in the order in which they were sent. */
  async #parallel(real: Collection, model: ModelCollection, batches: ModelRecord[][]): Promise<void> {
    const codes = await Promise.all(batches.map((batch) => codeOf(() => real.upsert(batch))));
    const version = model.version;
    for (const [i, batch] of batches.entries())
      expect(codes[i]).toBe(model.upsert(batch) ? "ok" : "max_vectors_exceeded");
    const made = real.currentVersion().version_number - version;
    expect(made).toBeLessThanOrEqual(model.version - version);
    // A group commit makes one version for all its requests; the model adopts the number of versions.
    model.version = version + made;
    model.counts.length = model.version;
    model.counts.push(model.records.size);
  }

  async #index(op: Operation & { do: "index" }, real: Collection, model: ModelCollection): Promise<void> {
    if (op.kind === "dense") {
      const code = await codeOf(() =>
        real.createIndex("dense", {
          name: "d",
          distance_metric_type: op.metric,
          // A graph is built from the fourth vector on; its cache holds a few, and the others are read from the store.
          quantization: { type: "auto", properties: { sample_threshold: 4 } },
          index: { type: "hnsw", properties: { max_cache_size: 5, neighbors_count: 4 } },
        }),
      );
      expect(code).toBe(model.metric ? "index_already_exists" : "ok");
      model.metric ??= op.metric;
    } else if (op.kind === "sparse") {
      const code = await codeOf(() =>
        real.createIndex("sparse", { name: "s", quantization: 16, sample_threshold: 10 }),
      );
      expect(code).toBe(model.hasSparse ? "index_already_exists" : "ok");
      model.hasSparse = true;
    } else {
      const { k1, b } = op;
      const code = await codeOf(() =>
        real.createIndex("tf-idf", { name: "t", sample_threshold: 10, k1, b, language: "none" }),
      );
      expect(code).toBe(model.text ? "index_already_exists" : "ok");
      model.text ??= { k1, b };
    }
  }

  async #search(op: Operation & { do: "search" }, real: Collection, model: ModelCollection): Promise<void> {
    const k = op.topK;
    const legs: { request: object; ranking: Ranked }[] = [];
    // The full ranking contains every record. Fusion is checked on the engine's rankings, so that hits whose scores differ in the last bit
    // may be swapped in a leg.
    const leg = async (expected: Ranked, request: object, search: (topK: number) => Promise<Ranked>) => {
      const ranking = await search(100);
      expectRanked(ranking, expected, 100);
      expect(await search(k)).toEqual(ranking.slice(0, k));
      legs.push({ request, ranking });
    };
    if (model.metric) {
      const expected = model.dense(op.vector);
      const exact = { query_vector: op.vector, exact: true };
      await leg(expected, exact, async (top_k) => (await real.search("dense", { ...exact, top_k })).results);
      const near = (await real.search("dense", { query_vector: op.vector, top_k: k })).results;
      expectAmong(near, expected, Math.min(k, expected.length));
      const batch = await real.search("batchDense", {
        queries: [{ vector: op.vector }, { vector: [1, 0, 2] }],
        top_k: k,
        exact: true,
      });
      expectRanked(batch[0].results, expected, k);
      expectRanked(batch[1].results, model.dense([1, 0, 2]), k);
    } else
      expect(await codeOf(() => real.search("dense", { query_vector: op.vector }))).toBe("index_not_found");
    if (model.hasSparse) {
      const query_terms = op.terms.map(([index, value]) => ({ index, value }));
      const search = async (top_k: number) => (await real.search("sparse", { query_terms, top_k })).results;
      await leg(model.sparse(op.terms), { query_terms: op.terms }, search);
    }
    if (model.text) {
      const query = op.text.join(" ");
      const search = async (top_k: number) => (await real.search("text", { query, top_k })).results;
      await leg(model.bm25(op.text), { query_text: query }, search);
    }
    const depth = Math.max(3 * k, 50);
    for (let i = 0; i < legs.length; i++)
      for (let j = i + 1; j <= legs.length; j++) {
        const used = j === legs.length ? legs : [legs[i], legs[j]];
        if (used.length < 2) continue;
        const request = Object.assign({ top_k: k, fusion_constant_k: 60 }, ...used.map((leg) => leg.request));
        const ranking = fused(
          used.map((leg) => leg.ranking),
          depth,
          60,
        );
        expectRanked((await real.search("hybrid", request)).results, ranking, k);
      }
  }

  async #compare(real: Collection, model: ModelCollection): Promise<void> {
    if (!this.#models.has(real.name)) return;
    expect((await real.describe()).vectors_count).toBe(model.records.size);
    for (const vectorId of ids) {
      const expected = model.records.get(vectorId);
      expect(real.has(vectorId)).toBe(expected !== undefined);
      if (!expected) continue;
      const found = real.get(vectorId).toRecord();
      const pairs = expected.sparse_indices?.map((index, i) => [index, expected.sparse_values?.[i]]);
      pairs?.sort((a, b) => (a[0] as number) - (b[0] as number));
      expect(found).toEqual({
        id: vectorId,
        document_id: expected.document_id ?? null,
        dense_values: expected.dense_values ?? null,
        sparse_values: pairs ?? null,
        sparse_indices: pairs?.map(([index]) => index) ?? null,
        text: expected.text ?? null,
        metadata: expected.metadata ?? null,
      });
    }
    for (const document of ["d1", "d2"])
      expect((await real.byDocument(document)).map((v) => v.toRecord().id)).toEqual(model.document(document));
    const { versions, current_hash, current_version } = real.versions();
    expect(current_version).toBe(model.version);
    expect(versions.map((v) => v.version_number)).toEqual(versions.map((_, i) => model.version - i));
    expect(versions[0]).toMatchObject({ hash: current_hash, vector_count: model.records.size });
    expect(new Set(versions.map((v) => v.hash)).size).toBe(versions.length);
  }
}

it(`[M1] every sequence of operations, with restarts, answers as the model does (seed ${seed}, ${runs} runs)`, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 15, maxLength: 60 }), async (operations) => {
      const pair = new Pair();
      await pair.start();
      try {
        for (const op of operations) await pair.run(op);
      } finally {
        await pair.end();
      }
    }),
    { seed, numRuns: runs, endOnFailure: process.env.QUIVER_SHRINK === undefined },
  );
}, 1_200_000);
