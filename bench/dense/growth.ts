// Does the cost of a search grow as the logarithm of the number of vectors?
//
//   npm run bench:dense:growth                  writes docs/benchmarks-dense-growth.md and its picture
//   npm run bench:dense:growth -- --max 100000  the first steps only, which are only printed
//
// One index grows from step to step, and is asked the same queries at each, with the beams of the dense benchmark; the cost
// is that at a recall of 0.95, between beams. The first rows of the generated set are a sample of the whole, for its rows
// are drawn independently.

import { mkdirSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { HnswDataType } from "../../packages/engine/src/index/hnsw/encoding.ts";
import { chart, logarithmicTicks } from "./chart.ts";
import { readSet, titleOf, truthOf } from "./data.ts";
import { openQuiver } from "./engines/quiver.ts";
import { at, k, median, type Point, recallOf } from "./results.ts";

const setName = "clusters128-1m";
const recall = 0.95;
const steps = [10_000, 30_000, 100_000, 300_000, 1_000_000];
const beams = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256];

const { values } = parseArgs({
  options: {
    max: { type: "string", default: String(steps.at(-1)) },
    rounds: { type: "string", default: "3" },
    queries: { type: "string", default: "400" },
    type: { type: "string", default: "u8" },
  },
});

type Step = {
  readonly count: number;
  readonly ms: number;
  readonly ef: number;
  readonly isBound: boolean;
  readonly buildCpuS: number;
};

