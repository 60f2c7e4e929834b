// A short form of tests/campaigns/odd-data.ts: every kind of odd data, every metric, `auto` and f32, one way of arriving each.

import { metricNames } from "@quiver/protocol/shapes/index-definition";
import { expect, test } from "vitest";
import { all } from "../odd-data/odd-data.ts";
import { settings } from "./odd-data/marks.ts";
import { lineOf, oddDataCampaign } from "./odd-data.ts";

const seed = Number(process.env.QUIVER_TEST_SEED ?? 1);

test.each(metricNames)(
  `[N10] %s finds what it has to on any data (seed ${seed})`,
  async (metric) => {
    const cases = await oddDataCampaign({
      seed,
      kinds: all.filter(({ isLarge }) => !isLarge),
      metrics: [metric],
      types: ["auto", "f32"],
      settings: [settings.compared],
      scale: 0.3,
      queries: 30,
      itself: 60,
      withRival: false,
      say: () => undefined,
    });
    expect(cases.length).toBeGreaterThan(150);
    expect(cases.filter(({ faults }) => faults.length > 0).map(lineOf)).toEqual([]);
  },
  600_000,
);
