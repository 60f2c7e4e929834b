import { expect, it } from "vitest";
import { killCampaign } from "./kill.ts";

it("[I3] [W12] a server that is killed 10 times under mixed load keeps what it acknowledged, and nothing else", async () => {
  const { kills, recordsCompared, filtersCompared, acknowledged } = await killCampaign({
    kills: 10,
    seed: 5,
    lanes: 3,
    // 200 in all: one in ten changes what a filter matches, one in 36 declares a field.
    operations: 20,
  });
  expect(kills).toBeGreaterThanOrEqual(10);
  expect(recordsCompared).toBeGreaterThan(0);
  expect(filtersCompared).toBeGreaterThan(0);
  const byFilter = ["deletes by filter", "updates by filter", "patches"].map(
    (kind) => acknowledged[kind] ?? 0,
  );
  expect(Math.max(...byFilter)).toBeGreaterThan(0);
  expect(acknowledged["fields declared"]).toBeGreaterThan(0);
}, 600_000);
