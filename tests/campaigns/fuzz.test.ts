// A short form of tests/campaigns/fuzz.ts: one round, some hundred requests.

import { expect, it } from "vitest";
import { seed } from "../seed.ts";
import { faultOf } from "./fuzz/answers.ts";
import { fuzz } from "./fuzz.ts";

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

it("[Q4] [Q26] results out of order are a fault, but for diverse ones", () => {
  const hit = { document_id: null, text: null };
  const results = [
    { id: "a", score: 1, ...hit },
    { id: "b", score: -3, ...hit },
    { id: "c", score: 0, ...hit },
  ];
  const answer = {
    status: 200,
    headers: new Map([
      ["x-request-id", "1"],
      ["x-content-type-options", "nosniff"],
      ["content-type", "application/json"],
    ]),
    body: Buffer.from(JSON.stringify({ results })),
  };
  const faultAfter = (diversity?: number | null) =>
    faultOf(
      answer,
      "/nowhere",
      "POST",
      "/vectordb/collections/c/search/dense",
      Buffer.from(JSON.stringify({ diversity })),
    );
  expect([0.3, 1].map(faultAfter)).toEqual([undefined, undefined]);
  expect([undefined, null, 0].map(faultAfter)).toEqual(Array(3).fill("results out of order"));
});
