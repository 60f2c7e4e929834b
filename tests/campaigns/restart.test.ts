import { expect, it } from "vitest";
import { restartCampaign } from "./restart.ts";

it("[R6] [I3] a killed server restarts at once, even while the killed process is still ending, and one of two starts becomes the owner", async () => {
  const { restarts, contended, recordsCompared } = await restartCampaign({ restarts: 8, seed: 13 });
  expect([restarts, contended]).toEqual([8, 1]);
  expect(recordsCompared).toBeGreaterThan(0);
}, 600_000);
