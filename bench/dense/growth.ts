// Does the cost of a search grow as the logarithm of the number of vectors?
//
//   npm run bench dense-growth                  writes docs/benchmarks-dense-growth.md and its picture
//   npm run bench dense-growth -- --max 100000  the first steps only, which are only printed
//
// One index grows from step to step and gets the same queries at each step, with the beam widths of the dense benchmark; the cost at a
// recall of 0.95 (and 0.99) is interpolated between beam widths. The first rows of the generated set are a sample of the whole, because its
// rows are drawn independently.

import { cpus } from "node:os";
import { parseArgs } from "node:util";
import type { HnswDataType } from "../../packages/engine/src/index/dense/code-types.ts";
import { chart, logarithmicTicks } from "../shared/chart.ts";
import { fit, type Line } from "../shared/fit.ts";
import { writeDocument } from "../shared/report.ts";
import { type At, at, median, type Point, recallOf } from "../shared/results.ts";
import { readSet, titleOf, truthOf } from "./data.ts";
import { openQuiver } from "./engines/quiver.ts";
import { k } from "./measure.ts";

const setName = "clusters128-1m";
const recalls = [0.95, 0.99] as const;
const steps = [10_000, 30_000, 100_000, 300_000, 1_000_000];
const beams = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];

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
  readonly buildCpuS: number;
  /** At each of `recalls`: the cost and the beam width. */
  readonly ms: readonly At[];
  readonly ef: readonly At[];
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
      const taken = beams.map(() => ({ recall: 0, times: [] as number[] }));
      for (let round = 0; round <= rounds; round++) {
        beams.forEach((ef, b) => {
          const ids = new Int32Array(k * queries.length).fill(-1);
          const ms = cpuMs(() => {
            queries.forEach((query, i) => {
              const found = index.search(query, k, ef);
              for (let j = 0; j < Math.min(k, found.length); j++) ids[i * k + j] = found[j];
            });
          });
          taken[b].recall = recallOf(ids, truth, k);
          // The first round warms up.
          if (round > 0) taken[b].times.push(ms / queries.length);
        });
      }
      const points = taken.map(({ recall, times }, b): Point => {
        return {
          effort: beams[b],
          recall,
          cpuMs: median(times),
          wallP50Ms: Number.NaN,
          wallP99Ms: Number.NaN,
        };
      });
      const reached = (cost: (point: Point) => number): At[] =>
        recalls.map((recall) => {
          const found = at(recall, points, cost);
          if (found === undefined)
            throw new Error(`a recall of ${recall} is not reached with ${step} vectors`);
          return found;
        });
      const ms = reached((point) => point.cpuMs);
      console.log(`${step}: ${ms.map(({ value }) => value.toFixed(4)).join(" and ")} ms`);
      return { count, buildCpuS: buildMs / 1_000, ms, ef: reached((point) => point.effort) };
    });
}

const written = ({ value, isBound }: At, digits: number): string =>
  `${isBound ? "at most " : ""}${value.toFixed(digits)}`;

/** The growth at one recall, from all steps. */
function fitsOf(measured: readonly Step[], which: number): { logarithmic: Line; power: Line } {
  const logs = measured.map(({ count }) => Math.log10(count));
  const costs = measured.map(({ ms }) => ms[which].value);
  return { logarithmic: fit(logs, costs), power: fit(logs, costs.map(Math.log10)) };
}

function pictureOf(measured: readonly Step[], dataType: string): string {
  const first = measured[0];
  const last = measured[measured.length - 1];
  const ceiling = 1.1 * Math.max(...measured.flatMap(({ ms }) => ms.map(({ value }) => value)));
  const tick = 10 ** Math.floor(Math.log10(ceiling / 2));
  return chart(
    `Quiver ${dataType}: CPU time a query at a recall, against the number of vectors`,
    {
      title: "vectors",
      from: first.count,
      to: last.count,
      isLogarithmic: true,
      ticks: logarithmicTicks(first.count, last.count),
    },
    {
      title: "CPU ms a query",
      from: 0,
      to: ceiling,
      ticks: Array.from({ length: Math.floor(ceiling / tick) + 1 }, (_, i) => ({
        value: i * tick,
        label: String(Number((i * tick).toPrecision(3))),
      })),
    },
    recalls.flatMap((recall, which) => {
      const { constant, slope } = fitsOf(measured, which).logarithmic;
      return [
        {
          title: `recall@${k} ${recall}`,
          isOurs: true,
          points: measured.map(({ count, ms }) => [count, ms[which].value] as const),
        },
        {
          title: `${recall}: a + b log N`,
          isGuide: true,
          points: [first, last].map(({ count }) => [count, constant + slope * Math.log10(count)] as const),
        },
      ];
    }),
  );
}

