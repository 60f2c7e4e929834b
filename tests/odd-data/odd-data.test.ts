// Is the odd data what it says, and the same for the same seed?

import { describe, expect, test } from "vitest";
import { all, generate } from "./odd-data.ts";

test("there are many kinds, each with a name of its own and a reason", () => {
  expect(all.length).toBeGreaterThanOrEqual(48);
  expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
  for (const { name, why } of all) {
    expect(name).toMatch(/^[a-z0-9-]+$/);
    expect(why.length).toBeGreaterThan(10);
  }
});

describe.each(all.filter(({ isLarge }) => !isLarge))("$name", (data) => {
  test("rows and queries are finite and of the dimension, and depend on the seed alone", ({ skip }) => {
    const reason = data.absent?.();
    if (reason !== undefined) skip(reason);
    const made = generate(data, 1, 0.1, 30);
    expect(made.rows.length).toBe(data.isFixed ? data.count : 300);
    expect(made.queries.length).toBe(30);
    for (const row of [...made.rows, ...made.queries]) {
      expect(row.length).toBe(data.dimension);
      expect(row.every(Number.isFinite)).toBe(true);
    }
    expect(generate(data, 1, 0.1, 30)).toEqual(made);
  });
});
