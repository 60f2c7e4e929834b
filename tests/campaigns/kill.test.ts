import { expect, it } from "vitest";
import { killCampaign } from "./kill.ts";

it("[I3] [W12] a server that is killed 30 times under mixed load keeps what it acknowledged, and nothing else", async () => {
  const { kills, recordsCompared, filtersCompared, acknowledged } = await killCampaign({
    kills: 30,
    seed: 5,
    lanes: 3,
  });
  expect(kills).toBeGreaterThanOrEqual(30);
  expect(recordsCompared).toBeGreaterThan(0);
  expect(filtersCompared).toBeGreaterThan(0);
  for (const kind of ["deletes by filter", "updates by filter", "patches", "fields declared"])
    expect(acknowledged[kind], kind).toBeGreaterThan(0);
}, 600_000);
