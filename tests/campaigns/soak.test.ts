// A short form of tests/campaigns/soak.ts: some seconds, without assertions on times.

import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { seed } from "../seed.ts";
import { soak } from "./soak.ts";

test.skipIf(!existsSync("/proc/self/fd"))(
  `[O1] [I3] under twice its sustainable load, a server rejects requests correctly and loses nothing (seed ${seed})`,
  async () => {
    const options = { seconds: 6, seed, factor: 2, records: 1_000, measureSeconds: 2, isJudged: false };
    const figures = await soak(options, () => {});
    expect(figures["writes acknowledged"]).toBeGreaterThan(0);
    expect(figures["records compared with the oracle, twice"]).toBeGreaterThan(0);
  },
  150_000,
);
