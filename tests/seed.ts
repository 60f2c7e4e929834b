// Which random cases do tests draw?
//
// The same in every run, so that a run judges the change and not the draw: property tests and short campaigns start from one seed.
// `npm run campaign properties` draws new ones. A failure prints its seed, and QUIVER_TEST_SEED repeats it.

import { readFileSync } from "node:fs";
import { expect } from "vitest";

const given = process.env.QUIVER_TEST_SEED;

export const seed = given === "random" ? Date.now() % 2 ** 31 : Number(given ?? 20261127);

// Loading fast-check takes 65 ms, which most files need not pay.
const { testPath } = expect.getState();
if (testPath === undefined || readFileSync(testPath, "utf8").includes('"fast-check"')) {
  const { default: fc } = await import("fast-check");
  fc.configureGlobal({ seed });
}
