import { isQuiverError, type QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Clause, parseOperators } from "./operators.ts";
import { tokenize } from "./tokenize.ts";

const signs = { should: "", must: "+", mustNot: "-" } as const;

/** `+phrase(a b)@3`: all of a clause in a line. */
function shown({ occur, kind, words, distance, position }: Clause): string {
  return `${signs[occur]}${kind}${distance || ""}(${words.join(" ")})@${position}`;
}

const parse = (query: string) => parseOperators(query, "query").map(shown);

function refusalOf(query: string): QuiverError {
  try {
    parseOperators(query, "query");
  } catch (error) {
    if (isQuiverError(error, "invalid_request")) return error;
    throw error;
  }
  throw new Error(`${query} was not refused`);
}

test.each([
  ["", []],
  [" \t\u3000 ", []],
  ["Bees dance", ["words(bees dance)@0"]],
  ["  bees\n\tdance ", ["words(bees dance)@2"]],
  ['"waggle dance"', ["phrase(waggle dance)@0"]],
  ['bees "Waggle, dance!" in hives', ["words(bees)@0", "phrase(waggle dance)@5", "words(in hives)@22"]],
  ['"bees"', ["words(bees)@0"]],
  ['""', []],
  ['" ! "', []],
  ["+bees -wasps", ["+words(bees)@0", "-words(wasps)@6"]],
  ['+"a b" -"c d"', ["+phrase(a b)@0", "-phrase(c d)@7"]],
  ["bee* wasp~ hornet~1 ant~2", ["prefix(bee)@0", "fuzzy1(wasp)@5", "fuzzy1(hornet)@11", "fuzzy2(ant)@20"]],
  ["+bee* -wasp~2", ["+prefix(bee)@0", "-fuzzy2(wasp)@6"]],
  ["b*", ["prefix(b)@0"]],
  ["東*", ["prefix(東)@0"]],
  // Several words: each one, and the last with the operator.
  ["+state-of-the-art", ["+words(state of the art)@0"]],
  ["state-of-the-ar*", ["prefix(state of the ar)@0"]],
  ["jean-piere~", ["fuzzy1(jean piere)@0"]],
])("%j has the clauses %j", (query, clauses) => {
  expect(parse(query)).toEqual(clauses);
});

test.each([
  "state-of-the-art",
  "c++ and a+b",
  "+ - * ~ ++ -- +- \\",
  "rock - paper",
  "--flag",
  "* a",
  "a * b",
  "*bee",
  "b*e 2*3",
  "bee*,",
  "bee**",
  "*",
  "~1",
  "~bee",
  "b~e",
  "bee~~",
  "bee~1,",
  "bee~x",
  '5" monitor',
  'say"hello"',
  '("waggle dance")',
  "(+a)",
  "don't l'homme",
  "bees AND wasps OR NOT ants",
  "title:bees^2 [a TO z]",
  "“waggle dance”",
])("%j is mere text", (query) => {
  expect(parse(query).map((line) => line.replace(/@\d+$/, ""))).toEqual(
    tokenize(query).length === 0 ? [] : [`words(${tokenize(query).join(" ")})`],
  );
});

test.each([
  ["\\+bees", ["words(bees)@0"]],
  ["\\-5", ["words(5)@0"]],
  ["bee\\* wasp\\~1", ["words(bee wasp 1)@0"]],
  ['\\"a b\\"', ["words(a b)@0"]],
  ['"a \\" b"', ["phrase(a b)@0"]],
  ['"a b\\\\" c', ["phrase(a b)@0", "words(c)@8"]],
  ["+\\-5", ["+words(5)@0"]],
  ["c:\\temp", ["words(c temp)@0"]],
])("%j: a backslash makes text of an operator", (query, clauses) => {
  expect(parse(query)).toEqual(clauses);
});

