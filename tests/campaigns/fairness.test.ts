// A short form of tests/campaigns/fairness.ts: three attacks for two seconds each, and few words. Times are for the long form, on a quiet
// machine.

import { routes } from "@quiverdb/protocol/routes";
import { expect, test } from "vitest";
import { allAttacks } from "./fairness/attacker.ts";
import { generatedAttacks } from "./fairness/attacks.ts";
import { words } from "./fairness/words.ts";
import { fairness } from "./fairness.ts";

test("[O10] there is an attack for each endpoint that a reader or a writer may call in a loop", () => {
  const names = new Set(allAttacks().map(({ name }) => name));
  const spared = ["deleteIndex", "unloadCollection"];
  for (const [name, { role }] of Object.entries(routes))
    if (role === "read" || role === "write")
      expect([name, names.has(name)]).toEqual([name, !spared.includes(name)]);
  for (const { next } of [...generatedAttacks("read"), ...generatedAttacks("write")]) {
    const { path, body } = next();
    expect(path).not.toContain("{");
    if (body !== undefined) expect(typeof JSON.parse(body.toString())).toBe("object");
  }
});

test.each(["4 exports", "8 of bulk writes", "searchBatchDense"])(
  "[O10] [O11] during %s every search of the well-behaved client is answered",
  async (only) => {
    const outcomes = await fairness({ seconds: 2, records: 2_000, only, isJudged: false }, () => {});
    expect(outcomes).toHaveLength(2);
    for (const { answered, refused } of outcomes) {
      expect(refused).toBe(0);
      expect(answered).toBeGreaterThan(0);
    }
  },
  120_000,
);

test("[I7] [H20] beside commits of many new words a neighbour is served, and after a kill the server, then the index", async () => {
  const seen = await words({ commits: 2, wordsPerCommit: 20_000, isJudged: false }, () => {});
  expect(Object.keys(seen)).toHaveLength(4);
}, 120_000);
