// A short form of tests/campaigns/backup.ts.

import { expect, it } from "vitest";
import { seed } from "../seed.ts";
import { runCampaign } from "./backup.ts";

it(`[B1] [B5] backups under load, with the server killed, are each of one acknowledged version (seed ${seed})`, async () => {
  const figures = await runCampaign({ backups: 3, backupsPerLife: 3, seed, say: () => undefined });
  const [backups] = Object.values(figures);
  expect(backups).toBeGreaterThanOrEqual(3);
}, 600_000);
