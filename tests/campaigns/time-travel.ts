// Is every version what it was, whatever happens to the server?
//
//   node tests/campaigns/time-travel.ts [--versions 500] [--compared 50] [--kills 20]
//
// One writer makes versions by every kind of write, and keeps all of them in memory. Random versions are compared with a collection that is made
// of their records alone: all searches, counts, facets, pages and exports, exact ones to the last digit. Meanwhile the server is killed and
// started again; every write has a key, so that it is done once, however often it is sent. In between a snapshot is made, versions are tagged,
// and the history is shortened, so that vacuuming removes what nobody can read any more.

import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { Collection, QuiverClient, RecordInput } from "@quiverdb/client";
import { isQuiverError } from "@quiverdb/client";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, TemporaryFolder } from "./campaign.ts";
import { ServerProcess } from "./server-process.ts";

export type TimeTravelOptions = { versions: number; compared: number; kills: number; seed: number };
export type TimeTravelCounts = {
  versions: number;
  compared: number;
  gone: number;
  kills: number;
  recall: number;
};

type Records = ReadonlyMap<string, RecordInput & { metadata: { n: number } }>;

const dimension = 8;
const words = ["kappa", "zulu", "tango", "delta", "bravo", "sierra", "lima", "oscar"];
const body = {
  dense_vector: { enabled: true, dimension },
  sparse_vector: { enabled: true },
  tf_idf_options: { enabled: true },
  store_raw_text: true,
};

