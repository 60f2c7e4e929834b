import fc from "fast-check";
import { expect, it } from "vitest";
import { LevelQueue, levelOf } from "./fair-queue.ts";

it("takes the lowest level first, in order of arrival, and every eighth time the oldest", () => {
  const queue = new LevelQueue<string>();
  queue.add("large", 5);
  for (let i = 0; i < 20; i++) queue.add(`small${i}`, 0);
  const taken = Array.from({ length: 9 }, () => queue.take());
  expect(taken).toEqual([
    "small0",
    "small1",
    "small2",
    "small3",
    "small4",
    "small5",
    "small6",
    "large",
    "small7",
  ]);
});

it("returns everything that was added and not removed, each once", () => {
  const operation = fc.oneof(
    fc.record({ kind: fc.constant("add" as const), level: fc.nat(6) }),
    fc.record({ kind: fc.constant("take" as const) }),
    fc.record({ kind: fc.constant("remove" as const), which: fc.nat(20) }),
  );
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 200 }), (operations) => {
      const queue = new LevelQueue<{ id: number }>();
      const inside: { id: number }[] = [];
      for (const [id, each] of operations.entries()) {
        if (each.kind === "add") {
          const item = { id };
          queue.add(item, each.level);
          inside.push(item);
        } else if (each.kind === "take") {
          const item = queue.take();
          expect(item === undefined).toBe(inside.length === 0);
          if (item !== undefined) expect(inside.splice(inside.indexOf(item), 1)).toEqual([item]);
        } else {
          const item = inside[each.which];
          if (item === undefined) continue;
          expect(queue.remove(item)).toBe(true);
          expect(queue.remove(item)).toBe(false);
          inside.splice(each.which, 1);
        }
        expect(queue.size).toBe(inside.length);
      }
      expect([...queue.items()].sort((a, b) => a.id - b.id)).toEqual(inside.sort((a, b) => a.id - b.id));
    }),
  );
});

it("levels are powers of two of a unit", () => {
  expect([0, 1, 4, 5, 8, 9, 16, 33].map((ms) => levelOf(ms, 4))).toEqual([0, 0, 0, 1, 1, 2, 2, 4]);
  expect(levelOf(Number.POSITIVE_INFINITY, 4)).toBe(20);
});
