import { expect, it } from "vitest";
import { FloatArena } from "./float-arena.ts";

it("one vector takes no more memory than it needs, and many share few pieces", () => {
  const arena = new FloatArena();
  const first = arena.take(768);
  expect(first.buffer.byteLength).toBe(4 * 768);
  const buffers = new Set([first.buffer]);
  const all = [first];
  for (let i = 1; i < 1_000; i++) {
    const taken = arena.take(768).fill(i);
    buffers.add(taken.buffer);
    all.push(taken);
  }
  expect(buffers.size).toBeLessThan(40);
  expect([...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0)).toBeLessThan(1.1 * 4 * 768_000);
  first.fill(0);
  for (const [i, taken] of all.entries()) expect(taken.every((value) => value === i)).toBe(true);
  expect(arena.take(100_000)).toHaveLength(100_000);
  arena.free();
  expect(all.every(({ length }) => length === 0)).toBe(true);
});