function pageOf(measured: readonly Step[], dataType: string): string {
  const first = measured[0];
  const lines = measured.map(({ count, ms, ef, buildCpuS }) => {
    const cells = recalls.flatMap((_, which) => [
      written(ms[which], 4),
      written(ef[which], 0),
      (ms[which].value / Math.log10(count)).toFixed(4),
      (ms[which].value / first.ms[which].value).toFixed(2),
    ]);
    return `| ${[count.toLocaleString("en"), (count / first.count).toFixed(0), ...cells, buildCpuS.toFixed(1)].join(" | ")} |`;
  });
  const fits = recalls.map((recall, which) => {
    const { logarithmic, power } = fitsOf(measured, which);
    return `- At ${recall}: ${logarithmic.constant.toFixed(4)} + ${logarithmic.slope.toFixed(4)} log10 N (R² ${logarithmic.r2.toFixed(3)}); as a power, N^${power.slope.toFixed(3)} (R² ${power.r2.toFixed(3)}).`;
  });
  const last = measured[measured.length - 1];
  const wanted = Math.log10(last.count) / Math.log10(first.count);
  const parts = recalls.map((recall, which) => {
    const times = last.ms[which].value / first.ms[which].value;
    const beams = last.ef[which].value / first.ef[which].value;
    return `- At ${recall}, ${times.toFixed(1)} times: the beam is ${beams.toFixed(1)} times as long, and each of its entries costs ${(times / beams).toFixed(1)} times as much.`;
  });
  const isReached = recalls.every((_, which) => last.ms[which].value / first.ms[which].value <= 1.1 * wanted);
  const verdict = `**The goal is ${isReached ? "" : "not "}reached.** From ${first.count.toLocaleString("en")} to ${last.count.toLocaleString("en")} vectors log N grows ${wanted.toFixed(2)} times, and the cost`;
  const heads = recalls.map((recall) => `CPU ms at ${recall} | beam | ms / log10 N | times the first`);
  return `# Dense search: growth

Written by \`npm run bench dense-growth\` ([bench/dense/growth.ts](../bench/dense/growth.ts)); do not edit. Goal: grows as log N. One index of ${dataType} codes, M = 16, ef_construction = 200, grows over the first rows of "${titleOf(setName)}"; CPU milliseconds a query at a recall@${k}, linear between beams, medians of ${values.rounds} rounds, ${values.queries} queries. ${new Date().toISOString().slice(0, 10)}, ${cpus()[0]?.model ?? "unknown processor"}.

| N | times the first | ${heads.join(" | ")} | build CPU s so far |
|${"---|".repeat(3 + 4 * recalls.length)}
${lines.join("\n")}

${verdict}

${parts.join("\n")}

That entries cost more is memory: the graph of 10,000 vectors is 4 MB, that of a million 400 MB, far beyond every cache, and its 4 KB pages beyond the tables of addresses that the processor keeps. That beams grow is the data: the more vectors lie in the same clusters, the nearer each other are those that a search has to tell apart.

Least squares:

${fits.join("\n")}

![CPU time against the number of vectors](images/dense-growth.svg)
`;
}

const countMax = Number(values.max);
const measured = grow(countMax, Number(values.rounds), Number(values.queries), values.type as HnswDataType);
const page = pageOf(measured, values.type);
console.log(page);
if (countMax >= (steps.at(-1) as number)) {
  writeDocument("benchmarks-dense-growth.md", page);
  writeDocument("images/dense-growth.svg", pictureOf(measured, values.type));
}
