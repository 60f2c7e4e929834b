import { expect, it } from "vitest";
import { killCampaign } from "./kill.ts";

it("[I3] a server that is killed 30 times under mixed load keeps what it acknowledged, and nothing else", async () => {
  const { kills, recordsCompared } = await killCampaign({ kills: 30, seed: 5, lanes: 3 });
  expect(kills).toBeGreaterThanOrEqual(30);
  expect(recordsCompared).toBeGreaterThan(0);
}, 600_000);
