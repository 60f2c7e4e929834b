import { describe, expect, it } from "vitest";
import { whyNoShim } from "./crash/disk-shim.ts";
import { powerLossCampaign } from "./power-loss.ts";

const reason = whyNoShim();

describe.skipIf(reason !== null)(`power loss${reason === null ? "" : ` (skipped: ${reason})`}`, () => {
  it("[I8] what was acknowledged before the power loss exists, whatever happened to unsynced data", async () => {
    const { images, withUnsynced } = await powerLossCampaign({ images: 15, seed: 3 });
    expect(images).toBe(15);
    expect(withUnsynced).toBeGreaterThan(0);
  }, 600_000);

  it("a disk that loses synced data is detected", async () => {
    await expect(powerLossCampaign({ images: 40, seed: 3, isLying: true })).rejects.toThrow("the power gone");
  }, 600_000);
});
