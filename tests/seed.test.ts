// Do property tests start from the seed of tests/seed.ts?

import fc from "fast-check";
import { expect, it } from "vitest";
import { seed } from "./seed.ts";

it("fast-check draws from the seed that a failure names", () => {
  expect(fc.readConfigureGlobal().seed).toBe(seed);
});
