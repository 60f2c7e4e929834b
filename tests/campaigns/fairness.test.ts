// A short form of tests/campaigns/fairness.ts: three attacks for two seconds each, and few words. Times are for the long form, on a quiet
// machine.

import { operations } from "@quiverdb/engine/operations/operations";
import { expect, test } from "vitest";
import { allAttacks } from "./fairness/attacker.ts";
import { generatedAttacks } from "./fairness/attacks.ts";
import { words } from "./fairness/words.ts";
import { fairness } from "./fairness.ts";

test("[O10] there is an attack for each endpoint that a reader or a writer may call in a loop", () => {
  const names = new Set(allAttacks().map(({ name }) => name));
  const spared = ["deleteIndex", "unloadCollection"];
  for (const [name, { role }] of Object.entries(operations))
    if (role === "read" || role === "write")
      expect([name, names.has(name)]).toEqual([name, !spared.includes(name)]);
  for (const { next } of [...generatedAttacks("read"), ...generatedAttacks("write")]) {
    const { path, body } = next();
    expect(path).not.toContain("{");
    if (body !== undefined) expect(typeof JSON.parse(body.toString())).toBe("object");
  }
});

test("[O10] [O11] during attacks every search of the well-behaved client is answered", async () => {
  const only = "4 exports|8 of bulk writes|searchBatchDense";
  const outcomes = await fairness(
    { seconds: 2, records: 2_000, only },
    () => {},
    () => {},
  );
  expect(outcomes).toHaveLength(4);
  for (const { attack, answered, refused } of outcomes) {
    expect([attack, refused]).toEqual([attack, 0]);
    expect(answered, attack).toBeGreaterThan(0);
  }
}, 180_000);

test("[I7] [H20] beside commits of many new words a neighbour is served, and after a kill the server, then the index", async () => {
  const seen = await words(
    { commits: 2, wordsPerCommit: 20_000 },
    () => {},
    () => {},
  );
  expect(Object.keys(seen)).toHaveLength(4);
}, 120_000);
