// How soon does a collection of a million vectors answer after a start?
//
//   npm run bench dense-start [-- --rows 1000000 --tail 10000]
//
// A real server takes the vectors over HTTP, builds its index, and is stopped. It is started again and searched at once. Then it gets the
// last `tail` vectors, is killed, and is started once more, which replays those vectors from the log. Written to
// docs/benchmarks-dense-start.md. The files are in the page cache, as after a restart of a service.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { type Collection, createClient, type QuiverClient } from "@quiverdb/client";
import { built } from "../shared/built.ts";
import { head, line, whole, writeDocument } from "../shared/report.ts";
import { readSet } from "./data.ts";

const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "1000000" },
    tail: { type: "string", default: "10000" },
  },
});
/** Number of all vectors, and of those added after the restart. */
const all = Number(values.rows);
const tail = Number(values.tail);
const rows = all - tail;
const batch = 5_000;
/** Smaller than the default, so that building takes only minutes; the start time does not depend on it. */
const efConstruction = 40;
const main = resolve(import.meta.dirname, "../../packages/cli/dist/main.js");
const key = "bench-start";
const directory = mkdtempSync(join(tmpdir(), "quiver-start-"));
const set = readSet("clusters128-1m", all);

type Server = {
  readonly child: ChildProcess;
  readonly client: QuiverClient;
  readonly collection: Collection;
  readonly listeningMs: number;
};

async function start(): Promise<Server> {
  const begin = performance.now();
  const child = spawn(process.execPath, [main, "serve", "--port", "0", "--data-dir", directory], {
    env: { ...process.env, QUIVER_ADMIN_KEY: key },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const text of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    const url = /Quiver listens on (http:\/\/[^\s"]+)/.exec(text)?.[1];
    if (url === undefined) continue;
    const client = createClient({ url, apiKey: key });
    return { child, client, collection: client.collection("start"), listeningMs: performance.now() - begin };
  }
  throw new Error("the server ended before it listened");
}

function end({ child }: Server, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  return new Promise((done) => {
    child.once("exit", () => done());
    child.kill(signal);
  });
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

const seconds = (ms: number) => `${(ms / 1_000).toFixed(2)} s`;

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
  await end(server, "SIGTERM");
  const kept = checkpoint();
  const first = await timed();
  server = first.server;
  const beside = await firstExact(server);
  const again = await search(server, true);
  if (JSON.stringify(again) !== JSON.stringify(truth))
    throw new Error("an exact search has different results");
  await add(server, rows, all);
  await end(server, "SIGKILL");
  const second = await timed();
  await end(second.server, "SIGTERM");
  const table = [
    head(["", ""]),
    line(["all vectors acknowledged", seconds(addedMs)]),
    line(["all in the graph", seconds(builtMs)]),
    line(["checkpoint of graph and codes", `${whole(kept.bytes / 1e6)} MB`]),
    line(["reading that file, and nothing else", seconds(kept.readMs)]),
    line(["start: the server listens", seconds(first.server.listeningMs)]),
    line(["start: the first search is answered", seconds(first.firstMs)]),
    line(["start: all is in place", seconds(first.readyMs)]),
    line(["the first exact search, which reads every vector from the store", seconds(beside.exactMs)]),
    line(["the longest that a search beside it waited", `${whole(beside.longestMs)} ms`]),
    line([`killed after ${whole(tail)} more vectors; the first search is answered`, seconds(second.firstMs)]),
    line(["the same; all is in place", seconds(second.readyMs)]),
  ];
  const text = `# Starting with ${whole(rows)} vectors

Written by \`npm run bench dense-start\`: a real server with ${whole(rows)} vectors of ${set.dimension} dimensions (\`clusters128-1m\`), stopped and started
again. The graph was built with an \`ef_construction\` of ${efConstruction}, which the start does not depend on. Times are of the wall, on a machine that others use too, with files in the page cache.

${table.join("\n")}
`;
  console.log(text);
  if (all === 1_000_000) writeDocument("benchmarks-dense-start.md", text);
} finally {
  rmSync(directory, { recursive: true });
}
