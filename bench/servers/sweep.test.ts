import { expect, test } from "vitest";
import { randomNumbers } from "../../packages/kernels/src/random.ts";
import { ladder, sweepOf } from "./sweep.ts";

const recallTo = (half: number) => async (effort: number) => 1 - 0.5 ** (effort / half);

test("the effort reaches the recall, and one a tenth less wide does not", async () => {
  const next = randomNumbers(1);
  for (let i = 0; i < 200; i++) {
    const recallAt = recallTo(1 + 60 * next());
    const wanted = 0.8 + 0.19 * next();
    const found = await sweepOf(ladder, recallAt)(wanted);
    if (found === undefined) throw new Error("not found");
    expect(found.recall).toBe(await recallAt(found.effort));
    expect(found.recall).toBeGreaterThanOrEqual(wanted);
    const less = Math.ceil(found.effort / 1.1) - 1;
    if (found.effort > ladder[0]) expect(await recallAt(less)).toBeLessThan(wanted);
  }
});

test("the first effort is taken where it is enough, and none where the last is not", async () => {
  expect(await sweepOf(ladder, async () => 1)(0.99)).toEqual({ effort: ladder[0], recall: 1 });
  expect(await sweepOf(ladder, async () => 0.9)(0.95)).toBeUndefined();
});

test("where wider beams find no more, they are not tried; where they still do, they are", async () => {
  const asked: number[] = [];
  const limited = async (effort: number) => {
    asked.push(effort);
    return Math.min(0.97, await recallTo(10)(effort));
  };
  expect(await sweepOf(ladder, limited)(0.99)).toBeUndefined();
  expect(asked.at(-1)).toBe(256);
  const slow = async (effort: number) => 0.98 + (0.01 * Math.log(effort)) / Math.log(1_000);
  expect((await sweepOf(ladder, slow)(0.9899))?.effort).toBeGreaterThan(768);
});

test("an effort is asked once, for all recalls", async () => {
  const asked: number[] = [];
  const find = sweepOf(ladder, (effort) => {
    asked.push(effort);
    return recallTo(20)(effort);
  });
  const [low, high] = [await find(0.95), await find(0.99)];
  expect(low?.effort).toBeLessThan(high?.effort ?? 0);
  expect(new Set(asked).size).toBe(asked.length);
});
