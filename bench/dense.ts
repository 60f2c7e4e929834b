// How fast is the HNSW index at equal recall, and what does it take to build?
//
//   npm run bench:dense     writes docs/benchmarks-dense.md
//
// Same data, same parameters (M = 16, ef_construction = 200), one thread, CPU time of the process. Each round asks every
// engine the same queries at every beam, in turns; medians over rounds are interpolated to a recall. The rivals are
// installed into bench/node_modules, apart from the product's dependencies; one that does not install is left out, and
// the page says so. What runs beside the benchmark shares the machine: ratios are worth more than milliseconds.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { FlatIndex } from "../packages/engine/src/index/flat/flat-index.ts";
import type { HnswDataType } from "../packages/engine/src/index/hnsw/encoding.ts";
import { HnswIndex } from "../packages/engine/src/index/hnsw/hnsw-index.ts";
import { bytesOfFloats } from "../packages/engine/src/vector/floats.ts";

const here = import.meta.dirname;
const data = resolve(here, "../../shared/data");
const require = createRequire(join(here, "package.json"));
const rounds = 3;
const k = 10;
const beams = [16, 32, 64, 96, 128, 192, 256, 384, 512];

type Metric = "cosine" | "euclidean";
type DataSet = {
  name: string;
  metric: Metric;
  dimension: number;
  rows: Float32Array[];
  queries: Float32Array[];
  truth: Int32Array[];
};
type Engine = {
  name: string;
  add(row: Float32Array, i: number): void;
  /** Ids of about the k nearest; null for an engine without a beam. */
  search(query: Float32Array, ef: number): ArrayLike<number | bigint>;
  bytesPerVector(): number | undefined;
};
type Result = { name: string; buildS: number; bytes: number | undefined; points: Map<number, Point> };
type Point = { recall: number; times: number[] };

function floats(path: string): Float32Array {
  return new Float32Array(Uint8Array.from(readFileSync(join(data, path))).buffer);
}

function rowsOf(all: Float32Array, dimension: number): Float32Array[] {
  return Array.from({ length: all.length / dimension }, (_, i) =>
    all.subarray(i * dimension, (i + 1) * dimension),
  );
}

/** The texmex formats: each row is its length and its values, four bytes each. */
function texmex(path: string): Float32Array[] {
  const all = floats(path);
  const dimension = new Int32Array(all.buffer)[0];
  return Array.from({ length: all.length / (dimension + 1) }, (_, i) =>
    all.slice(i * (dimension + 1) + 1, (i + 1) * (dimension + 1)),
  );
}

const integers = (rows: Float32Array[]): Int32Array[] => rows.map((row) => new Int32Array(row.buffer));

const sets: Record<string, () => DataSet> = {
  "glove100-100k": () => ({
    name: "glove100-100k, 100,000 x 100, cosine",
    metric: "cosine",
    dimension: 100,
    rows: rowsOf(floats("glove100-100k/base.f32"), 100),
    queries: rowsOf(floats("glove100-100k/queries.f32"), 100),
    truth: integers(texmex("glove100-100k/gt_cosine_top100.ivecs")),
  }),
  siftsmall: () => ({
    name: "siftsmall, 10,000 x 128, euclidean",
    metric: "euclidean",
    dimension: 128,
    rows: texmex("siftsmall/siftsmall_base.fvecs"),
    queries: texmex("siftsmall/siftsmall_query.fvecs"),
    truth: integers(texmex("siftsmall/siftsmall_groundtruth.ivecs")),
  }),
};

function ours(set: DataSet, dataType: HnswDataType): Engine {
  const index = new HnswIndex({
    dimension: set.dimension,
    metric: set.metric,
    dataType,
    m: 16,
    efConstruction: 200,
  });
  return {
    name: `Quiver ${dataType}, exact re-scoring`,
    add: (row, i) => index.add(i, bytesOfFloats(row)),
    search: (query, ef) => index.search(query, k, { ef }).ordinals,
    bytesPerVector: () => index.memoryBytes / index.count,
  };
}

function flat(set: DataSet): Engine {
  const index = new FlatIndex({ dimension: set.dimension, metric: set.metric });
  return {
    name: "Quiver flat (exact)",
    add: (row, i) => index.add(i, bytesOfFloats(row)),
    search: (query) => index.search(query, k, null).ordinals,
    bytesPerVector: () => index.memoryBytes / index.count,
  };
}

function hnswlib(set: DataSet): Engine {
  const { HierarchicalNSW } = require("hnswlib-node");
  const index = new HierarchicalNSW(set.metric === "cosine" ? "cosine" : "l2", set.dimension);
  index.initIndex(set.rows.length, 16, 200, 100);
  // Its interface wants arrays of numbers; they are made before the clock starts.
  const plain = new Map([...set.rows, ...set.queries].map((row) => [row, [...row]]));
  return {
    name: "hnswlib-node 3.0.0",
    add: (row, i) => index.addPoint(plain.get(row), i),
    search: (query, ef) => {
      index.setEf(ef);
      return index.searchKnn(plain.get(query), k).neighbors;
    },
    bytesPerVector: () => undefined,
  };
}

