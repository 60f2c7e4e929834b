import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { startServer } from "./crash/server-process.ts";
import { failpointCampaign, failpoints } from "./failpoints.ts";

/** One of each kind; `npm run test:failpoints` runs all. */
const names = [
  "checkpoint:renamed",
  "checkpoint:written",
  "commit:applied",
  "create:synced",
  "drop:out-of-catalog",
  "publish:trimmed",
  "restore:in-catalog",
  "unload:noted",
  "write:durable",
];

it("[I3] a server that crashes between two steps keeps what it acknowledged, and nothing is half done", async () => {
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
  const folder = mkdtempSync(join(tmpdir(), "quiver-failpoints-"));
  // Every start passes this failpoint.
  const point = "open:locked@1";
  const alone = startServer(join(folder, "alone"), { QUIVER_FAILPOINT: point });
  const armed = startServer(join(folder, "armed"), {}, false, point);
  try {
    expect(await alone.listening, alone.output()).not.toBe(null);
    expect(await armed.listening).toBe(null);
    expect((await armed.ended).signal).toBe("SIGKILL");
  } finally {
    await Promise.all([alone.kill(), armed.kill()]);
    rmSync(folder, { recursive: true, force: true });
  }
}, 600_000);
