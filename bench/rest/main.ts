// What does a search through REST cost the server, compared with the least server that could answer it?
//
//   npm run bench:rest [-- --requests 2000 --rounds 7 --forms json,base64 --write]
//
// Two servers, each in its own process, and one client with eight connections that drives them in turns: Quiver, and node:http alone
// (bare-server.ts) with the same bodies and answers of the same size. The collection is small, so that little of the cost is the search
// itself; that part is measured in this process, with the same data and the embedded engine. `--write` writes docs/benchmarks-rest.md.

import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { openDatabase } from "../../packages/engine/src/database/database.ts";
import { randomNumbers } from "../../packages/kernels/src/random.ts";
import { clientOf, drive, type MeasuredServer, startBare, startQuiver } from "./measured-server.ts";
import { type FormResult, report } from "./report.ts";

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "2000" },
    rounds: { type: "string", default: "7" },
    forms: { type: "string", default: "json,base64" },
    records: { type: "string", default: "2000" },
    profile: { type: "string" },
    write: { type: "boolean", default: false },
  },
});
const requests = Number(values.requests);
const rounds = Number(values.rounds);

const dimension = 768;
const records = Number(values.records);
const queries = 200;
const topK = 10;
const clusters = 50;
const recordsPerUpsert = 500;

const next = randomNumbers(768);
const centers = Array.from({ length: clusters }, () =>
  Float32Array.from({ length: dimension }, () => next() - 0.5),
);

/** A point near one of the centers. */
function point(): Float32Array {
  const center = centers[Math.floor(next() * clusters)];
  return center.map((value) => value + 0.3 * (next() - 0.5));
}

const rows = Array.from({ length: records }, point);
const questions = Array.from({ length: queries }, point);

const definition = {
  name: "bench",
  dense_vector: { enabled: true, dimension, auto_create_index: true },
  sparse_vector: { enabled: false },
  tf_idf_options: { enabled: false },
  config: {},
};

const forms: Readonly<Record<string, (vector: Float32Array) => unknown>> = {
  json: (vector) => Array.from(vector),
  base64: ({ buffer, byteOffset, byteLength }) => ({
    f32: Buffer.from(buffer, byteOffset, byteLength).toString("base64"),
  }),
};

const bodiesOf = (form: string): Buffer[] =>
  questions.map((vector) => Buffer.from(JSON.stringify({ query_vector: forms[form](vector), top_k: topK })));

const median = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];

/** Waits until the process does nothing any more: the index is built and measured. */
async function untilQuiet(server: { cpuMs(): Promise<number> }): Promise<void> {
  const lookMs = 1_000;
  // The profiler itself takes time.
  const quietMs = values.profile === undefined ? 30 : 200;
  for (let before = await server.cpuMs(), quiet = 0; quiet < 3; ) {
    await sleep(lookMs);
    const now = await server.cpuMs();
    quiet = now - before < quietMs ? quiet + 1 : 0;
    before = now;
  }
}

/** Microseconds of processor time of the process for a search in it. */
async function inProcessUs(dataDir: string): Promise<number> {
  const database = await openDatabase({ dataDir });
  const cpuMs = async () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  };
  try {
    await database.createCollection(definition);
    const collection = database.collection("bench");
    for (let from = 0; from < records; from += recordsPerUpsert)
      await collection.upsert(
        rows
          .slice(from, from + recordsPerUpsert)
          .map((row, i) => ({ id: `record-${from + i}`, dense_values: row })),
      );
    await collection.indexed();
    await untilQuiet({ cpuMs });
    const turn = async () => {
      const before = await cpuMs();
      for (let i = 0; i < requests; i++)
        await collection.searchDense({ query_vector: questions[i % queries], top_k: topK });
      return ((await cpuMs()) - before) * (1000 / requests);
    };
    await turn();
    const turns: number[] = [];
    for (let round = 0; round < rounds; round++) turns.push(await turn());
    return median(turns);
  } finally {
    await database.close();
  }
}

async function fill(url: string): Promise<void> {
  const { send, end } = clientOf(url);
  const asJson = (value: unknown) => Buffer.from(JSON.stringify(value));
  await send("/vectordb/collections", asJson(definition));
  for (let from = 0; from < records; from += recordsPerUpsert) {
    const vectors = rows
      .slice(from, from + recordsPerUpsert)
      .map((row, i) => ({ id: `record-${from + i}`, dense_values: Array.from(row) }));
    await send("/vectordb/collections/bench/streaming/upsert", asJson({ vectors }));
  }
  end();
}

/** Microseconds of a server's processor time for a request. */
async function turn(server: MeasuredServer, path: string, bodies: readonly Buffer[]): Promise<number> {
  const { send, end } = clientOf(server.url);
  await drive(send, path, bodies, 50);
  const before = await server.cpuMs();
  await drive(send, path, bodies, requests);
  const after = await server.cpuMs();
  end();
  return ((after - before) * 1000) / requests;
}

const directory = mkdtempSync(join(tmpdir(), "quiver-bench-rest-"));
const servers: MeasuredServer[] = [];
try {
  const searchUs = await inProcessUs(join(directory, "embedded"));
  console.log(`in process: ${searchUs.toFixed(1)} µs`);
  const flags = values.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.profile}`];
  const quiver = await startQuiver(join(directory, "served"), flags);
  const bare = await startBare();
  servers.push(quiver, bare);
  await fill(quiver.url);
  await untilQuiet(quiver);

  const results: FormResult[] = [];
  for (const form of values.forms.split(",")) {
    const bodies = bodiesOf(form);
    const sides = [
      { server: quiver, path: "/vectordb/collections/bench/search/dense", us: [] as number[] },
      { server: bare, path: "/", us: [] as number[] },
    ];
    for (let round = -1; round < rounds; round++) {
      for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
        const us = await turn(side.server, side.path, bodies);
        // The first round warms up.
        if (round >= 0) side.us.push(us);
      }
    }
    const [ours, theirs] = sides.map(({ us }) => us);
    const ratios = ours.map((us, i) => us / theirs[i]);
    results.push({
      form,
      bytes: bodies[0].length,
      quiverUs: median(ours),
      bareUs: median(theirs),
      ratio: median(ratios),
      ratioRange: [Math.min(...ratios), Math.max(...ratios)],
    });
    const { quiverUs, bareUs, ratio } = results[results.length - 1];
    console.log(
      `${form}: Quiver ${quiverUs.toFixed(1)} µs, bare ${bareUs.toFixed(1)} µs, ratio ${ratio.toFixed(2)} ` +
        `(${ratios.map((each) => each.toFixed(2)).join(" ")}), without the search ${((quiverUs - searchUs) / bareUs).toFixed(2)}`,
    );
  }
  report(
    { results, searchUs, requests, rounds, records, dimension, processor: cpus()[0]?.model ?? "unknown" },
    values.write,
  );
} finally {
  await Promise.all(servers.map(({ end }) => end()));
  rmSync(directory, { recursive: true, force: true });
}
