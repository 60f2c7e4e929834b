import { expect, it } from "vitest";
import { failpointCampaign, failpoints } from "./failpoints.ts";

/** One of each journey; `npm run test:failpoints` goes through all. */
const names = [
  "checkpoint:renamed",
  "checkpoint:written",
  "commit:applied",
  "create:synced",
  "drop:out-of-catalog",
  "publish:trimmed",
  "unload:noted",
  "write:durable",
];

it("[I3] a server that ends between two steps has what it acknowledged, and nothing half done", async () => {
  expect(failpoints()).toEqual(expect.arrayContaining(names));
  const { reached, records } = await failpointCampaign({ names, passages: [1], seed: 7, lanes: 2 });
  expect(reached).toBe(names.length);
  expect(records).toBeGreaterThan(0);
}, 240_000);

it("a failpoint that is never reached is told", async () => {
  await expect(
    failpointCampaign({ names: ["no:such-failpoint"], passages: [1], seed: 7, lanes: 1 }),
  ).rejects.toThrow("no:such-failpoint");
}, 240_000);
