import { expect, it } from "vitest";
import { backgroundSteps, failingStepsCampaign } from "./failing-steps.ts";

/** Of a dense and of an inverted index; `npm run campaign failing-steps` goes through all. */
const names = ["build:begin", "merge:done"];

it("[K2] a failing background step does not end the process, other collections are served, and all records are indexed afterwards", async () => {
  expect(backgroundSteps()).toEqual(expect.arrayContaining(names));
  const { servers, thrown, searches } = await failingStepsCampaign(names, [2]);
  expect(servers).toBe(names.length);
  expect(thrown).toBeGreaterThanOrEqual(names.length);
  expect(searches).toBeGreaterThan(0);
}, 600_000);
