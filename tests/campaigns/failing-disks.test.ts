import { describe, expect, it } from "vitest";
import { whyNoShim } from "./crash/disk-shim.ts";
import { failingDisksCampaign } from "./failing-disks.ts";

const reason = whyNoShim();

describe.skipIf(reason !== null)(`failing disks${reason === null ? "" : ` (skipped: ${reason})`}`, () => {
  it("[I9] failures of the disk are reported, nothing that was rejected is stored, and the server recovers with the disk", async () => {
    const { failedCalls, refused } = await failingDisksCampaign(6, 11);
    expect(failedCalls).toBeGreaterThan(3);
    expect(refused["storage_failed, in doubt"]).toBeGreaterThan(0);
    expect(refused.storage_full).toBeGreaterThan(0);
  }, 600_000);
});
