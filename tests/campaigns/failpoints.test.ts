import { expect, it } from "vitest";
import { TemporaryFolder } from "./campaign.ts";
import { failpointCampaign, failpoints } from "./failpoints.ts";
import { ServerProcess } from "./server-process.ts";

/** One of each kind; `npm run campaign failpoints` runs all. */
const names = [
  "checkpoint:renamed",
  "checkpoint:written",
  "commit:applied",
  "create:synced",
  "drop:out-of-catalog",
  "history:kept",
  "publish:trimmed",
  "restore:in-catalog",
  "unload:noted",
  "vacuum:part-gone",
  "write:durable",
];

it("[I3] [V9] a server that crashes between two steps keeps what it acknowledged, and nothing is half done", async () => {
  expect(failpoints()).toEqual(expect.arrayContaining(names));
  const { reached, records } = await failpointCampaign({ names, passages: [1], seed: 7, lanes: 2 });
  expect(reached).toBe(names.length);
  expect(records).toBeGreaterThan(0);
}, 600_000);

it("a failpoint that is never reached is reported", async () => {
  await expect(
    failpointCampaign({ names: ["no:such-failpoint"], passages: [1], seed: 7, lanes: 1 }),
  ).rejects.toThrow("no:such-failpoint");
}, 600_000);

it("the environment variable alone does not arm a failpoint", async () => {
  using folder = new TemporaryFolder("failpoints");
  // Every start passes this failpoint.
  const point = "open:locked@1";
  await using alone = new ServerProcess(folder.join("alone"), { env: { QUIVER_FAILPOINT: point } });
  await using armed = new ServerProcess(folder.join("armed"), { failpoint: point });
  expect(await alone.listening, alone.output()).not.toBe(null);
  expect(await armed.listening).toBe(null);
  expect((await armed.ended).signal).toBe("SIGKILL");
}, 600_000);