test.each([
  ['"a b"c', ["phrase(a b)@0", "words(c)@5"]],
  ['"a b", c +d', ["phrase(a b)@0", "words(c)@5", "+words(d)@9"]],
  ['"a b"-c', ["phrase(a b)@0", "words(c)@5"]],
  ['"a b""c d" e', ["phrase(a b)@0", "words(c d e)@5"]],
])("%j: what directly follows a phrase is text", (query, clauses) => {
  expect(parse(query)).toEqual(clauses);
});

test.each([
  ['"', 0],
  ['bees "waggle dance', 5],
  ['+"a b', 1],
  ['"a b\\"', 0],
  ['"a b"~2', 5],
  ['"a b"*', 5],
  ["bees~3", 4],
  ["a bees~0", 6],
  ["bees~0.8", 4],
  ["bees~12", 4],
])("%j is rejected, at %i", (query, position) => {
  const { message, details } = refusalOf(query);
  expect(details).toEqual({ path: "query", position });
  expect(message).toMatch(new RegExp(`^query, at position ${position}: `));
});

test("too many operators are rejected at the first excess one; text may have any length", () => {
  const most = "+a ".repeat(limits.queryOperatorsMax);
  expect(parse(most)).toHaveLength(limits.queryOperatorsMax);
  expect(refusalOf(`${most}b -c`).details.position).toBe(most.length + 2);
  const expanding = "a* b~ ".repeat(limits.queryExpandingMax / 2);
  expect(parse(expanding)).toHaveLength(limits.queryExpandingMax);
  expect(refusalOf(`${expanding}c*`).details.position).toBe(expanding.length);
  expect(parse("a ".repeat(100_000))).toHaveLength(1);
});

test.each(["1", "~", "*", '\\"', "+", "- "])("a long run of %j ends", (piece) => {
  const long = piece.repeat(Math.floor(1_000_000 / piece.length));
  for (const query of [long, `a~${long}x`, `"a ${long} b"`]) parse(query);
});

/** Strings in which operators are frequent. */
const anyQuery = fc.oneof(
  fc.string({ unit: "binary" }),
  fc
    .array(fc.constantFrom(...'ab1é東 "+-*~\\.,\u0301\ud83d'), { maxLength: 30 })
    .map((units) => units.join("")),
);

test("every string has clauses, or is rejected with a position", () => {
  fc.assert(
    fc.property(anyQuery, (query) => {
      let clauses: Clause[];
      try {
        clauses = parseOperators(query, "query");
      } catch (error) {
        expect(isQuiverError(error, "invalid_request")).toBe(true);
        const { position } = (error as QuiverError).details as { position: number };
        expect(['"', "~", "*"]).toContain(query[position]);
        return;
      }
      let last = -1;
      for (const { kind, words, distance, position } of clauses) {
        expect(position).toBeGreaterThan(last);
        last = position;
        // A run of three characters, such as "東東東", is a phrase of two grams.
        const isRun = words.length === 1 && [...words[0]].length >= 3;
        expect(words.length).toBeGreaterThanOrEqual(kind === "phrase" && !isRun ? 2 : 1);
        expect(kind === "fuzzy" ? [1, 2] : [0]).toContain(distance);
      }
      expect(last).toBeLessThan(query.length);
    }),
    { numRuns: 2_000 },
  );
});

test("a query without operator characters, or with all of them escaped, is the plain bag of words", () => {
  const plain = (words: readonly string[]) =>
    words.length === 0 ? [] : [{ occur: "should", kind: "words", words, distance: 0 }];
  const withoutPositions = (query: string) =>
    parseOperators(query, "query").map(({ position: _position, ...clause }) => clause);
  fc.assert(
    fc.property(anyQuery, (query) => {
      const text = query.replaceAll(/["+\-*~\\]/g, "");
      expect(withoutPositions(text)).toEqual(plain(tokenize(text)));
      const escaped = query.replaceAll(/["+\-*~\\]/g, "\\$&");
      expect(withoutPositions(escaped)).toEqual(plain(tokenize(query)));
    }),
    { numRuns: 2_000 },
  );
});
