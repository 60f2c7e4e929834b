import { describe, expect, it } from "vitest";
import { whyNoShim } from "./crash/disk-shim.ts";
import { powerLossCampaign } from "./power-loss.ts";

const reason = whyNoShim();

describe.skipIf(reason !== null)(`power loss${reason === null ? "" : ` (skipped: ${reason})`}`, () => {
  it("[I8] what was acknowledged before the power went is there, whatever became of what was not synced", async () => {
    const { images, withUnsynced } = await powerLossCampaign({ images: 25, seed: 3 });
    expect(images).toBe(25);
    expect(withUnsynced).toBeGreaterThan(0);
  }, 600_000);

  it("a disk that forgets what it has synced is found out", async () => {
    await expect(powerLossCampaign({ images: 40, seed: 3, isLying: true })).rejects.toThrow("the power gone");
  }, 600_000);
});