/** Runs the campaign. @throws if a version is not what it was */
export async function timeTravelCampaign(options: TimeTravelOptions): Promise<TimeTravelCounts> {
  const random = randomNumbers(options.seed);
  const below = (end: number): number => Math.floor(random() * end);
  const counts: TimeTravelCounts = { versions: 0, compared: 0, gone: 0, kills: 0, recall: 0 };
  const overlaps: number[] = [];
  using folder = new TemporaryFolder("time-travel");
  let server = new ServerProcess(folder.path, { flags: ["--versions-kept", "20"] });
  let isOver = false;
  let killing: Promise<void> | undefined;
  try {
    // It stays where it is, so that the client finds it again.
    const client = await server.client({ retryForMs: 120_000, timeoutMs: 240_000 });
    const { port } = server;
    const kill = async () => {
      while (!isOver && counts.kills < options.kills) {
        await sleep(300 + 4_000 * random());
        if (isOver) return;
        await server.kill();
        counts.kills++;
        server = new ServerProcess(folder.path, { flags: ["--versions-kept", "20", "--port", String(port)] });
        await server.client();
      }
    };
    killing = kill();
    let keys = 0;
    const once = () => ({ idempotencyKey: `time-travel-${keys++}` });

    const make = async (name: string, history?: "all"): Promise<Collection> => {
      const config = history && { history };
      const made = await client.createCollection({ name, ...body, config }, once());
      await made.createDenseIndex({ distance_metric_type: "cosine" }, once());
      await made.createSparseIndex({}, once());
      await made.createTextIndex({}, once());
      await made.createMetadataIndex("n", "number", once());
      return made as Collection;
    };
    const collection = await make("c", "all");
    const models: Records[] = [new Map()];
    const now = () => models[models.length - 1];

    const recordOf = (id: string) => ({
      id,
      document_id: `d${below(5)}`,
      dense_values: Array.from({ length: dimension }, () => below(19) - 9 || 1),
      sparse_values: [[below(9), 1 + below(5)] as [number, number]],
      text: Array.from({ length: 1 + below(6) }, () => words[below(words.length)]).join(" "),
      metadata: { n: below(5) },
    });
    const step = async (): Promise<void> => {
      const next = new Map(now());
      const ids = [...next.keys()];
      const how = ids.length < 5 ? 99 : below(20);
      if (how < 3) {
        const id = ids[below(ids.length)];
        await collection.delete(id, once());
        next.delete(id);
      } else if (how === 3) {
        const id = ids[below(ids.length)];
        const before = next.get(id) as RecordInput & { metadata: { n: number } };
        const metadata = { ...before.metadata, n: below(5), at: models.length };
        await collection.patch(id, { n: metadata.n, at: models.length }, once());
        next.set(id, { ...before, metadata });
      } else if (how === 4) {
        const n = below(5);
        const filter = { and: [{ n }, { document_id: `d${below(5)}` }] };
        const matching = [...next.values()].filter(
          (record) => record.metadata.n === n && record.document_id === filter.and[1].document_id,
        );
        if ((await collection.deleteMatching(filter, once())) !== matching.length)
          throw new Error(`${matching.length} records match at version ${models.length - 1}`);
        if (matching.length === 0) return;
        for (const { id } of matching) next.delete(id);
      } else if (how === 5) {
        const transaction = await collection.transaction(once());
        const written = [ids[0], `t${models.length}`].map(recordOf);
        await transaction.upsert(written, once());
        await transaction.delete(ids[1], once());
        await transaction.commit(once());
        next.delete(ids[1]);
        for (const record of written) next.set(record.id, record);
      } else if (how === 6 && models.length > 10) {
        const { oldest_readable } = await collection.versions({ limit: 1 });
        const version = oldest_readable + below(models.length - oldest_readable);
        const records = models[version];
        await collection.restoreVersion(version, once());
        if (isDeepStrictEqual(records, now())) return;
        models.push(records);
        return;
      } else {
        const written = Array.from({ length: 1 + below(6) }, () => recordOf(`v${below(300)}`));
        // Of a record that is written twice in one request the last one holds.
        await collection.upsert(written, once());
        for (const record of written) next.set(record.id, record);
      }
      models.push(next);
    };

    let references = 0;
    const compare = async (asked: Collection, version: number): Promise<void> => {
      const records = models[version];
      const reference = await make(`reference ${++references}`);
      if (records.size > 0) await reference.upsert([...records.values()], once());
      const [expected, got] = [
        await wholeAnswersOf(reference),
        await wholeAnswersOf(asked.at({ version }) as unknown as Collection),
      ];
      for (const [name, answer] of Object.entries(expected.exact))
        if (!isDeepStrictEqual(got.exact[name], answer))
          throw new Error(
            `version ${version} of ${asked.name}, ${name}: ${JSON.stringify(got.exact[name])}; expected ${JSON.stringify(answer)}`,
          );
      const found = new Set(got.approximate);
      const best = expected.exact.dense as { results: { id: string }[] };
      if (best.results.length > 0)
        overlaps.push(best.results.filter(({ id }) => found.has(id)).length / best.results.length);
      await client.deleteCollection(reference.name, once());
      counts.compared++;
    };
    const writeUpTo = async (versions: number) => {
      while (models.length <= versions) {
        await step();
        const { version_number } = await collection.currentVersion();
        if (version_number !== models.length - 1)
          throw new Error(`the version is ${version_number}; expected ${models.length - 1}`);
      }
      counts.versions = models.length - 1;
    };

    const { versions, compared } = options;
    const half = Math.floor(versions / 2);
    await writeUpTo(half);
    for (let i = 0; i < compared * 0.3; i++) await compare(collection, below(half + 1));
    const tagged = below(half);
    await collection.putTag("kept", tagged, once());
    const snapshot = await completeSnapshot(client, collection);
    await writeUpTo(versions);
    for (let i = 0; i < compared * 0.4; i++) await compare(collection, below(versions + 1));
    const kept = Math.ceil(versions / 4);
    await collection.setHistory({ versions: kept }, once());
    const oldest = versions - kept + 1;
    while ((await collection.versions({ limit: 1 })).oldest_readable < oldest) await sleep(100);
    for (let i = 0; i < compared * 0.2; i++) await compare(collection, oldest + below(kept));
    await compare(collection, tagged);
    for (let i = 0; i < 10; i++) {
      const version = below(oldest);
      if (version === tagged) continue;
      await collection
        .at({ version })
        .count()
        .then(
          () => {
            throw new Error(`version ${version} is read, and should be gone`);
          },
          (error) => {
            if (!isQuiverError(error, "version_gone")) throw error;
            counts.gone++;
          },
        );
    }
    const restored = client.collection("restored");
    await restored.restore({ snapshots: [snapshot] }, once());
    for (let i = 0; i < compared * 0.1; i++) await compare(restored, below(half + 1));
    isOver = true;
    await killing;
    for (const each of [collection, restored]) {
      const { findings } = await each.check();
      if (findings.length > 0) throw new Error(`a check of ${each.name} finds ${JSON.stringify(findings)}`);
    }
    counts.recall = overlaps.reduce((sum, overlap) => sum + overlap, 0) / overlaps.length;
    if (counts.recall < 0.98) throw new Error(`the recall of approximate searches is ${counts.recall}`);
    return counts;
  } finally {
    isOver = true;
    await killing?.catch(() => undefined);
    await server.kill();
  }
}

