// A short form of tests/campaigns/histories.ts: some seconds, with a kill or a stop in between.

import { expect, it } from "vitest";
import { seed } from "../seed.ts";
import { histories } from "./histories.ts";

it(`[I2] [I3] [I7] [T1] [T3] [Q11] a serial order explains what concurrent clients saw, across restarts (seed ${seed})`, async () => {
  const seen = await histories({
    seed,
    seconds: 8,
    secondsBetweenRestarts: 4,
    writers: 4,
    readers: 5,
    say: () => undefined,
  });
  expect(seen["operations in the history"]).toBeGreaterThan(20);
  expect(seen["kills, stops of the server"]).toMatch(/[1-9]/);
}, 600_000);