/** CPU milliseconds of a call. */
function cpuMs(act: () => void): number {
  const before = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

function grow(countMax: number, rounds: number, queryCount: number, dataType: HnswDataType): Step[] {
  const whole = readSet(setName);
  const queries = whole.queries.slice(0, queryCount);
  const index = openQuiver(whole, dataType);
  let count = 0;
  let buildMs = 0;
  return steps
    .filter((step) => step <= countMax)
    .map((step) => {
      const truth = truthOf({ ...whole, rows: whole.rows.slice(0, step), isWhole: false }, queryCount);
      buildMs += cpuMs(() => index.add(whole.rows.slice(count, step), count));
      count = step;
      const points = beams.map((ef): Point => {
        const ids = new Int32Array(k * queries.length).fill(-1);
        const times: number[] = [];
        for (let round = 0; round <= rounds; round++) {
          const ms = cpuMs(() => {
            queries.forEach((query, i) => {
              const found = index.search(query, k, ef);
              for (let j = 0; j < Math.min(k, found.length); j++) ids[i * k + j] = found[j];
            });
          });
          // The first round warms up.
          if (round > 0) times.push(ms / queries.length);
        }
        return { ef, recall: recallOf(ids, truth, k), cpuMs: median(times), wallP50Ms: 0, wallP99Ms: 0 };
      });
      const ms = at(recall, points, (point) => point.cpuMs);
      const ef = at(recall, points, (point) => point.ef);
      if (ms === undefined || ef === undefined)
        throw new Error(`a recall of ${recall} is not reached at ${step}`);
      console.log(`${step}: ${ms.value.toFixed(4)} ms at ef ${ef.value.toFixed(0)}`);
      return { count, ms: ms.value, ef: ef.value, isBound: ms.isBound, buildCpuS: buildMs / 1_000 };
    });
}

type Line = { readonly constant: number; readonly slope: number; readonly r2: number };

/** The line through points that leaves the least squares, and the share of the variance that it explains. */
function fit(xs: readonly number[], ys: readonly number[]): Line {
  const mean = (numbers: readonly number[]) =>
    numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  const [mx, my] = [mean(xs), mean(ys)];
  const covariance = mean(xs.map((x, i) => (x - mx) * (ys[i] - my)));
  const slope = covariance / mean(xs.map((x) => (x - mx) ** 2));
  const constant = my - slope * mx;
  const left = mean(ys.map((y, i) => (y - constant - slope * xs[i]) ** 2));
  return { constant, slope, r2: 1 - left / mean(ys.map((y) => (y - my) ** 2)) };
}

function pageOf(measured: readonly Step[], dataType: string): { page: string; picture: string } {
  const logs = measured.map(({ count }) => Math.log10(count));
  const costs = measured.map(({ ms }) => ms);
  const logarithmic = fit(logs, costs);
  const power = fit(
    logs,
    costs.map((ms) => Math.log10(ms)),
  );
  const first = measured[0];
  const last = measured[measured.length - 1];
  const ceiling = 1.2 * Math.max(...costs);
  const stepOfTicks = 10 ** Math.floor(Math.log10(ceiling / 2));
  const picture = chart(
    `Quiver ${dataType}: CPU time a query at recall@${k} ${recall}, against N`,
    {
      title: "vectors",
      from: first.count,
      to: last.count,
      isLogarithmic: true,
      ticks: logarithmicTicks(first.count, last.count).filter(({ value }) => value <= last.count),
    },
    {
      title: "CPU ms a query",
      from: 0,
      to: ceiling,
      ticks: Array.from({ length: Math.floor(ceiling / stepOfTicks) + 1 }, (_, i) => ({
        value: i * stepOfTicks,
        label: Number((i * stepOfTicks).toPrecision(3)).toString(),
      })),
    },
    [
      { title: `Quiver ${dataType}`, isOurs: true, points: measured.map(({ count, ms }) => [count, ms]) },
      {
        title: "fit: a + b log N",
        isGuide: true,
        points: [first, last].map(({ count }) => [
          count,
          logarithmic.constant + logarithmic.slope * Math.log10(count),
        ]),
      },
    ],
  );
  const lines = measured.map(
    ({ count, ms, ef, isBound, buildCpuS }) =>
      `| ${count.toLocaleString("en")} | ${isBound ? "at most " : ""}${ms.toFixed(4)} | ${ef.toFixed(0)} | ${(ms / Math.log10(count)).toFixed(4)} | ${(ms / first.ms).toFixed(2)} | ${(count / first.count).toFixed(0)} | ${buildCpuS.toFixed(1)} |`,
  );
  const page = `# Dense search: growth

Written by \`npm run bench:dense:growth\` ([bench/dense/growth.ts](../bench/dense/growth.ts)); do not edit. Goal: grows as log N. One index of ${dataType} codes, M = 16, ef_construction = 200, grows over the first rows of "${titleOf(setName)}"; CPU milliseconds a query at recall@${k} ${recall}, linear between beams, medians of rounds, ${values.queries} queries. ${new Date().toISOString().slice(0, 10)}, ${cpus()[0]?.model ?? "unknown processor"}.

| N | CPU ms at ${recall} | beam there | ms / log10 N | cost, times that of the first | N, times the first | build CPU s so far |
|---|---|---|---|---|---|---|
${lines.join("\n")}

Least squares: ${logarithmic.constant.toFixed(4)} + ${logarithmic.slope.toFixed(4)} log10 N (R² ${logarithmic.r2.toFixed(3)}); as a power of N: N^${power.slope.toFixed(3)} (R² ${power.r2.toFixed(3)}). The cost includes what a larger index loses in the processor's caches.

![CPU time against the number of vectors](images/dense-growth.svg)
`;
  return { page, picture };
}

const countMax = Number(values.max);
const measured = grow(countMax, Number(values.rounds), Number(values.queries), values.type as HnswDataType);
const { page, picture } = pageOf(measured, values.type);
console.log(page);
if (countMax >= (steps.at(-1) as number)) {
  const docs = resolve(import.meta.dirname, "../../docs");
  mkdirSync(join(docs, "images"), { recursive: true });
  writeFileSync(join(docs, "benchmarks-dense-growth.md"), page);
  writeFileSync(join(docs, "images/dense-growth.svg"), picture);
}
