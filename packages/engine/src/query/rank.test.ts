import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, it } from "vitest";
import { finishAtOnce } from "../base/steps.ts";
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

it("[Q4] of many hits, the first k are those of a full sort", () => {
  const random = randomNumbers(3);
  const idOf = (ordinal: number) => `r${(ordinal * 2_311) % 1_000}`;
  for (const count of [1, 9, 21, 127, 128, 129, 300])
    for (const values of [2, 10, 1_000]) {
      const hits = Array.from({ length: count }, (_, ordinal) => ({
        ordinal,
        score: Math.floor(random() * values),
      }));
      const all = [...hits].sort((a, b) => b.score - a.score || (idOf(a.ordinal) < idOf(b.ordinal) ? -1 : 1));
      for (const k of [1, 10, 150]) expect(finishAtOnce(rankHits(idOf, hits, k))).toEqual(all.slice(0, k));
    }
});
