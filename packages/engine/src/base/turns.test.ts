import { expect, it } from "vitest";
import { nextTurn } from "./turns.ts";

it("[O9] of many pieces of work one goes on in each turn of the event loop, in order", async () => {
  let turn = 0;
  let isOver = false;
  const count = () => {
    turn++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const order: number[] = [];
  const turns: number[] = [];
  await Promise.all(
    Array.from({ length: 10 }, async (_, i) => {
      for (let slice = 0; slice < 3; slice++) {
        await nextTurn();
        order.push(i);
        turns.push(turn);
      }
    }),
  );
  isOver = true;
  expect(order).toEqual(Array.from({ length: 30 }, (_, i) => i % 10));
  for (let i = 1; i < turns.length; i++) expect(turns[i]).toBeGreaterThan(turns[i - 1]);
});
