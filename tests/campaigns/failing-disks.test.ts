import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { TemporaryFolder } from "./campaign.ts";
import { compileShim, Faults, shimEnvironment, whyNoShim } from "./crash/disk-shim.ts";
import { failingDisksCampaign } from "./failing-disks.ts";

const reason = whyNoShim();

describe.skipIf(reason !== null)(`failing disks${reason === null ? "" : ` (skipped: ${reason})`}`, () => {
  it("[I9] failures of the disk are reported, nothing that was rejected is stored, and the server recovers with the disk", async () => {
    const { failedCalls, refused } = await failingDisksCampaign(7, 11);
    expect(failedCalls).toBeGreaterThan(3);
    expect(refused["storage_failed, in doubt"]).toBeGreaterThan(0);
    expect(refused.storage_full).toBeGreaterThan(0);
  }, 600_000);

  it("[I9] threads may open a store while a commit fails, and are told not_ready until it works again", () => {
    using folder = new TemporaryFolder("broken-store");
    const collection = join(folder.path, "disk", "collections", "c1");
    mkdirSync(collection, { recursive: true });
    const faults = new Faults(join(folder.path, "faults"));
    const env = shimEnvironment(compileShim(folder.path), {
      directory: join(folder.path, "disk"),
      faults: faults.path,
    });
    const program = join(import.meta.dirname, "crash", "broken-store.ts");
    const { status, signal, stdout, stderr } = spawnSync(
      process.execPath,
      [program, collection, faults.path, "150"],
      { env: { ...process.env, ...env }, encoding: "utf8", timeout: 120_000 },
    );
    expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: "" });
    expect(JSON.parse(stdout).refused).toBeGreaterThan(0);
  }, 180_000);
});
