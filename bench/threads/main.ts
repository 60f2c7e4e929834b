// What does a second serving thread bring, and what does it cost?
//
//   npm run bench threads [-- --records 20000 --seconds 5 --rounds 5 --connections 8 --write]
//
// Three servers with the same records, each in its own process: with one serving thread, with as many as there are cores, and as `quiver
// serve` decides. One client loads them in turns: searches, upserts of one record, and nine searches to one upsert; once a client that only
// counts answers, and once one that works on each of them. The client runs on the same cores (raw-client.ts), so its own processor time is
// shown. Then searches are timed alone, and while somebody writes many records at a time without a pause. `--write` writes
// docs/benchmarks-threads.md.

import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { definitionOf, median, questions, recordsOf, topK } from "../rest/data.ts";
import { adminKey, clientOf, type MeasuredServer, startQuiver } from "../rest/measured-server.ts";
import { untilQuiet } from "../shared/quiet.ts";
import { writeDocument } from "../shared/report.ts";
import { load, requestOf } from "./raw-client.ts";

const { values } = parseArgs({
  options: {
    records: { type: "string", default: "20000" },
    seconds: { type: "string", default: "5" },
    rounds: { type: "string", default: "5" },
    connections: { type: "string", default: "8" },
    write: { type: "boolean", default: false },
  },
});
const [records, seconds, rounds, connections] = [
  Number(values.records),
  Number(values.seconds),
  Number(values.rounds),
  Number(values.connections),
];
const cores = availableParallelism();
const { name } = definitionOf(records);
const root = `/vectordb/collections/${name}`;
const base64 = ({ buffer, byteOffset, byteLength }: Float32Array) => ({
  f32: Buffer.from(buffer, byteOffset, byteLength).toString("base64"),
});

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
  const sorted = [...ms].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  return { p50: at(0.5), p99: at(0.99) };
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

async function fill(server: MeasuredServer): Promise<void> {
  const { send, end } = clientOf(server.url);
  await send("/vectordb/collections", Buffer.from(JSON.stringify(definitionOf(records))));
  const all = recordsOf(records).map(({ id, vector }) => ({ id, dense_values: base64(vector) }));
  for (let from = 0; from < records; from += 500)
    await send(
      `${root}/streaming/upsert`,
      Buffer.from(JSON.stringify({ vectors: all.slice(from, from + 500) })),
    );
  end();
  await untilQuiet(() => server.cpuMs());
}

const directory = mkdtempSync(join(tmpdir(), "quiver-bench-threads-"));
const sides: Side[] = [];
const ways: Readonly<Record<string, readonly string[]>> = {
  "1 thread": ["--serving-threads", "1"],
  [`${cores} threads`]: ["--serving-threads", String(cores)],
  default: [],
};
const caseOf = (work: string, client: string) => `${work}, a client ${client}`;
const cases = Object.keys(works).flatMap((work) =>
  Object.keys(clients).map((client) => caseOf(work, client)),
);
const latencies: ({ title: string } & Awaited<ReturnType<typeof timed>>)[] = [];
try {
  for (const [title, flags] of Object.entries(ways)) {
    const server = await startQuiver(join(directory, title), [], [...flags]);
    sides.push({ title, server, seen: new Map(cases.map((each) => [each, []])) });
    await fill(server);
  }
  for (let round = 0; round <= rounds; round++)
    for (const [work, next] of Object.entries(works))
      for (const [client, thinkUs] of Object.entries(clients))
        for (const { server, seen } of sides) {
          const port = Number(new URL(server.url).port);
          const [ownBefore, before] = [process.cpuUsage(), await server.cpuMs()];
          const loaded = await load(port, connections, seconds * 1_000, next, thinkUs);
          const { user, system } = process.cpuUsage(ownBefore);
          const serverUs = (((await server.cpuMs()) - before) * 1_000) / loaded.answers;
          await untilQuiet(() => server.cpuMs(), 100);
          // The first round warms up.
          if (round === 0) continue;
          const clientUs = (user + system) / loaded.answers;
          const rate = loaded.answers / loaded.seconds;
          seen.get(caseOf(work, client))?.push({ rate, serverUs, clientUs, ...timesOf(loaded.latenciesMs) });
        }
  for (const { title, server } of sides) {
    await untilQuiet(() => server.cpuMs());
    latencies.push({ title, ...(await timed(server)) });
  }
} finally {
  for (const { server } of sides) await server.end();
  rmSync(directory, { recursive: true, force: true });
}

