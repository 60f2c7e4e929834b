// How soon does a collection of a million vectors answer after a start?
//
//   npm run bench dense-start [-- --rows 1000000 --tail 10000]
//
// A real server takes the vectors over HTTP, builds its index, and is stopped. It is started again and searched at once. Then it gets the
// last `tail` vectors, is killed, and is started once more, which replays those vectors from the log. The files are in the page cache, as after
// a restart of a service.

import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Collection, createClient, type QuiverClient } from "@quiverdb/client";
import { adminKey, type MeasuredServer, startQuiver } from "../rest/measured-server.ts";
import { built } from "../shared/built.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";
import { readSet } from "./data.ts";

const { values, isKept } = readOptions({}, { rows: "1000000", tail: "10000" });
/** Number of all vectors, and of those added after the restart. */
const all = Number(values.rows);
const tail = Number(values.tail);
const rows = all - tail;
const batch = 5_000;
/** Smaller than the default, so that building takes only minutes; the start time does not depend on it. */
const efConstruction = 40;
const directory = mkdtempSync(join(tmpdir(), "quiver-start-"));
const set = readSet("clusters128-1m", all);

type Server = {
  readonly process: MeasuredServer;
  readonly client: QuiverClient;
  readonly collection: Collection;
  readonly listeningMs: number;
};

async function start(): Promise<Server> {
  const begin = performance.now();
  const server = await startQuiver(directory);
  const client = createClient({ url: server.url, apiKey: adminKey });
  return {
    process: server,
    client,
    collection: client.collection("start"),
    listeningMs: performance.now() - begin,
  };
}

async function add({ collection }: Server, from: number, to: number): Promise<void> {
  for (let at = from; at < to; at += batch) {
    const vectors = [];
    for (let i = at; i < Math.min(to, at + batch); i++)
      vectors.push({ id: `v${i}`, dense_values: Array.from(set.rows[i]) });
    await collection.upsert(vectors);
  }
}

const ready = ({ collection }: Server): Promise<void> => built(() => collection.indexes());

const search = ({ collection }: Server, exact = false) =>
  collection.search.dense({ query_vector: Array.from(set.queries[0]), top_k: 10, ...(exact && { exact }) });

/** Starts, searches at once, and waits until all records are in their final places. */
async function timed(): Promise<{ server: Server; firstMs: number; readyMs: number }> {
  const begin = performance.now();
  const server = await start();
  await search(server);
  const firstMs = performance.now() - begin;
  await ready(server);
  return { server, firstMs, readyMs: performance.now() - begin };
}

/** An exact search that reads every vector, and the longest wait of a concurrent search. */
async function firstExact(server: Server): Promise<{ exactMs: number; longestMs: number }> {
  const begin = performance.now();
  let isDone = false;
  const exact = search(server, true).finally(() => {
    isDone = true;
  });
  let longestMs = 0;
  while (!isDone) {
    const asked = performance.now();
    await search(server);
    longestMs = Math.max(longestMs, performance.now() - asked);
  }
  await exact;
  return { exactMs: performance.now() - begin, longestMs };
}

function checkpoint(): { bytes: number; readMs: number } {
  const file = readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((path) => join(directory, path))
    .find((path) => path.endsWith(join("checkpoints", "dense")));
  if (file === undefined) throw new Error("there is no checkpoint");
  const begin = performance.now();
  readFileSync(file);
  return { bytes: statSync(file).size, readMs: performance.now() - begin };
}

const row = (step: string, value: number, unit = "s") => ({ step, value, unit });

try {
  let server = await start();
  await server.client.createCollection({
    name: "start",
    dense_vector: { enabled: true, dimension: set.dimension },
  });
  await server.collection.createDenseIndex({
    distance_metric_type: set.metric,
    index: { type: "hnsw", properties: { ef_construction: efConstruction } },
  });
  console.log(`adding ${rows} vectors`);
  const adding = performance.now();
  await add(server, 0, rows);
  const addedMs = performance.now() - adding;
  await ready(server);
  const builtMs = performance.now() - adding;
  const truth = await search(server, true);
  await server.process.end();
  const kept = checkpoint();
  const first = await timed();
  server = first.server;
  const beside = await firstExact(server);
  const again = await search(server, true);
  if (JSON.stringify(again) !== JSON.stringify(truth))
    throw new Error("an exact search has different results");
  await add(server, rows, all);
  await server.process.end("SIGKILL");
  const second = await timed();
  await second.server.process.end();
  publish(
    "dense-start",
    {
      key: String(rows),
      title: `Starting with ${rows.toLocaleString("en")} vectors`,
      options: { rows, tail, set: set.name, dimension: set.dimension, efConstruction },
      rows: [
        row("all vectors acknowledged", addedMs / 1_000),
        row("all in the graph", builtMs / 1_000),
        row("checkpoint of graph and codes", kept.bytes / 1e6, "MB"),
        row("reading that file, and nothing else", kept.readMs / 1_000),
        row("start: the server listens", first.server.listeningMs / 1_000),
        row("start: the first search is answered", first.firstMs / 1_000),
        row("start: all is in place", first.readyMs / 1_000),
        row("the first exact search, which reads every vector from the store", beside.exactMs / 1_000),
        row("the longest that a search beside it waited", beside.longestMs, "ms"),
        row("killed after the tail; the first search is answered", second.firstMs / 1_000),
        row("the same; all is in place", second.readyMs / 1_000),
      ],
    },
    isKept,
  );
} finally {
  rmSync(directory, { recursive: true });
}