/** CPU milliseconds of a call. */
function cpuMs(act: () => void): number {
  const before = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

function measure(set: DataSet, engines: Engine[]): Result[] {
  const results = engines.map(
    ({ name }) => ({ name, buildS: 0, bytes: undefined, points: new Map() }) as Result,
  );
  engines.forEach((engine, e) => {
    results[e].buildS = cpuMs(() => set.rows.forEach((row, i) => void engine.add(row, i))) / 1_000;
    results[e].bytes = engine.bytesPerVector();
    console.log(`${engine.name}: built in ${results[e].buildS.toFixed(1)} CPU s`);
  });
  const truths = set.truth.map((row) => new Set(row.subarray(0, k)));
  for (let round = 0; round <= rounds; round++) {
    const turn = round % 2 === 0 ? [...engines.keys()] : [...engines.keys()].reverse();
    for (const ef of beams) {
      for (const e of turn) {
        const engine = engines[e];
        const isFixed = engine.name.startsWith("Quiver flat");
        if (isFixed && ef !== 64) continue;
        const queries = isFixed ? set.queries.slice(0, 100) : set.queries.slice(0, 400);
        let met = 0;
        const ms = cpuMs(() => {
          queries.forEach((query, i) => {
            const found = engine.search(query, ef);
            for (let j = 0; j < found.length; j++) if (truths[i].has(Number(found[j]))) met++;
          });
        });
        const point = results[e].points.get(ef) ?? { recall: 0, times: [] };
        point.recall = met / (k * queries.length);
        // The first round warms up.
        if (round > 0) point.times.push(ms / queries.length);
        results[e].points.set(ef, point);
      }
    }
  }
  return results;
}

/** CPU ms a query at this recall. `isBound`: the smallest beam has more recall, so this is an upper bound. */
type At = { ms: number; isBound: boolean };

/** Interpolated between the beams around the recall; undefined where it is not reached. */
function msAt(recall: number, { points }: Result): At | undefined {
  const sorted = [...points.values()].map((point) => ({ recall: point.recall, ms: median(point.times) }));
  const above = sorted.findIndex((point) => point.recall >= recall);
  if (above < 0) return undefined;
  if (above === 0) return { ms: sorted[0].ms, isBound: sorted.length > 1 };
  const [low, high] = [sorted[above - 1], sorted[above]];
  const ms = low.ms + ((high.ms - low.ms) * (recall - low.recall)) / (high.recall - low.recall);
  return { ms, isBound: false };
}

function table(set: DataSet, results: Result[]): string {
  const reference = results.find(({ name }) => name.startsWith("hnswlib"));
  const cell = (recall: number, result: Result): string => {
    const at = msAt(recall, result);
    if (at === undefined) return "not reached";
    if (at.isBound) return `at most ${at.ms.toFixed(3)}`;
    const theirs = reference === undefined ? undefined : msAt(recall, reference);
    if (theirs === undefined || theirs.isBound) return at.ms.toFixed(3);
    return `${at.ms.toFixed(3)} (${(theirs.ms / at.ms).toFixed(2)})`;
  };
  const lines = results.map((result) => {
    const recalls = [...result.points.values()].map(({ recall }) => recall);
    const bytes = result.bytes === undefined ? "not told" : result.bytes.toFixed(0);
    const range = `${Math.min(...recalls).toFixed(3)} to ${Math.max(...recalls).toFixed(3)}`;
    return `| ${result.name} | ${cell(0.95, result)} | ${cell(0.99, result)} | ${range} | ${result.buildS.toFixed(1)} | ${bytes} |`;
  });
  return `## ${set.name}

| engine | ms at 0.95 | ms at 0.99 | recall seen | build CPU s | bytes a vector |
|---|---|---|---|---|---|
${lines.join("\n")}
`;
}

/** Installs the rivals as bench/package-lock.json says; returns those that can be loaded, and why others cannot. */
function install(): { loaded: Set<string>; reasons: string[] } {
  const run = (...args: string[]) => execFileSync("npm", args, { cwd: here, stdio: "pipe" });
  const names = ["hnswlib-node"];
  const loaded = new Set<string>();
  const reasons: string[] = [];
  try {
    if (!existsSync(join(here, "node_modules"))) {
      run("ci", "--ignore-scripts");
      run("rebuild", ...names);
    }
  } catch (error) {
    reasons.push(`npm could not install the rivals: ${String(error).split("\n")[0]}`);
  }
  for (const name of names) {
    try {
      require(name);
      loaded.add(name);
    } catch (error) {
      reasons.push(
        `${name} is left out, for it cannot be loaded (${(error as { code?: string }).code ?? "no code"}).`,
      );
    }
  }
  return { loaded, reasons };
}

const { loaded, reasons } = install();
const tables: string[] = [];
for (const [folder, read] of Object.entries(sets)) {
  if (!existsSync(join(data, folder))) {
    reasons.push(`The data set ${folder} is not in ../shared/data.`);
    continue;
  }
  const set = read();
  const engines = [ours(set, "u8"), ours(set, "f32"), flat(set)];
  if (loaded.has("hnswlib-node")) engines.push(hnswlib(set));
  tables.push(table(set, measure(set, engines)));
  console.log(tables.at(-1));
}

const page = `# Dense search: benchmarks

Written by \`npm run bench:dense\` ([bench/dense.ts](../bench/dense.ts)); do not edit. M = 16, ef_construction = 200, one thread, recall@10 against the sets' ground truth, CPU milliseconds a query at a recall of 0.95 and 0.99, medians of ${rounds} interleaved rounds, linear between the beams ${beams.join(", ")}. In brackets: how many times the queries per CPU second of hnswlib-node as shipped. A cell with "at most" is of the smallest beam, whose recall is above the column's: no ratio is given there. The flat index is exact and has one point. Bytes a vector are those of codes and graph, without the vectors kept for re-scoring.

${tables.join("\n")}
${reasons.map((reason) => `- ${reason}\n`).join("")}`;
writeFileSync(resolve(here, "../docs/benchmarks-dense.md"), `${page.trimEnd()}\n`);
