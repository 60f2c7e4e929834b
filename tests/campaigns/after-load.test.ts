import { expect, it } from "vitest";
import { afterLoadCampaign, missesOf } from "./after-load.ts";

it.for(["streaming by 8", "kill and restart", "a third updated"])(
  "[N14] a search is as fast right after a load as later, and finds every record: %s",
  { timeout: 600_000 },
  async (only) => {
    // Ratios leave room for a busy machine. A beam that a thread keeps from a young graph is not seen at this size, nor at 8,000 x 384:
    // view.test.ts and threads.test.ts hold that.
    const most = { atOnce: 12, later: 12 };
    const options = { records: 4_000, dimension: 48, seconds: "0", seed: 5, only, threads: 0 };
    const results = await afterLoadCampaign(options, () => undefined);
    const [{ way, moments }] = results;
    expect(way).toContain(only);
    expect(missesOf(results, most)).toEqual([]);
    expect(moments.map(({ recall }) => recall >= 0.97)).toEqual([true]);
  },
);
