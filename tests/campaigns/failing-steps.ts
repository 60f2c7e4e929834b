// Does a server survive a failure in each step of its background work, and recover?
//
//   node tests/campaigns/failing-steps.ts [--only NAME] [--times 1,3]
//
// The failpoints of background steps throw, once or several times in a row, in whichever thread passes them: building and repairing graphs;
// writing, reading and removing checkpoints; merging segments. Meanwhile a collection is filled, changed, unloaded and loaded. The process
// must stay alive, another collection must be served all the time, and soon every index must recover by itself, report that it is ready,
// and find all records. packages/engine/src/database/background.test.ts lets every single read of indexing fail.

import { setTimeout as sleep } from "node:timers/promises";
import { type Collection, type QuiverClient, QuiverError } from "@quiverdb/client";
import { command, say, TemporaryFolder } from "./campaign.ts";
import { failpoints } from "./failpoints.ts";
import { ServerProcess } from "./server-process.ts";

/** Steps of the background. */
const steps = /^(build|repair|checkpoint|merge):/;

export const backgroundSteps = (): string[] => failpoints().filter((name) => steps.test(name));

/** Enough for a graph to be built and written to disk. */
const records = 1_100;
const dimensions = 30_000;
const soonMs = 60_000;

export type FailingStepsCounts = { servers: number; thrown: number; searches: number };

/** Runs the campaign. @throws at the first broken promise, and for a step that was never reached */
export async function failingStepsCampaign(
  names: readonly string[],
  times: readonly number[],
  counts: FailingStepsCounts = { servers: 0, thrown: 0, searches: 0 },
): Promise<FailingStepsCounts> {
  for (const name of names) for (const each of times) await one(name, each, counts);
  return counts;
}

async function one(name: string, times: number, counts: FailingStepsCounts): Promise<void> {
  using folder = new TemporaryFolder("steps");
  const env = { QUIVER_FAILPOINT_THROWS: String(times) };
  await using server = new ServerProcess(folder.path, { env, failpoint: `${name}@1` });
  const thrown = () => server.output().match(new RegExp(`^failpoint ${name} throws$`, "gm"))?.length ?? 0;
  try {
    const client = await server.client();
    const other = await makeCollection(client, "other");
    await other.upsert(recordsOf(0, 3));
    const serving = serve(other, () => server.hasEnded());
    const collection = await makeCollection(client, "hit");
    await goThrough(collection, () => thrown() > 0);
    await untilWell(client, collection);
    counts.searches += await serving.stop();
    if (thrown() === 0) throw new Error("it was never reached");
    await expectFound(collection);
    counts.servers++;
    counts.thrown += thrown();
  } catch (error) {
    const end = server.hasEnded() ? `; it ended with ${server.ending()}` : "";
    throw new Error(
      `${name}, ${times} times: ${(error as Error).message}${end}\n\nThe server said:\n${server.output()}`,
      { cause: error },
    );
  }
}

async function makeCollection(client: QuiverClient, name: string): Promise<Collection> {
  const collection = await client.createCollection({
    name,
    dense_vector: { enabled: true, dimension: 4, auto_create_index: true },
    sparse_vector: { enabled: true, auto_create_index: true },
    tf_idf_options: { enabled: true },
    config: {},
  });
  await collection.createTextIndex();
  return collection;
}

const recordsOf = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => ({
    id: `r${from + i}`,
    dense_values: [from + i, (from + i) % 7, 1, 2],
    sparse_indices: [from + i],
    sparse_values: [1],
    text: `word${from + i} common`,
  }));

/** Continuous searches of an unaffected collection. */
function serve(collection: Collection, hasEnded: () => boolean) {
  let isOver = false;
  let searches = 0;
  const serving = (async () => {
    while (!isOver && !hasEnded()) {
      const { results } = await collection.search.text({ query: "common" });
      if (results.length !== 3) throw new Error(`another collection finds ${results.length} of 3 records`);
      searches++;
      await sleep(5);
    }
  })();
  // It is awaited at the end.
  serving.catch(() => {});
  return {
    stop: async () => {
      isOver = true;
      await serving;
      return searches;
    },
  };
}

/** Requests may be rejected; the background must continue by itself. */
async function tolerate(act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (!(error instanceof QuiverError) || error.code === "connection_failed") throw error;
  }
}

/** Operations that trigger all background steps. */
async function goThrough(collection: Collection, isReached: () => boolean): Promise<void> {
  await collection.upsert(recordsOf(0, records));
  await tolerate(() => collection.waitForIndex({ timeoutMs: soonMs }));
  // Segments are frozen and merged.
  for (let part = 0; part < 9; part++) {
    const indices = Array.from({ length: dimensions }, (_, n) => 10_000 + n);
    const values = indices.map((n) => (n % 7) + 1);
    await collection.upsert(
      Array.from({ length: 9 }, (_, i) => ({
        id: `wide-${part}-${i}`,
        sparse_indices: indices,
        sparse_values: values,
      })),
    );
  }
  await tolerate(() => collection.load());
  // Replaced records leave the graph, which is repaired.
  await collection.upsert(recordsOf(0, 1_000));
  await tolerate(() => collection.waitForIndex({ timeoutMs: soonMs }));
  await tolerate(() => collection.unload());
  await tolerate(() => collection.load());
  for (let i = 0; i < 20 && !isReached(); i++) await sleep(100);
  await tolerate(() => collection.deleteIndex("dense"));
  await tolerate(() => collection.createDenseIndex({ distance_metric_type: "cosine" }));
}

async function untilWell(client: QuiverClient, collection: Collection): Promise<void> {
  const deadline = performance.now() + soonMs;
  for (;;) {
    const indexes = await collection.indexes();
    const health = (await (await fetch(new URL("/health/ready", client.url))).json()) as { status: string };
    const isReady = Object.values(indexes).every(
      ({ status }) => status?.state === "ready" && status.percentage_complete === 100 && !status.failure,
    );
    if (isReady && Object.keys(indexes).length === 3 && health.status === "ready") return;
    if (performance.now() > deadline)
      throw new Error(`it did not recover: ${JSON.stringify({ health, indexes })}`);
    await sleep(50);
  }
}

async function expectFound(collection: Collection): Promise<void> {
  for (const n of [0, 999, 1_050, records - 1]) {
    const found = [
      await collection.search.text({ query: `word${n}` }),
      await collection.search.sparse({ query_terms: [{ index: n, value: 1 }] }),
      await collection.search.dense({ query_vector: [n, n % 7, 1, 2], top_k: 10 }),
    ];
    for (const { results } of found)
      if (!results.some(({ id }) => id === `r${n}`)) throw new Error(`r${n} is not found`);
  }
}

if (import.meta.main)
  await command({
    name: "failing-steps",
    options: { only: "", times: "1,3" },
    async run({ only, times }) {
      const total: FailingStepsCounts = { servers: 0, thrown: 0, searches: 0 };
      for (const name of backgroundSteps().filter((each) => each.startsWith(only))) {
        await failingStepsCampaign([name], times.split(",").map(Number), total);
        say(`${name}: ${JSON.stringify(total)}`);
      }
      return { "servers, each with a failing step": total.servers, "errors thrown": total.thrown };
    },
  });
