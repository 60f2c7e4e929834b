import { expect, it } from "vitest";
import { restartCampaign } from "./restart.ts";

it("[R6] [I3] a server that was killed is up again at once, though the killed process still ends, and one of two is the owner", async () => {
  const { restarts, contended, recordsCompared } = await restartCampaign({ restarts: 8, seed: 13 });
  expect([restarts, contended]).toEqual([8, 1]);
  expect(recordsCompared).toBeGreaterThan(0);
}, 600_000);
