import { expect, it } from "vitest";
import { afterLoadCampaign, missesOf } from "./after-load.ts";

it.for(["streaming by 8", "kill and restart", "a third updated"])(
  "[N14] a search is as fast right after a load as later, and finds every record: %s",
  { timeout: 600_000 },
  async (only) => {
    // Ratios leave room for other tests, which begin and end between the two moments: 13.7 was seen so. With fewer records, or longer
    // vectors, searches would scan instead of following links. That the recall watch alone (no write, no completed build) makes threads ask
    // again is held by view.test.ts and threads.test.ts: here a thread learns a new beam from the end of the build, too.
    const most = { atOnce: 30, later: 30 };
    const options = { records: 8_000, dimension: 16, seconds: "0", seed: 5, only, threads: 0 };
    const results = await afterLoadCampaign(options, () => undefined);
    const [{ way, moments }] = results;
    expect(way).toContain(only);
    expect(missesOf(results, most)).toEqual([]);
    expect(moments.map(({ recall }) => recall >= 0.97)).toEqual([true]);
  },
);
