import fc from "fast-check";
import { expect, test } from "vitest";
import { EditDistance } from "./edit-distance.ts";

/** The distance by its definition. */
function plainDistance(a: readonly string[], b: readonly string[]): number {
  const table = Array.from({ length: a.length + 1 }, (_, i) => [i, ...Array<number>(b.length).fill(0)]);
  for (let j = 0; j <= b.length; j++) table[0][j] = j;
  for (let i = 1; i <= a.length; i++)
    for (let j = 1; j <= b.length; j++) {
      const replaced = table[i - 1][j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1);
      table[i][j] = Math.min(replaced, table[i - 1][j] + 1, table[i][j - 1] + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        table[i][j] = Math.min(table[i][j], table[i - 2][j - 2] + 1);
    }
  return table[a.length][b.length];
}

test.each([
  ["bee", "bee", 0],
  ["bee", "bees", 1],
  ["bee", "be", 1],
  ["bee", "bea", 1],
  ["bee", "ebe", 1],
  ["navigate", "navigaet", 1],
  ["ca", "abc", 3],
  ["a", "bc", 2],
  ["", "ab", 2],
  ["👍a", "👎a", 1],
  ["bee", "wasp", 3],
])("%j and %j are %i apart", (a, b, distance) => {
  for (const max of [1, 2]) {
    expect(new EditDistance(a).to(b, max)).toBe(Math.min(distance, max + 1));
    expect(new EditDistance(b).to(a, max)).toBe(Math.min(distance, max + 1));
  }
});

test("every distance is that of the definition, whatever was compared before", () => {
  const anyWord = fc.array(fc.constantFrom("a", "b", "c", "👍"), { maxLength: 9 });
  fc.assert(
    fc.property(
      anyWord,
      fc.array(anyWord, { minLength: 1, maxLength: 8 }),
      fc.nat(4),
      (word, others, max) => {
        const distance = new EditDistance(word.join(""));
        for (const other of others)
          expect(distance.to(other.join(""), max)).toBe(Math.min(plainDistance(word, other), max + 1));
      },
    ),
    { numRuns: 2_000 },
  );
});
