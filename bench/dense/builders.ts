// How much faster do two builder threads build than one?
//
//   npm run bench dense-builders     prints; 20,000 of the generated 128-d vectors first, then 100,000
//
// Wall time from the first record to the last link, with the two cases alternating. The machine needs a core for each builder, and part of
// another for the thread that assigns the jobs.

import "../../packages/engine/src/process/node-host.ts";
import { Background, type BackgroundEvents } from "../../packages/engine/src/base/background.ts";
import { HnswIndex } from "../../packages/engine/src/index/dense/hnsw-index.ts";
import { BuilderThreads } from "../../packages/engine/src/runtime/builders.ts";
import { bytesOfFloats } from "../../packages/engine/src/vector/floats.ts";
import { readSet } from "./data.ts";
import { efConstruction, m } from "./engine.ts";

const told: BackgroundEvents = {
  onFailed({ task, error }) {
    console.error(task, error);
    process.exit(1);
  },
  onRecovered() {},
};

const set = readSet("clusters128-1m", 100_000);
const rounds = 3;

async function build(width: number, count: number): Promise<{ wall: number; cpu: number }> {
  const builders = new BuilderThreads(new Background(told), width);
  const { dimension, metric } = set;
  try {
    let onProgress = () => {};
    const index = new HnswIndex({
      dimension,
      metric,
      dataType: "u8",
      m,
      efConstruction,
      builders,
      onProgress: () => onProgress(),
    });
    const before = process.cpuUsage();
    const begin = performance.now();
    const done = new Promise<void>((resolve) => {
      onProgress = () => {
        if (index.isIdle && index.tailCount === 0) resolve();
      };
    });
    for (let i = 0; i < count; i++) index.add(i, bytesOfFloats(set.rows[i]));
    await done;
    const wall = (performance.now() - begin) / 1_000;
    const { user, system } = process.cpuUsage(before);
    if (index.failure !== undefined) throw index.failure;
    index.close();
    return { wall, cpu: (user + system) / 1e6 };
  } finally {
    await builders.close();
  }
}

for (const count of [20_000, 100_000]) {
  for (let round = 0; round < rounds; round++) {
    const one = await build(1, count);
    const two = await build(2, count);
    console.log(
      `${count} vectors: one builder ${one.wall.toFixed(2)} s (${one.cpu.toFixed(1)} CPU s), two ${two.wall.toFixed(2)} s (${two.cpu.toFixed(1)} CPU s): ${(one.wall / two.wall).toFixed(2)} times`,
    );
  }
}
