// What does a second serving thread bring, and what does it cost?
//
//   npm run bench threads [-- --records 20000 --seconds 5 --rounds 5 --connections 8]
//
// Three servers with the same records, each in its own process: with one serving thread, with as many as there are cores, and as `quiver
// serve` decides. One client loads them in turns: searches, upserts of one record, and nine searches to one upsert; once a client that only
// counts answers, and once one that works on each of them. The client runs on the same cores (raw-client.ts), so its own processor time is
// shown. Then searches are timed alone, and while somebody writes many records at a time without a pause.

import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { base64, definitionOf, questions, recordsOf, topK } from "../rest/data.ts";
import { adminKey, clientOf, fill, type MeasuredServer, startQuiver } from "../rest/measured-server.ts";
import { median, quantile } from "../shared/figures.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";
import { untilQuiet } from "../shared/quiet.ts";
import { inTurns } from "../shared/turns.ts";
import { load, requestOf } from "./raw-client.ts";

const { values, isKept } = readOptions({}, { records: "20000", seconds: "5", rounds: "5", connections: "8" });
const [records, seconds, rounds, connections] = [
  Number(values.records),
  Number(values.seconds),
  Number(values.rounds),
  Number(values.connections),
];
const cores = availableParallelism();
const { name } = definitionOf(records);
const root = `/vectordb/collections/${name}`;
const searches = questions.map((question) =>
  requestOf("POST", `${root}/search/dense`, adminKey, { query_vector: base64(question), top_k: topK }),
);
const upserts = questions.map((question, i) =>
  requestOf("POST", `${root}/streaming/upsert`, adminKey, {
    vectors: [{ id: `record-${i}`, dense_values: base64(question) }],
  }),
);

let turn = 0;
const works: Readonly<Record<string, () => Buffer>> = {
  searches: () => searches[turn++ % searches.length],
  upserts: () => upserts[turn++ % upserts.length],
  "nine searches to one upsert": () => (turn % 10 === 0 ? upserts : searches)[turn++ % searches.length],
};

/** Connections of the searches that are timed, and records of a request of the bulk load. */
const timedConnections = 4;
const bulkRecords = 500;

/** Milliseconds of searches. */
type Times = { readonly p50: number; readonly p99: number };

const timesOf = (ms: readonly number[]): Times => {
  const all = Float64Array.from(ms);
  return { p50: quantile(all, 0.5), p99: quantile(all, 0.99) };
};

/** Searches alone, and during a bulk load. */
async function timed({ url }: MeasuredServer): Promise<{ quiet: Times; loaded: Times; written: number }> {
  const search = async () => {
    const { latenciesMs } = await load(
      Number(new URL(url).port),
      timedConnections,
      2_000 * seconds,
      works.searches,
    );
    return timesOf(latenciesMs);
  };
  const quiet = await search();
  const all = recordsOf(records).map(({ vector }, i) => ({ id: `bulk-${i}`, dense_values: base64(vector) }));
  const bodies = Array.from({ length: Math.floor(records / bulkRecords) }, (_, i) =>
    Buffer.from(JSON.stringify({ vectors: all.slice(i * bulkRecords, (i + 1) * bulkRecords) })),
  );
  const { send, end } = clientOf(url);
  let isOver = false;
  let sent = 0;
  const writing = (async () => {
    while (!isOver) await send(`${root}/streaming/upsert`, bodies[sent++ % bodies.length]);
  })();
  const startMs = performance.now();
  const loaded = await search();
  const written = (sent * bulkRecords) / ((performance.now() - startMs) / 1_000);
  isOver = true;
  await writing;
  end();
  return { quiet, loaded, written };
}

/** Processor time that a client spends on each answer: with one that works, a search leaves half a core to it. */
const clients: Readonly<Record<string, number>> = { "that counts": 0, "that works": 110 };

/** A way to start the server. @property flags none: as it decides itself */
type Side = { readonly title: string; readonly server: MeasuredServer; readonly seen: Map<string, Seen[]> };

