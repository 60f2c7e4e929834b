// A short form of tests/campaigns/odd-data.ts: every kind of odd data with every metric, half of the pairs with `auto` and half with f32, one
// order of arrival each. With so few rows searches mostly scan all vectors, so every second kind is also tested by one metric with enough rows
// that graphs are searched.

import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { expect, test } from "vitest";
import { all } from "../odd-data/odd-data.ts";
import { settings } from "./odd-data/marks.ts";
import { lineOf, oddDataCampaign } from "./odd-data.ts";

const kinds = all.filter(({ isLarge }) => !isLarge);
const seed = Number(process.env.QUIVER_TEST_SEED ?? 1);

test.each(metricNames)(
  `[N10] %s has the required recall on any data (seed ${seed})`,
  async (metric) => {
    const parity = metricNames.indexOf(metric) + seed;
    const campaign = (type: "auto" | "f32", rest: number) =>
      oddDataCampaign({
        seed,
        kinds: kinds.filter((_, i) => (i + parity) % 2 === rest),
        metrics: [metric],
        types: [type],
        settings: [settings.compared],
        scale: 0.3,
        queries: 30,
        itself: 60,
        withRival: false,
        say: () => undefined,
      });
    const cases = [...(await campaign("auto", 0)), ...(await campaign("f32", 1))];
    expect(cases.length).toBeGreaterThan(75);
    expect(cases.filter(({ faults }) => faults.length > 0).map(lineOf)).toEqual([]);
  },
  600_000,
);

test.each(metricNames)(
  `[N10] %s has the required recall in graphs (seed ${seed})`,
  async (metric) => {
    const cases = await oddDataCampaign({
      seed,
      // Every second kind, by the seed.
      kinds: kinds.filter(
        (_, i) =>
          i % (2 * metricNames.length) === metricNames.indexOf(metric) + (seed % 2) * metricNames.length,
      ),
      metrics: [metric],
      types: ["auto"],
      settings: [settings.compared],
      scale: 1,
      queries: 30,
      itself: 60,
      withRival: false,
      say: () => undefined,
    });
    expect(cases.length).toBeGreaterThan(10);
    expect(cases.filter(({ faults }) => faults.length > 0).map(lineOf)).toEqual([]);
  },
  600_000,
);
