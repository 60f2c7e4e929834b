import { expect, it } from "vitest";
import { arrived, nextTurn } from "./turns.ts";

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

it("[O9] while something arrives in every round nobody goes on, but not for ever", async () => {
  let isFlooded = true;
  let [rounds, isThrough] = [0, false];
  const flood = () => {
    if (!isFlooded) return;
    rounds++;
    arrived();
    setImmediate(flood);
  };
  flood();
  void nextTurn().then(() => {
    isThrough = true;
  });
  while (!isThrough) await new Promise((resolve) => setImmediate(resolve));
  expect(rounds).toBeGreaterThan(200);
  expect(rounds).toBeLessThan(400);
  isFlooded = false;
  rounds = 0;
  await nextTurn();
});
