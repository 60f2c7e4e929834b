import { expect, test } from "vitest";
import { Growth, idleCoresOfMachine, type Look } from "./growth.ts";

const needed: Look = { busy: [0.95, 0.9], connections: 8, idleCores: 1.2 };

test("one more thread is started when all have been busy three times in a row, with connections to spread and a core idle", () => {
  let growth = new Growth();
  const seen = (look: Look) => growth.isNeeded(look);
  expect([seen(needed), seen(needed), seen(needed)]).toEqual([false, false, true]);
  // Then it looks anew.
  expect(seen(needed)).toBe(false);
  for (const look of [
    { ...needed, busy: [0.95, 0.4] },
    { ...needed, connections: 2 },
    { ...needed, idleCores: 0.3 },
  ]) {
    growth = new Growth();
    expect([seen(needed), seen(needed), seen(look), seen(needed), seen(needed)]).not.toContain(true);
    expect(seen(look)).toBe(false);
  }
});

test("the idle cores of a machine are between none and all", async () => {
  const idleCores = idleCoresOfMachine();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(idleCores()).toBeGreaterThanOrEqual(0);
  expect(idleCores()).toBeLessThanOrEqual(navigator.hardwareConcurrency);
});
