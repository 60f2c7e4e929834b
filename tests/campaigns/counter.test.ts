import { expect, it } from "vitest";
import { counterCampaign } from "./counter.ts";

it("[V11] no update is lost that depends on the version which was read, whoever else writes and whenever the server is killed", async () => {
  const { increments, refused, kills } = await counterCampaign({ rounds: 300, clients: 16, killEvery: 100 });
  expect(increments).toBeGreaterThanOrEqual(300);
  expect(refused).toBeGreaterThan(0);
  expect(kills).toBeGreaterThanOrEqual(2);
}, 600_000);
