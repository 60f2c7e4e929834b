import { expect, it } from "vitest";
import { rankHits } from "./rank.ts";

it("[Q4] [Q20] thousands of tied hits are ordered by id, and other tasks run while the ids are read", () => {
  const count = 5_000;
  const idOf = (ordinal: number) => `r${(ordinal * 2_311) % count}`;
  const inOrder = Array.from({ length: count }, (_, ordinal) => ordinal)
    .filter((ordinal) => ordinal !== 7)
    .sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
  for (const k of [1, 10, 2_000, count]) {
    const hits = Array.from({ length: count }, (_, ordinal) => ({ ordinal, score: ordinal === 7 ? 2 : 1 }));
    const steps = rankHits(idOf, hits, k);
    let turns = 0;
    let step = steps.next();
    for (; !step.done; step = steps.next()) turns++;
    expect(step.value.map(({ ordinal }) => ordinal)).toEqual([7, ...inOrder].slice(0, k));
    expect(turns).toBe(k === 1 ? 0 : 4);
  }
});
