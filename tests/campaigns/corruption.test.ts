// A short form of corruption.ts: five damaged places.

import { expect, it } from "vitest";
import { seed } from "../seed.ts";
import { TemporaryFolder } from "./campaign.ts";
import { Campaign } from "./corruption.ts";

it(`[Z3] [Z4] damaged data is never served, and what is intact is saved (seed ${seed})`, async () => {
  using folder = new TemporaryFolder("corruption");
  const campaign = new Campaign(folder.path, seed);
  await campaign.prepare();
  for (let run = 0; run < 5; run++) await campaign.run();
  const { runs, answersRight } = campaign.summary;
  expect(runs).toBe(5);
  expect(answersRight).toBeGreaterThan(0);
}, 600_000);