/** Of one turn: answers a second, milliseconds, and the processor time of server and client for an answer. */
type Seen = Times & { readonly rate: number; readonly serverUs: number; readonly clientUs: number };

const directory = mkdtempSync(join(tmpdir(), "quiver-bench-threads-"));
const sides: Side[] = [];
const ways: Readonly<Record<string, readonly string[]>> = {
  "1 thread": ["--serving-threads", "1"],
  [`${cores} threads`]: ["--serving-threads", String(cores)],
  default: [],
};
const cases = Object.keys(works).flatMap((work) => Object.keys(clients).map((client) => ({ work, client })));
const keyOf = ({ work, client }: (typeof cases)[number]): string => `${work}, ${client}`;
const latencies: ({ title: string } & Awaited<ReturnType<typeof timed>>)[] = [];
try {
  for (const [title, flags] of Object.entries(ways)) {
    const server = await startQuiver(join(directory, title), [], [...flags]);
    sides.push({ title, server, seen: new Map(cases.map((each) => [keyOf(each), []])) });
    const { send, end } = clientOf(server.url);
    await fill(send, records);
    end();
    await untilQuiet(() => server.cpuMs());
  }
  const turns = cases.flatMap((each) => sides.map((side) => ({ each, side })));
  await inTurns(
    () => turns,
    { rounds },
    async ({ each, side: { server, seen } }, isWarmUp) => {
      const port = Number(new URL(server.url).port);
      const [ownBefore, before] = [process.cpuUsage(), await server.cpuMs()];
      const loaded = await load(port, connections, seconds * 1_000, works[each.work], clients[each.client]);
      const { user, system } = process.cpuUsage(ownBefore);
      const serverUs = (((await server.cpuMs()) - before) * 1_000) / loaded.answers;
      await untilQuiet(() => server.cpuMs(), 100);
      if (isWarmUp) return;
      const clientUs = (user + system) / loaded.answers;
      const rate = loaded.answers / loaded.seconds;
      seen.get(keyOf(each))?.push({ rate, serverUs, clientUs, ...timesOf(loaded.latenciesMs) });
    },
  );
  for (const { title, server } of sides) {
    await untilQuiet(() => server.cpuMs());
    latencies.push({ title, ...(await timed(server)) });
  }
} finally {
  for (const { server } of sides) await server.end();
  rmSync(directory, { recursive: true, force: true });
}

const rowOf = (each: (typeof cases)[number], side: Side) => {
  const medianOf = ({ seen }: Side, of: keyof Seen) =>
    median((seen.get(keyOf(each)) as Seen[]).map((taken) => taken[of]));
  const of = (what: keyof Seen) => medianOf(side, what);
  const times = (what: keyof Seen) => of(what) / medianOf(sides[0], what);
  return {
    ...each,
    threads: side.title,
    perSecond: of("rate"),
    perSecondTimes: times("rate"),
    p50Ms: of("p50"),
    p99Ms: of("p99"),
    p99Times: times("p99"),
    serverUs: of("serverUs"),
    serverTimes: times("serverUs"),
    clientCores: (of("clientUs") * of("rate")) / 1e6,
  };
};
const options = { cores, records, dimension: 768, connections, rounds, seconds };
publish(
  "threads",
  {
    key: "work",
    title: "One serving thread, and one a core",
    options,
    rows: cases.flatMap((each) => sides.map((side) => rowOf(each, side))),
  },
  isKept,
);
publish(
  "threads",
  {
    key: "load",
    title: "Searches during a bulk load",
    options: { ...options, connections: timedConnections, per: bulkRecords },
    rows: latencies.map(({ title, quiet, loaded, written }) => ({
      threads: title,
      aloneP50Ms: quiet.p50,
      aloneP99Ms: quiet.p99,
      loadedP50Ms: loaded.p50,
      loadedP99Ms: loaded.p99,
      p99Times: loaded.p99 / quiet.p99,
      writtenPerSecond: written,
    })),
  },
  isKept,
);
