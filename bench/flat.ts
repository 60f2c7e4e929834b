// How fast is an exact dense search?
//
//   node bench/flat.ts
//
// The scan of all rows against the plain TypeScript loop that it replaces, on 100,000 word vectors of 100 dimensions, with the same queries
// alternately, so that both run under the same conditions. CPU time is that of the process; GB/s counts the bytes of the vectors once per
// query. The results are compared, too.

import "../packages/engine/src/process/node-host.ts";
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { Greatest } from "../packages/engine/src/base/top-k.ts";
import { VectorRows } from "../packages/engine/src/index/dense/vector-rows.ts";
import { exactDot, exactSquaredDistance, squaredNorm } from "../packages/engine/src/vector/exact.ts";
import type { Metric } from "../packages/engine/src/vector/metric.ts";
import { exactNearest } from "../packages/engine/test/index/exact-nearest.ts";

const dimension = 100;
const queriesPerTurn = 10;
const turns = 20;
const k = 10;

const data = resolve(import.meta.dirname, "../../shared/data/glove100-100k");

function readRows(path: string): Float32Array[] {
  const all = new Float32Array(Uint8Array.from(readFileSync(path)).buffer);
  return Array.from({ length: all.length / dimension }, (_, i) =>
    all.subarray(i * dimension, (i + 1) * dimension),
  );
}

/** The k-th best score, by a loop over all vectors in one array, with precomputed norms. */
function plainLoop(metric: Metric, rows: Float32Array, factors: Float64Array, query: Float32Array): number {
  const value = metric.kernel === "dotRows" ? exactDot : exactSquaredDistance;
  const { scale, scaleByFactor } = metric.kernelBound(query, dimension);
  const best = new Greatest(k);
  for (let i = 0; i < factors.length; i++) {
    best.offer(0 - value(query, rows, i * dimension) * (scale + scaleByFactor * factors[i]));
  }
  return metric.score(0 - best.floor);
}

/** CPU milliseconds of a call. */
function cpuMs(act: () => void): number {
  const before = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[times.length >> 1];

function measure(index: VectorRows, rows: Float32Array, queries: readonly Float32Array[]) {
  const times: { flat: number[]; plain: number[] } = { flat: [], plain: [] };
  const factors = Float64Array.from({ length: rows.length / dimension }, (_, i) =>
    index.metric.rowFactor(squaredNorm(rows, i * dimension, dimension)),
  );
  for (let turn = 0; turn < turns; turn++) {
    const batch = queries.slice(turn * queriesPerTurn, (turn + 1) * queriesPerTurn);
    const worst: { flat: number[]; plain: number[] } = { flat: [], plain: [] };
    const run = {
      flat: () => batch.map((query) => Math.min(...exactNearest(index, query, k).scores)),
      plain: () => batch.map((query) => plainLoop(index.metric, rows, factors, query)),
    };
    // The first takes turns, too.
    for (const side of turn % 2 === 0 ? (["flat", "plain"] as const) : (["plain", "flat"] as const)) {
      const ms = cpuMs(() => {
        worst[side] = run[side]();
      });
      times[side].push(ms / batch.length);
    }
    const differ = (score: number, i: number) => Math.abs(score - worst.plain[i]) > 1e-12 * Math.abs(score);
    if (worst.flat.some(differ)) throw new Error("the answers differ");
  }
  return { flat: median(times.flat), plain: median(times.plain) };
}

if (!existsSync(data)) {
  console.log("skipped: the data set glove100-100k is not in ../shared/data");
} else {
  const base = readRows(`${data}/base.f32`);
  const queries = readRows(`${data}/queries.f32`);
  const rows = new Float32Array(base.length * dimension);
  base.forEach((row, i) => {
    rows.set(row, i * dimension);
  });
  const gigabytes = rows.byteLength / 1e9;
  console.log(`Exact search, ${base.length} x ${dimension}, top ${k}, one thread, medians of ${turns} turns`);
  console.log("metric        flat ms   GB/s   plain loop ms   GB/s   plain / flat");
  for (const metric of metricNames) {
    const index = new VectorRows({ dimension, metric });
    base.forEach((row, ordinal) => {
      index.add(ordinal, row);
    });
    measure(index, rows, queries.slice(-turns * queriesPerTurn));
    const { flat, plain } = measure(index, rows, queries);
    const perSecond = (ms: number) => (gigabytes / (ms / 1_000)).toFixed(1);
    const cells = [
      metric.padEnd(12),
      flat.toFixed(2).padStart(9),
      perSecond(flat).padStart(7),
      plain.toFixed(2).padStart(16),
      perSecond(plain).padStart(7),
      (plain / flat).toFixed(1).padStart(15),
    ];
    console.log(cells.join(""));
  }
}
