// How fast is an exact dense search?
//
//   npm run bench flat
//
// The scan of all rows against the plain TypeScript loop that it replaces, on 100,000 word vectors of 100 dimensions, with the same queries
// alternately, so that both run under the same conditions. CPU time is that of the process; GB/s counts the bytes of the vectors once per
// query. The results are compared, too.

import "../packages/engine/src/process/node-host.ts";
import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { Greatest } from "../packages/engine/src/base/top-k.ts";
import { VectorRows } from "../packages/engine/src/index/dense/vector-rows.ts";
import { exactDot, exactSquaredDistance, squaredNorm } from "../packages/engine/src/vector/exact.ts";
import type { Metric } from "../packages/engine/src/vector/metric.ts";
import { exactNearest } from "../packages/engine/test/index/exact-nearest.ts";
import { missing, readSet } from "./dense/data.ts";
import { median } from "./shared/figures.ts";
import { readOptions } from "./shared/options.ts";
import { publish } from "./shared/publish.ts";
import { ownCpuMs } from "./shared/quiet.ts";
import { inTurns } from "./shared/turns.ts";

const dimension = 100;
const queriesPerTurn = 10;
const turns = 20;
const k = 10;

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

/** CPU milliseconds a query of both, in turns with the same queries, whose results must be the same. */
async function measure(index: VectorRows, rows: Float32Array, queries: readonly Float32Array[]) {
  const factors = Float64Array.from({ length: rows.length / dimension }, (_, i) =>
    index.metric.rowFactor(squaredNorm(rows, i * dimension, dimension)),
  );
  const flat = (query: Float32Array) => Math.min(...exactNearest(index, query, k).scores);
  const plain = (query: Float32Array) => plainLoop(index.metric, rows, factors, query);
  const sides = [flat, plain].map((worst) => ({ worst, found: [] as number[][], ms: [] as number[] }));
  await inTurns(
    () => sides,
    { rounds: turns, warmUps: 2 },
    ({ worst, found, ms }, isWarmUp) => {
      const from = (ms.length % turns) * queriesPerTurn;
      const batch = queries.slice(from, from + queriesPerTurn);
      const before = ownCpuMs();
      const scores = batch.map(worst);
      const spent = (ownCpuMs() - before) / batch.length;
      if (isWarmUp) return;
      ms.push(spent);
      found.push(scores);
    },
  );
  const [a, b] = sides.map(({ found }) => found.flat());
  if (a.some((score, i) => Math.abs(score - b[i]) > 1e-12 * Math.abs(score)))
    throw new Error("the answers differ");
  const [flatMs, plainMs] = sides.map(({ ms }) => median(ms));
  return { flatMs, plainMs };
}

const { isKept } = readOptions({}, {});
const name = "glove-cosine";
const why = missing(name);
if (why !== undefined) console.log(`skipped: ${why}`);
else {
  const { rows: base, queries } = readSet(name);
  const all = new Float32Array(base.length * dimension);
  base.forEach((row, i) => void all.set(row, i * dimension));
  const gigabytes = all.byteLength / 1e9;
  const rows = [];
  for (const metric of metricNames) {
    const index = new VectorRows({ dimension, metric });
    base.forEach((row, ordinal) => void index.add(ordinal, row));
    const { flatMs, plainMs } = await measure(index, all, queries);
    const perSecond = (ms: number) => (1_000 * gigabytes) / ms;
    rows.push({
      metric,
      flatMs,
      flatGBPerSecond: perSecond(flatMs),
      plainMs,
      plainGBPerSecond: perSecond(plainMs),
      times: plainMs / flatMs,
    });
  }
  publish(
    "flat",
    {
      key: "glove100",
      title: "Exact search beside a plain loop",
      options: { rows: base.length, dimension, k, turns },
      rows,
    },
    isKept,
  );
}
