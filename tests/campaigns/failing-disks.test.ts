import { describe, expect, it } from "vitest";
import { whyNoShim } from "./crash/disk-shim.ts";
import { failingDisksCampaign } from "./failing-disks.ts";

const reason = whyNoShim();

describe.skipIf(reason !== null)(`failing disks${reason === null ? "" : ` (skipped: ${reason})`}`, () => {
  it("[I9] a disk that fails is told, nothing that was refused is there, and the server is well when the disk is", async () => {
    const { failedCalls, refused } = await failingDisksCampaign(6, 11);
    expect(failedCalls).toBeGreaterThan(3);
    expect(refused["storage_failed, in doubt"]).toBeGreaterThan(0);
    expect(refused.storage_full).toBeGreaterThan(0);
  }, 240_000);
});
