import type { Filter } from "@quiverdb/protocol/shapes/filter";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { filterOf } from "../../cli/src/filter/option.ts";
import { anyFilter } from "../../engine/test/filter/any-filter.ts";
import { readWhere, WhereError } from "./read-where.ts";
import { plainFilter, writeWhere } from "./write-where.ts";

describe("a filter as text", () => {
  it.each<[string, Filter]>([
    ["color = 'red'", { field: "color", eq: "red" }],
    ['color=="red"', { field: "color", eq: "red" }],
    ["n != -1.5e3", { field: "n", ne: -1500 }],
    [
      "n>3 and n>=3 and n<3 and n<=3",
      {
        and: [
          { field: "n", gt: 3 },
          { field: "n", gte: 3 },
          { field: "n", lt: 3 },
          { field: "n", lte: 3 },
        ],
      },
    ],
    ["on = true", { field: "on", eq: true }],
    ["a in (1, 'x', false)", { field: "a", in: [1, "x", false] }],
    ["a not in ()", { field: "a", nin: [] }],
    ["a exists", { field: "a", exists: true }],
    ["a NOT EXISTS", { field: "a", exists: false }],
    ["not a exists", { not: { field: "a", exists: true } }],
    ["a prefix 're'", { field: "a", prefix: "re" }],
    ["a Starts\n With 're'", { field: "a", prefix: "re" }],
    ["a contains 'e'", { field: "a", contains: "e" }],
    [
      "a = 1 or b = 2 and c = 3",
      {
        or: [
          { field: "a", eq: 1 },
          {
            and: [
              { field: "b", eq: 2 },
              { field: "c", eq: 3 },
            ],
          },
        ],
      },
    ],
    [
      "not (a = 1 or b = 2) and c = 3",
      {
        and: [
          {
            not: {
              or: [
                { field: "a", eq: 1 },
                { field: "b", eq: 2 },
              ],
            },
          },
          { field: "c", eq: 3 },
        ],
      },
    ],
    [
      "(a = 1 and b = 2) and c = 3",
      {
        and: [
          {
            and: [
              { field: "a", eq: 1 },
              { field: "b", eq: 2 },
            ],
          },
          { field: "c", eq: 3 },
        ],
      },
    ],
    ["author.name = 'x'", { field: "author.name", eq: "x" }],
    ["a\\.b\\ c\\𝒳 = 1", { field: "a\\.b\\ c\\𝒳", eq: 1 }],
    ["\\id = 'x'", { field: "\\id", eq: "x" }],
    [
      "`and` = 1 and `a ``b``` = 1",
      {
        and: [
          { field: "and", eq: 1 },
          { field: "a `b`", eq: 1 },
        ],
      },
    ],
    [
      "android = 1 and in-stock = 1",
      {
        and: [
          { field: "android", eq: 1 },
          { field: "in-stock", eq: 1 },
        ],
      },
    ],
    ["größe-2 = 1", { field: "größe-2", eq: 1 }],
    [`a = 'it\\'s "b" \\u00e9\\n'`, { field: "a", eq: 'it\'s "b" é\n' }],
    ["n <> 3", { field: "n", ne: 3 }],
    [
      "a is null and b IS NOT NULL",
      {
        and: [
          { field: "a", exists: false },
          { field: "b", exists: true },
        ],
      },
    ],
    [
      "n between 1 and 3 and c = 1",
      {
        and: [
          {
            and: [
              { field: "n", gte: 1 },
              { field: "n", lte: 3 },
            ],
          },
          { field: "c", eq: 1 },
        ],
      },
    ],
    [
      "n not between 'a' and 'b'",
      {
        not: {
          and: [
            { field: "n", gte: "a" },
            { field: "n", lte: "b" },
          ],
        },
      },
    ],
    [
      "between between 1 and 2 or is is null",
      {
        or: [
          {
            and: [
              { field: "between", gte: 1 },
              { field: "between", lte: 2 },
            ],
          },
          { field: "is", exists: false },
        ],
      },
    ],
    ["true", { and: [] }],
    ["not false", { not: { or: [] } }],
  ])("%s", (text, filter) => {
    expect(readWhere(text)).toEqual(filter);
  });

  it("[W20] means the filter that it was written for, whatever the filter", () => {
    fc.assert(
      fc.property(anyFilter, (filter) => {
        const text = writeWhere(filter as Filter);
        expect(readWhere(text)).toEqual(plainFilter(filter as Filter));
        expect(writeWhere(readWhere(text))).toBe(text);
      }),
      { numRuns: 2_000 },
    );
  });

  it("[W20] is read as a filter or refused with a position, whatever the text", () => {
    const pieces = [
      "a",
      "b.c",
      "=",
      "<",
      "in",
      "not",
      "and",
      "or",
      "(",
      ")",
      ",",
      "1",
      "'x'",
      '"',
      "`",
      "\\",
      "exists",
      "between",
      "is",
      "null",
      "<>",
      "true",
      "𝒳",
    ];
    let read = 0;
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...pieces), { maxLength: 9 }),
        fc.constantFrom("", " "),
        (parts, blank) => {
          const text = parts.join(blank);
          try {
            const filter = readWhere(text);
            read++;
            expect(readWhere(writeWhere(filter))).toEqual(filter);
          } catch (error) {
            if (!(error instanceof WhereError)) throw error;
            expect(error.position).toBeGreaterThanOrEqual(0);
            expect(error.position).toBeLessThanOrEqual(text.length);
          }
        },
      ),
      { numRuns: 5_000 },
    );
    expect(read).toBeGreaterThan(10);
  });

  it("is refused with what was expected and where, and a caret under the place", () => {
    const problem = (text: string): string => {
      try {
        readWhere(text);
      } catch (error) {
        return (error as WhereError).message;
      }
      throw new Error(`${text} was read`);
    };
    expect(problem("color = red")).toBe(
      "expected a value: a number, true, false, or a text in quotes such as 'red', at character 9:\n" +
        "  color = red\n          ^",
    );
    expect(problem("n >= 3 color = 1")).toContain("expected `and`, `or` or the end, at character 8:");
    expect(problem("(n = 3")).toMatch(/^expected `and`, `or` or `\)`, at character 7:\n {2}\(n = 3\n {8}\^$/);
    expect(problem("n ~ 3")).toContain("expected an operator: =");
    expect(problem("n = 'abc")).toContain("expected a quote at the end of this text, at character 5:");
    expect(problem("n = '\\x'")).toContain("expected an escape of JSON");
    expect(problem("n = 1e999")).toContain("that fits into 64 bits;");
    expect(problem("n = 12x")).toContain("expected a value");
    expect(problem("and = 3")).toContain(
      "`and` is a keyword, and a field of this name stands between backticks",
    );
    expect(problem("")).toContain("expected a field, at character 1:");
    expect(problem("a in (1 2)")).toContain("expected `,` or `)`");
    expect(problem("a not 3")).toContain("expected `in`, `between` or `exists` after `not`");
    expect(problem("n in (1, 1e400)")).toContain(
      "those beyond are all > 1.7976931348623157e+308, at character 10:",
    );
    expect(problem("n > -1e400")).toContain(
      "those beyond are all < -1.7976931348623157e+308, at character 5:",
    );
    expect(problem("a like 'x%'")).toContain("`starts with 'x'` for like 'x%'");
    expect(problem("a not like 'x%'")).toContain("`contains 'x'` for like '%x%'");
    expect(problem("a = null")).toContain("write `is null`");
    expect(problem("a is 3")).toContain("expected `null` or `not null` after `is`, at character 6:");
    expect(problem("n between 1, 3")).toContain("expected `and` between the ends of a range");
    expect(problem("`a = 3")).toContain("expected a backtick at the end");
    expect(problem("a = 1 and\n\tb = x")).toContain("\n  a = 1 and  b = x\n                 ^");
    expect(problem("(".repeat(100_000))).toContain("expected at most 100 levels");
    const long = problem(`a = '${"x".repeat(500)}' and ! ${"y".repeat(500)}`);
    expect(Math.max(...long.split("\n").map((line) => line.length))).toBeLessThan(125);
  });

  it("is one of two options", () => {
    expect(filterOf({})).toBeUndefined();
    expect(filterOf({ filter: '{"n":1}' })).toEqual({ n: 1 });
    expect(() => filterOf({ filter: "{" })).toThrow("--filter is not JSON");
    expect(() => filterOf({ filter: "[]" })).toThrow("--filter is not a JSON object");
    expect(() => filterOf({ filter: "{}", where: "true" })).toThrow("give one of them");
    expect(() => filterOf({ where: "n =" })).toThrow("--where: expected a value");
  });
});