const medianOf = ({ seen }: Side, work: string, of: keyof Seen): number =>
  median((seen.get(work) as Seen[]).map((each) => each[of]));
const rowsOf = (work: string): string[] =>
  sides.map((side) => {
    const of = (what: keyof Seen) => medianOf(side, work, what);
    const ratio = (what: keyof Seen) => (of(what) / medianOf(sides[0], work, what)).toFixed(2);
    const cells = [
      work,
      side.title,
      `${of("rate").toFixed(0)} (${ratio("rate")})`,
      of("p50").toFixed(1),
      `${of("p99").toFixed(1)} (${ratio("p99")})`,
      `${of("serverUs").toFixed(0)} (${ratio("serverUs")})`,
      ((of("clientUs") * of("rate")) / 1e6).toFixed(2),
    ];
    return `| ${cells.join(" | ")} |`;
  });
const table = [
  "| work | serving threads | a second (ratio to one thread) | p50, ms | p99, ms (ratio) | server CPU, µs (ratio) | client, cores |",
  "|---|---|---|---|---|---|---|",
  ...cases.flatMap(rowsOf),
].join("\n");
/** A verdict on the greatest of some ratios. */
const verdict = (most: number, ratios: readonly number[]) => {
  const greatest = Math.max(...ratios);
  return `${greatest <= most ? "Reached" : "**Missed**"}: ${greatest.toFixed(2)}.`;
};
const started = sides[sides.length - 1];
const cpuRatios = cases.map(
  (work) => medianOf(started, work, "serverUs") / medianOf(sides[0], work, "serverUs"),
);
const pair = ({ p50, p99 }: Times) => `${p50.toFixed(1)}, ${p99.toFixed(1)}`;
const latencyTable = [
  "| serving threads | alone: p50, p99 (ms) | during the load: p50, p99 (ms) | ratio of p99 | records written a second |",
  "|---|---|---|---|---|",
  ...latencies.map(
    ({ title, quiet, loaded, written }) =>
      `| ${title} | ${pair(quiet)} | ${pair(loaded)} | ${(loaded.p99 / quiet.p99).toFixed(1)} | ${written.toFixed(0)} |`,
  ),
].join("\n");
console.log(`${table}\n\n${latencyTable}`);
if (values.write)
  writeDocument(
    "benchmarks-threads.md",
    `# One serving thread, and one a core

Made by \`npm run bench threads -- --write\` on ${cpus().length} cores (${cpus()[0].model}), Node.js ${process.version}. ${records} records of 768 numbers, vectors as base64, \`top_k\` ${topK}, ${connections} connections; ${rounds} rounds of ${seconds} seconds for each server, in turns; medians. The client runs on the same cores: what it takes is missing to the server, and only more cores than the client needs would show the whole gain.

${table}

Goal: what is started costs at most 1.1 times the processor time of one thread for an answer. ${verdict(1.1, cpuRatios)} \`default\` starts with one thread, and with further ones when the load needs them ([decisions/serving-threads.md](decisions/serving-threads.md)).

## Searches during a bulk load

${timedConnections} connections search, alone and while one client writes ${bulkRecords} records a request without a pause. Goal: p99 at most twice that of a quiet server. ${verdict(
      2,
      latencies.map(({ quiet, loaded }) => loaded.p99 / quiet.p99),
    )}

${latencyTable}

What a thread does itself, and what only the owner of the database does: [decisions/serving-threads.md](decisions/serving-threads.md).
`,
  );
