// How fast is Quiver, in short?
//
//   npm run bench short                   the short form of every benchmark; writes docs/benchmarks.md
//   npm run bench short -- --only text    some of dense, filters, sparse, shapes, text, growth, rest and servers, only printed
//
// Some half an hour. Each part is the benchmark of its own page with fewer rows, queries and rivals. Engines are asked the same queries in
// turns, so the ratios are those of one moment on one machine.

import { execFileSync } from "node:child_process";
import { cpus } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import * as dense from "./dense/data.ts";
import { engineKinds as denseEngines } from "./dense/engines.ts";
import { measure as measureDense } from "./dense/measure.ts";
import { engineKinds as filterEngines } from "./filters/engines.ts";
import { measure as measureFilters } from "./filters/measure.ts";
import { subjects } from "./growth/subjects.ts";
import { pageOf, type Short } from "./report.ts";
import type { Measured } from "./rest/report.ts";
import { serverKinds } from "./servers/kinds.ts";
import { measure as measureServers, type ServersResult } from "./servers/measure.ts";
import { kindNamed } from "./shared/engine.ts";
import { installRivals } from "./shared/install.ts";
import { writeDocument } from "./shared/report.ts";
import type { SetResult } from "./shared/results.ts";
import { engineKinds as sparseEngines } from "./sparse/engines.ts";
import { measure as measureSparse } from "./sparse/measure.ts";
import { measureShapes } from "./sparse/ratios.ts";
import * as text from "./text/data.ts";
import { engineKinds as textEngines } from "./text/engines.ts";
import { measure as measureText } from "./text/measure.ts";

const rounds = 3;
const queryCount = 200;
const [growing] = subjects;

/** The kinds of these names, without those that take too long to build or to ask for a short run. */
const chosen = <Kind extends { readonly name: string }>(kinds: readonly Kind[], names: string): Kind[] =>
  names.split(",").map((name) => kindNamed(kinds, name));

async function denseShort(): Promise<SetResult | undefined> {
  const set = "glove-cosine";
  const why = dense.missing(set);
  if (why !== undefined) return void console.log(`${set}: ${why}`);
  const engines = chosen(denseEngines, "quiver-database,quiver-u8,hnswlib,usearch-f32,vectorlite,zvec-int8");
  const beams = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384];
  return measureDense({ set, engines, beams, rounds, queryCount, rowsMax: 30_000 });
}

const filtersShort = (): Promise<SetResult> =>
  measureFilters({
    engines: chosen(filterEngines, "quiver-database,quiver-new,hnswlib,zvec,sqlite-vec"),
    rounds,
    queryCount: 20,
    rowCount: 10_000,
  });

const sparseShort = (): Promise<SetResult> =>
  measureSparse({
    set: "splade",
    engines: chosen(sparseEngines, "quiver-database,quiver,plain,zvec-flat"),
    thresholds: [0],
    rounds,
    queryCount,
    rowsMax: 50_000,
  });

async function textShort(): Promise<SetResult | undefined> {
  const why = text.missing();
  if (why !== undefined) return void console.log(why);
  const engines = chosen(textEngines, "quiver-database,quiver,plain,zvec,sqlite");
  return measureText({ set: "words", engines, rounds, queryCount, rowsMax: 50_000 });
}

const shapeNames = ["11k-44-topics", "11k-44-learned", "11k-120-plain", "scifact"];

/** In a process of its own, whose servers are. */
function restShort(): Measured[] {
  const script = join(import.meta.dirname, "rest", "main.ts");
  const options = ["--json", "--requests", "500", "--rounds", "5", "--records", "2000", "--warm", "20000"];
  const args = ["--disable-warning=ExperimentalWarning", script, ...options];
  const printed = execFileSync(process.execPath, args, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  return JSON.parse(printed.trim().split("\n").at(-1) as string);
}

/** The first steps of dense search. */
async function growthShort(): Promise<SetResult[]> {
  const results: SetResult[] = [];
  for (const rowsMax of growing.steps.slice(0, 3))
    results.push(await growing.measure({ rounds, queryCount, rowsMax }));
  return results;
}

async function serversShort(): Promise<ServersResult[]> {
  const set = "glove-cosine";
  const why = dense.missing(set);
  if (why !== undefined) console.log(`${set}: ${why}`);
  const results: ServersResult[] = [];
  for (const rowCount of why === undefined ? [10_000, 50_000] : [])
    results.push(
      await measureServers({
        set,
        rowCount,
        kinds: serverKinds,
        rounds,
        turnMs: 500,
        warmMs: 3_000,
        queryCount,
      }),
    );
  return results;
}

const parts = {
  dense: denseShort,
  filters: filtersShort,
  sparse: sparseShort,
  shapes: () => measureShapes(shapeNames, { rounds, queries: 60 }),
  text: textShort,
  growth: growthShort,
  rest: restShort,
  servers: serversShort,
} as const;

const allParts = Object.keys(parts).join(",");
const { values } = parseArgs({ options: { only: { type: "string", default: allParts } } });
const reason = installRivals();
if (reason !== undefined) console.log(reason);
const short: Record<string, unknown> = {};
for (const name of values.only.split(",")) {
  if (!(name in parts)) throw new Error(`no part is called ${name}; there are ${allParts}`);
  short[name] = await parts[name as keyof typeof parts]();
}
const { page, pictures } = pageOf(short as Short, {
  rounds,
  processor: cpus()[0]?.model ?? "unknown",
  day: new Date().toISOString().slice(0, 10),
});
console.log(page);
if (values.only === allParts) {
  for (const { path, svg } of pictures) writeDocument(path, svg);
  writeDocument("benchmarks.md", page);
}
