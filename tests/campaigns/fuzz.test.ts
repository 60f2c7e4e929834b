// A short form of tests/campaigns/fuzz.ts: one round, some hundred requests.

import { expect, it } from "vitest";
import { fuzz } from "./fuzz.ts";

const seed = Number(process.env.QUIVER_TEST_SEED ?? Date.now() % 1_000_000);

it(`[E5] [E1] whatever is sent, every response has the documented shape, and the server stays alive (seed ${seed})`, async () => {
  const said: string[] = [];
  const seen = await fuzz({
    seed,
    rounds: 1,
    requestsPerRound: 1_200,
    attacksPerRound: 60,
    importsPerRound: 2,
    say: (line) => said.push(line),
  });
  expect(seen["requests to endpoints"]).toBe(1_200);
  expect(seen["answers 500"]).toBe(0);
  expect(said).toHaveLength(1);
}, 600_000);
