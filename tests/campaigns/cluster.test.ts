// A short form of tests/campaigns/cluster.ts: each kind of fault.

import { expect, test } from "vitest";
import { seed } from "../seed.ts";
import { clusterCampaign, missingNats } from "./cluster.ts";

const missing = missingNats();

test.skipIf(missing !== null)(
  `[Y1] [Y2] [Y4] [Y6] [Y16] [Y17] a serial order explains what clients of a cluster saw of three shards through faults, and its replicas are equal (seed ${seed}; ${missing ?? "nats-server is there"})`,
  async () => {
    const seen = await clusterCampaign({
      seed,
      faults: 18,
      writers: 3,
      readers: 3,
      shards: 3,
      say: () => undefined,
    });
    expect(seen.operations).toBeGreaterThan(100);
  },
  900_000,
);
