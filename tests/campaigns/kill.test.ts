import { expect, it } from "vitest";
import { killCampaign } from "./kill.ts";

it("[I3] [W12] a server that is killed 15 times under mixed load keeps what it acknowledged, and nothing else", async () => {
  const { kills, recordsCompared, filtersCompared, acknowledged } = await killCampaign({
    kills: 15,
    seed: 5,
    lanes: 3,
  });
  expect(kills).toBeGreaterThanOrEqual(15);
  expect(recordsCompared).toBeGreaterThan(0);
  expect(filtersCompared).toBeGreaterThan(0);
  // On a slow machine, not every kind is acknowledged between 15 kills.
  const byFilter = ["deletes by filter", "updates by filter", "patches"].map(
    (kind) => acknowledged[kind] ?? 0,
  );
  expect(Math.max(...byFilter)).toBeGreaterThan(0);
  expect(acknowledged["fields declared"]).toBeGreaterThan(0);
}, 600_000);
