// A short form of security.ts; `npm run campaign security` is the long one.

import { expect, test } from "vitest";
import { seed } from "../seed.ts";
import { probeSecurity } from "./security.ts";

test(`[A9] [A10] [A21] [E5] [H8] [H26] hostile requests get no access, cost little and learn nothing (seed ${seed})`, async () => {
  const figures = await probeSecurity(
    { seed, guesses: 100, keys: 5, length: 8_192, runs: 1, requests: 100 },
    () => {},
  );
  expect(figures.found).toBe("none");
}, 600_000);
