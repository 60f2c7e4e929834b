import { expect, it } from "vitest";
import { seed } from "../seed.ts";
import { timeTravelCampaign } from "./time-travel.ts";

it("[V4] [V5] [V9] [V15] every version is what it was, whatever else is written and whenever the server is killed", async () => {
  const counts = await timeTravelCampaign({ versions: 60, compared: 10, kills: 3, seed });
  expect(counts.versions).toBe(60);
  expect(counts.compared).toBeGreaterThanOrEqual(10);
  expect(counts.kills).toBe(3);
}, 600_000);
