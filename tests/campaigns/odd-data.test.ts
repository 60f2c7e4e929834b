// A short form of tests/campaigns/odd-data.ts: every kind of odd data with two of the three metrics, one with `auto` and one with f32, one order
// of arrival each. With so few rows searches mostly scan all vectors, so every sixth kind is also tested by one metric with enough rows
// that graphs are searched.

import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { expect, test } from "vitest";
import { all } from "../odd-data/odd-data.ts";
import { seed } from "../seed.ts";
import { settings } from "./odd-data/marks.ts";
import { type CampaignOptions, lineOf, oddDataCampaign } from "./odd-data.ts";

const kinds = all.filter(({ isLarge }) => !isLarge);

/** Runs the campaign in its short form. @throws if a case is at fault @returns how many cases there were */
async function campaign(
  options: Pick<CampaignOptions, "kinds" | "metrics" | "types" | "scale">,
): Promise<number> {
  const cases = await oddDataCampaign({
    ...options,
    seed,
    settings: [settings.compared],
    queries: 30,
    itself: 60,
    withRival: false,
    say: () => undefined,
  });
  expect(cases.filter(({ faults }) => faults.length > 0).map(lineOf)).toEqual([]);
  return cases.length;
}

test.each(metricNames)(
  `[N10] %s has the required recall on any data (seed ${seed})`,
  async (metric) => {
    const parity = metricNames.indexOf(metric) + seed;
    let cases = 0;
    for (const [half, type] of (["auto", "f32"] as const).entries())
      cases += await campaign({
        kinds: kinds.filter((_, i) => (i + parity) % metricNames.length === half),
        metrics: [metric],
        types: [type],
        scale: 0.3,
      });
    expect(cases).toBeGreaterThan(50);
  },
  600_000,
);

test.each(metricNames)(
  `[N10] %s has the required recall in graphs (seed ${seed})`,
  async (metric) => {
    const step = 6 * metricNames.length;
    // Every sixth kind, by the seed.
    const first = metricNames.indexOf(metric) + (seed % 6) * metricNames.length;
    const cases = await campaign({
      kinds: kinds.filter((_, i) => i % step === first),
      metrics: [metric],
      types: ["auto"],
      scale: 1,
    });
    expect(cases).toBeGreaterThan(3);
  },
  600_000,
);
