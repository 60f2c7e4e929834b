import assert from "node:assert/strict";
import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { hashOf, unknown, WordTable } from "./vocabulary.ts";

test("a table has the numbers of the words that were added, as a Map does", () => {
  const next = randomNumbers(3);
  const table = new WordTable();
  const reference = new Map<string, number>();
  const letters = "abcdefé東\u{10400}";
  for (let i = 0; i < 60_000; i++) {
    const word = Array.from(
      { length: 1 + Math.floor(7 * next()) },
      () => letters[Math.floor(letters.length * next())],
    ).join("");
    assert.equal(table.get(word), reference.get(word) ?? unknown);
    if (reference.has(word)) continue;
    const number = Math.floor(1_000 * next()) - 500;
    reference.set(word, number);
    table.add(word, number);
  }
  expect(table.size).toBe(reference.size);
  for (const [word, number] of reference) assert.equal(table.get(word), number);
  table.clear();
  expect(table.size).toBe(0);
  for (const word of reference.keys()) assert.equal(table.get(word), unknown);
});

test("of words that belong in one slot some are remembered, and none is looked for in many", () => {
  const words: string[] = [];
  for (let i = 0; words.length < 400; i++) if ((hashOf(`w${i}`) & 1_023) === 1_000) words.push(`w${i}`);
  const table = new WordTable();
  words.forEach((word, i) => void table.add(word, i));
  // The table has 1,024 slots: a word is searched in 64 of them.
  expect(table.size).toBe(64);
  expect(words.map((word) => table.get(word))).toEqual(words.map((_, i) => (i < 64 ? i : unknown)));
});