/** A snapshot takes no key: one that was interrupted is looked for, and made again. */
async function completeSnapshot(client: QuiverClient, collection: Collection): Promise<string> {
  for (;;)
    try {
      return (await collection.createSnapshot()).id;
    } catch (error) {
      if (!isQuiverError(error, "connection_failed") && !isQuiverError(error, "shutting_down")) throw error;
      await client.listCollections();
    }
}

const filter = { n: { gte: 2 } };
const query_vector = Array.from({ length: dimension }, (_, i) => 1 + (i % 3));

/** An export that a kill has cut is not gone on with: then all is asked again. */
async function wholeAnswersOf(asked: Collection): ReturnType<typeof answersOf> {
  for (;;)
    try {
      return await answersOf(asked);
    } catch (error) {
      if (!isQuiverError(error, "connection_failed")) throw error;
    }
}

/** What can be asked of a collection, or of one as it was: what must be equal, and ids of an approximate search. */
async function answersOf(
  asked: Collection,
): Promise<{ exact: Record<string, unknown>; approximate: readonly string[] }> {
  const page = await asked.scroll({ limit: 10_000 });
  const exported: string[] = [];
  for await (const line of asked.export()) exported.push(line);
  const first = page.vectors[0]?.id;
  const { search } = asked;
  const dense = { query_vector, top_k: 10, exact: true };
  const sparse = {
    query_terms: [
      [1, 2],
      [3, 1],
    ] as [number, number][],
    top_k: 10,
  };
  const text = { query: "kappa zulu bravo", top_k: 10 };
  const hybrid = { query_vector, query_text: "tango delta", top_k: 10, exact: true };
  const exact = {
    count: await asked.count(),
    matching: await asked.count(filter),
    facets: await asked.facet({ field: "n" }),
    page,
    exported: exported.sort(),
    fetched: await asked.fetch({ ids: ["v1", "v2", "nowhere"] }),
    has: [await asked.has("v1"), await asked.has("nowhere")],
    one: first === undefined ? null : await asked.get(first),
    document: await asked.byDocument("d1"),
    dense: await search.dense(dense),
    filtered: await search.dense({ ...dense, filter }),
    sparse: await search.sparse(sparse),
    text: await search.text(text),
    hybrid: await search.hybrid({ ...hybrid, filter }),
    batch: await search.batchDense({ queries: [{ vector: query_vector }], top_k: 10, exact: true }),
  };
  const { results } = await search.dense({ query_vector, top_k: 10 });
  return { exact, approximate: results.map(({ id }) => id) };
}

if (import.meta.main)
  await command({
    name: "time-travel",
    options: { versions: 500, compared: 50, kills: 20 },
    async run(options) {
      const { versions, compared, gone, kills, recall } = await timeTravelCampaign(options);
      return {
        "versions written": versions,
        "versions compared in all searches and reads": compared,
        "versions asked for that were gone": gone,
        "kills of the server": kills,
        "recall of approximate searches": recall.toFixed(3),
        "differences, and findings of checks": 0,
      };
    },
  });
