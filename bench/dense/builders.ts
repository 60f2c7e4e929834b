// How much faster do two builder threads build than one?
//
//   npm run bench dense-builders [-- --rounds 3]     20,000 of the generated 128-d vectors first, then 100,000
//
// Wall time from the first record to the last link, with the two cases alternating. The machine needs a core for each builder, and part of
// another for the thread that assigns the jobs.

import "../../packages/engine/src/process/node-host.ts";
import { Background, type BackgroundEvents } from "../../packages/engine/src/base/background.ts";
import { HnswIndex } from "../../packages/engine/src/index/dense/hnsw-index.ts";
import { BuilderThreads } from "../../packages/engine/src/runtime/builders.ts";
import { bytesOfFloats } from "../../packages/engine/src/vector/floats.ts";
import { m } from "../engines/engine.ts";
import { median } from "../shared/figures.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";
import { inTurns } from "../shared/turns.ts";
import { readSet, titleOf } from "./data.ts";

const told: BackgroundEvents = {
  onFailed({ task, error }) {
    console.error(task, error);
    process.exit(1);
  },
  onRecovered() {},
};

const { values, isKept } = readOptions({}, { rounds: "3" });
const rounds = Number(values.rounds);
const efConstruction = 200;
const name = "clusters128-1m";
const set = readSet(name, 100_000);

async function build(width: number, count: number): Promise<{ wall: number; cpu: number }> {
  const builders = new BuilderThreads(new Background(told), width);
  const { dimension, metric } = set;
  try {
    const linked = Promise.withResolvers<void>();
    // Nothing else keeps the program running: builders do not.
    const awake = setInterval(() => {}, 1_000);
    const index = new HnswIndex({
      dimension,
      metric,
      dataType: "u8",
      m,
      efConstruction,
      builders,
      // The owner of an index continues its work; measuring recall is no part of building.
      measures: false,
      onMore: () => setImmediate(goOn),
      onProgress: () => goOn(),
    });
    const goOn = () => {
      while (index.tidy());
      if (index.failure !== undefined || (index.isIdle && index.tailCount === 0)) linked.resolve();
    };
    const before = process.cpuUsage();
    const begin = performance.now();
    for (let i = 0; i < count; i++) index.add(i, bytesOfFloats(set.rows[i]));
    await linked.promise;
    clearInterval(awake);
    const wall = (performance.now() - begin) / 1_000;
    const { user, system } = process.cpuUsage(before);
    if (index.failure !== undefined) throw index.failure;
    index.close();
    return { wall, cpu: (user + system) / 1e6 };
  } finally {
    await builders.close();
  }
}

const rows = [];
for (const count of [20_000, 100_000]) {
  const taken = [1, 2].map((builders) => ({ builders, seconds: [] as number[], cpuS: [] as number[] }));
  await inTurns(
    () => taken,
    { rounds, warmUps: 0 },
    async ({ builders, seconds, cpuS }) => {
      const { wall, cpu } = await build(builders, count);
      seconds.push(wall);
      cpuS.push(cpu);
    },
  );
  const [one] = taken.map(({ seconds }) => median(seconds));
  for (const { builders, seconds, cpuS } of taken)
    rows.push({
      vectors: count,
      builders,
      seconds: median(seconds),
      cpuS: median(cpuS),
      speedup: one / median(seconds),
    });
}
const options = { rounds, set: name, m, efConstruction };
publish("dense-builders", { key: "all", title: titleOf(name), options, rows }, isKept);
