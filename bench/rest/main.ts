// What does a search through REST cost the server, compared with the least server that could answer it?
//
//   npm run bench rest [-- --requests 2000 --rounds 7 --records 10,2000 --warm 80000 --write]
//
// Two servers, each in its own process, and one client with eight connections that drives them in turns: Quiver, and node:http alone
// (bare-server.ts) with the same bodies and answers of the same size. With ten records, all of which are found, little of the cost is the
// search; what the same search costs in a process of its own is measured, too (embedded.ts). `--write` writes docs/benchmarks-rest.md; `--json` prints
// the figures for bench/main.ts; `--profile DIR` makes Node.js write a profile of the server there.

import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { untilQuiet } from "../shared/quiet.ts";
import { writeDocument } from "../shared/report.ts";
import { definitionOf, median, queries, questions, recordsOf, topK } from "./data.ts";
import { embeddedUs } from "./embedded.ts";
import {
  clientOf,
  drive,
  type MeasuredServer,
  type Send,
  startBare,
  startQuiver,
} from "./measured-server.ts";
import { type Measured, page } from "./report.ts";

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "2000" },
    rounds: { type: "string", default: "7" },
    records: { type: "string", default: "10,2000" },
    warm: { type: "string", default: "80000" },
    profile: { type: "string" },
    write: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const requests = Number(values.requests);
const rounds = Number(values.rounds);
const warm = Number(values.warm);
const sizes = values.records.split(",").map(Number);

/** The forms of a vector in a body. */
const forms: Readonly<Record<string, (vector: Float32Array) => unknown>> = {
  numbers: (vector) => Array.from(vector),
  base64: ({ buffer, byteOffset, byteLength }) => ({
    f32: Buffer.from(buffer, byteOffset, byteLength).toString("base64"),
  }),
};

const asJson = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

const recordsPerUpsert = 500;

async function fill(send: Send, size: number): Promise<void> {
  const definition = definitionOf(size);
  await send("/vectordb/collections", asJson(definition));
  const records = recordsOf(size).map(({ id, vector }) => ({ id, dense_values: forms.base64(vector) }));
  for (let from = 0; from < size; from += recordsPerUpsert) {
    const vectors = records.slice(from, from + recordsPerUpsert);
    await send(`/vectordb/collections/${definition.name}/streaming/upsert`, asJson({ vectors }));
  }
}

/** One server, and what it is asked. */
type Side = {
  readonly server: MeasuredServer;
  readonly send: Send;
  readonly path: string;
  readonly bodies: readonly Buffer[];
  readonly us: number[];
};

/** Adds the microseconds of the server's processor time for a request. */
async function turn({ server, send, path, bodies, us }: Side): Promise<void> {
  const before = await server.cpuMs();
  await drive(send, path, bodies, requests);
  us.push((((await server.cpuMs()) - before) * 1_000) / requests);
}

const directory = mkdtempSync(join(tmpdir(), "quiver-bench-rest-"));
const ends: (() => unknown)[] = [];
try {
  const searchUs = new Map<number, number>();
  for (const size of sizes)
    searchUs.set(size, await embeddedUs(join(directory, `${size}`), size, requests, rounds));

  const flags = values.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.profile}`];
  const quiver = await startQuiver(join(directory, "served"), flags);
  ends.push(quiver.end);
  const bare = await startBare();
  ends.push(bare.end);
  const toQuiver = clientOf(quiver.url);
  const toBare = clientOf(bare.url);
  ends.push(toQuiver.end, toBare.end);
  for (const size of sizes) await fill(toQuiver.send, size);
  await untilQuiet(quiver.cpuMs, values.profile === undefined ? undefined : 200);

  const runs = sizes.flatMap((size) =>
    Object.entries(forms).map(([form, formOf]) => {
      const bodies = questions.map((vector) => asJson({ query_vector: formOf(vector), top_k: topK }));
      const path = `/vectordb/collections/${definitionOf(size).name}/search/dense`;
      const ours: Side = { server: quiver, send: toQuiver.send, path, bodies, us: [] };
      const theirs: Side = { server: bare, send: toBare.send, path: "/", bodies, us: [] };
      return { size, form, ours, theirs };
    }),
  );
  // The compiler of Node.js works for some ten thousand requests.
  for (const { ours, theirs } of runs)
    for (const { send, path, bodies } of [ours, theirs]) await drive(send, path, bodies, warm / runs.length);
  for (let round = 0; round < rounds; round++)
    for (const { ours, theirs } of runs)
      for (const side of round % 2 === 0 ? [ours, theirs] : [theirs, ours]) await turn(side);

  const measured = runs.map(({ size, form, ours, theirs }): Measured => {
    const ratios = ours.us.map((us, i) => us / theirs.us[i]);
    return {
      records: size,
      form,
      bodyBytes: ours.bodies[0].length,
      quiverUs: median(ours.us),
      bareUs: median(theirs.us),
      searchUs: searchUs.get(size) as number,
      ratio: median(ratios),
      ratioRange: [Math.min(...ratios), Math.max(...ratios)],
    };
  });
  const text = page(measured, { requests, rounds, warm, queries, processor: cpus()[0]?.model ?? "unknown" });
  console.log(values.json ? JSON.stringify(measured) : text);
  if (values.write) writeDocument("benchmarks-rest.md", text);
} finally {
  for (const end of ends.toReversed()) await end();
  rmSync(directory, { recursive: true, force: true });
}
