import assert from "node:assert/strict";
import { isQuiverError, type QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { anyFilter, anyRecord } from "../../test/filter/any-filter.ts";
import { type NaiveRecord, naiveMatches } from "../../test/filter/naive-filter.ts";
import { utf8 } from "../base/bytes.ts";
import { finishAtOnce } from "../base/steps.ts";
import { keyOf, withTimes } from "./filter.ts";
import { Predicate } from "./predicate.ts";
import { readFilter } from "./read-filter.ts";

function read(filter: unknown) {
  const made = finishAtOnce(readFilter(filter));
  if (made === null) throw new Error("no filter");
  return made;
}

const recordOf = ({ id, document_id, metadata }: NaiveRecord) => ({
  id,
  documentId: document_id ?? null,
  metadataBytes: metadata == null ? null : utf8(JSON.stringify(metadata)),
});

function matches(metadata: Record<string, unknown>, filter: unknown, times: readonly string[] = []): boolean {
  const record = { id: "r", metadata };
  const made = new Predicate(withTimes(read(filter), (field) => times.includes(field))).matches(
    recordOf(record),
  );
  expect(naiveMatches(record, filter, times)).toBe(made);
  return made;
}

/** The error of a filter. */
function fault(filter: unknown, times: readonly string[] = []): QuiverError {
  try {
    withTimes(read(filter), (field) => times.includes(field));
  } catch (error) {
    if (isQuiverError(error, "invalid_filter")) return error;
    throw error;
  }
  throw new Error(`${JSON.stringify(filter).slice(0, 200)} is accepted`);
}

describe("a record matches a filter", () => {
  test("[W1] exactly when the plain reference says so, for any records and filters", () => {
    let found = 0;
    fc.assert(
      fc.property(fc.array(anyRecord, { minLength: 1, maxLength: 20 }), anyFilter, (records, filter) => {
        const predicate = new Predicate(read(filter));
        for (const record of records) {
          // What JSON cannot say (minus zero, undefined) is not in a record.
          const plain = JSON.parse(JSON.stringify(record)) as NaiveRecord;
          const isFound = predicate.matches(recordOf(plain));
          if (isFound) found++;
          assert.equal(isFound, naiveMatches(plain, filter));
        }
      }),
      { numRuns: 3_000 },
    );
    expect(found).toBeGreaterThan(1_000);
  });

  test("[W2] by each operator", () => {
    const record = {
      color: "red",
      n: 3,
      on: true,
      tags: ["x", ["y"]],
      a: { b: [{ c: 1 }, { c: "z" }] },
      empty: [],
      nothing: null,
    };
    for (const filter of [
      { color: "red" },
      { color: { ne: "blue" }, n: { gte: 3, lt: 3.5 } },
      { field: "tags", eq: "y" },
      { field: "a.b.c", in: [7, 1] },
      { field: "a.b.c", eq: "z" },
      { field: "a", exists: true },
      { field: "empty", exists: false },
      { field: "nothing", exists: false },
      { field: "missing", ne: 1 },
      { field: "missing", nin: [1] },
      { field: "color", contains: "e", prefix: "re" },
      { field: "color", gt: "rea", lte: "red" },
      { field: "id", eq: "r" },
      { and: [] },
      { not: { or: [] } },
      { And: [{ Is: { field_name: "n", operator: "Equal", field_value: 3 } }, { Or: [{ on: true }] }] },
    ])
      expect(matches(record, filter), JSON.stringify(filter)).toBe(true);
    for (const filter of [
      { n: "3" },
      { on: "true" },
      { color: { gt: 1 } },
      { n: { gt: "" } },
      { field: "a", eq: "z" },
      { field: "tags", nin: ["y"] },
      { field: "document_id", exists: true },
      { field: "color", in: [] },
      { or: [] },
      { not: { and: [] } },
    ])
      expect(matches(record, filter), JSON.stringify(filter)).toBe(false);
  });

  test("[W3] strings by code points", () => {
    expect(matches({ s: "𝒳" }, { s: { gt: "\ufffd" } })).toBe(true);
    expect(matches({ s: "\ufffd" }, { s: { gt: "𝒳" } })).toBe(false);
    // Half a character is no part of a text.
    expect(matches({ s: "𝒳" }, { s: { prefix: "\ud835" } })).toBe(false);
    expect(matches({ s: "a𝒳" }, { s: { contains: "\udcb3" } })).toBe(false);
    expect(matches({ s: "É" }, { s: "é" })).toBe(false);
  });

  test("[W4] by time, where the field is declared as datetime", () => {
    const times = ["t"];
    const record = { t: "2024-05-01T12:00:00+02:00", u: "2024-05-01T12:00:00+02:00" };
    expect(matches(record, { t: "2024-05-01T10:00:00Z" }, times)).toBe(true);
    expect(matches(record, { t: { in: ["2024-05-01T10:00:00.000Z"] } }, times)).toBe(true);
    expect(matches(record, { t: { gt: "2024-05-01T11:00:00Z" } }, times)).toBe(false);
    expect(matches(record, { u: { gt: "2024-05-01T11:00:00Z" } }, times)).toBe(true);
    expect(matches({ t: "soon" }, { t: { gte: "1970-01-01" } }, times)).toBe(false);
    expect(matches({ t: "soon" }, { t: { exists: true } }, times)).toBe(true);
    expect(matches(record, { t: { prefix: "2024-05-01T12" } }, times)).toBe(true);
    expect(fault({ t: "soon" }, times).details.path).toBe("filter.t");
    expect(fault({ and: [{ t: { in: ["2024-05-01", "soon"] } }] }, times).details.path).toBe(
      "filter.and[0].t.in[1]",
    );
  });

  test("whose numbers are beyond a 64-bit float, as the float that is nearest", () => {
    const exact = (json: string, filter: object) =>
      new Predicate(read(filter)).matches({ id: "r", documentId: null, metadataBytes: utf8(json) });
    expect(exact('{"n":12345678901234567890}', { n: 12345678901234567000 })).toBe(true);
    expect(exact('{"n":1e999}', { n: { gt: 1e308 } })).toBe(true);
    expect(exact('{"n":-0}', { n: 0 })).toBe(true);
    expect(exact('{"n":0.1000000000000000055511151231257827}', { n: 0.1 })).toBe(true);
    expect(exact('{ "n" : 1.50 , "m":[ 1 , 2.0 ] }', { n: 1.5, m: 2 })).toBe(true);
  });
});

test("[W1] half of a character is not the character that stands for it in UTF-8", () => {
  const matching = (json: string, filter: object) =>
    new Predicate(read(filter)).matches({ id: "r", documentId: null, metadataBytes: utf8(json) });
  const [half, replacement] = ["\ud800", "\ufffd"];
  const many = ["q1", "q2", "q3", "q4"];
  for (const [text, other] of [
    [half, replacement],
    [replacement, half],
  ]) {
    const json = JSON.stringify({ v: text });
    expect(matching(json, { v: text })).toBe(true);
    expect(matching(json, { v: { in: [text, ...many] } })).toBe(true);
    expect(matching(json, { v: other })).toBe(false);
    expect(matching(json, { v: { in: [other, ...many] } })).toBe(false);
    expect(matching(JSON.stringify({ [text]: 7 }), { [text]: 7 })).toBe(true);
    expect(matching(JSON.stringify({ [text]: 7 }), { [other]: 7 })).toBe(false);
  }
});

describe("[W5] a wrong filter is invalid_filter, with the path of the fault", () => {
  const cases: Readonly<Record<string, [filter: unknown, path: string]>> = {
    "no object": [5, "filter"],
    "an array": [[], "filter"],
    "no operator": [{ field: "a" }, "filter"],
    "a null operand": [{ field: "a", eq: null }, "filter"],
    "null in the short form": [{ a: null }, "filter.a"],
    "an unknown operator": [{ field: "a", eqs: 1 }, "filter.eqs"],
    "an unknown operator in the short form": [{ a: { gt: 1, between: 2 } }, "filter.a.between"],
    "an object as a value": [{ a: { eq: {} } }, "filter.a.eq"],
    "an array as a value": [{ a: [1] }, "filter.a"],
    "a field that is no string": [{ field: 1, eq: 1 }, "filter.field"],
    "a backslash at the end": [{ "a\\": 1 }, 'filter["a\\\\"]'],
    "another key beside and": [{ and: [], a: 1 }, "filter"],
    "and of no array": [{ and: { a: 1 } }, "filter.and"],
    "a fault inside": [{ or: [{ a: 1 }, { not: { b: { in: [1, null] } } }] }, "filter.or[1].not.b.in[1]"],
    "in without a list": [{ a: { in: 1 } }, "filter.a.in"],
    "a boolean as a bound": [{ a: { gt: true } }, "filter.a.gt"],
    "a number that is searched in a text": [{ a: { contains: 1 } }, "filter.a.contains"],
    "exists without a boolean": [{ a: { exists: 1 } }, "filter.a.exists"],
    "an operator that clients do not send": [
      { Is: { field_name: "a", operator: "Less", field_value: 1 } },
      "filter.Is.operator",
    ],
    "an unknown key of clients": [
      { Is: { field_name: "a", operator: "Equal", value: 1 } },
      "filter.Is.value",
    ],
  };
  for (const [name, [filter, path]] of Object.entries(cases))
    test(name, () => {
      expect(fault(filter).details.path).toBe(path);
    });

  test("with a suggestion for a misspelt operator, and for one that joins filters", () => {
    expect(fault({ a: { exist: true } }).details.suggestion).toBe("exists");
    expect(fault({ $and: [{ a: 1 }] }).details).toEqual({ path: 'filter["$and"]', suggestion: "and" });
    expect(fault({ AND: [] }).details.suggestion).toBe("and");
    expect(fault({ NOT: { a: 1 } }).details.suggestion).toBe("not");
    expect(fault({ is: { field_name: "a" } }).details.suggestion).toBe("Is");
    expect(fault({ $or: 1, b: [] }).details).toMatchObject({ path: "filter.b" });
    expect(matches({ $or: 1, OR: 2 }, { $or: { gt: 0 }, OR: 2 })).toBe(true);
  });

  test("with our word for one of another database", () => {
    const condition = { key: "color", match: { value: "red" } };
    for (const [given, path, suggestion] of [
      [{ must: [condition] }, "filter.must", "and"],
      [{ must: condition }, "filter.must", "and"],
      [{ should: [condition], must: [] }, "filter.should", "or"],
      [{ must_not: [condition] }, "filter.must_not", "not"],
      [{ and: [condition] }, "filter.and[0].match", "eq"],
      [{ color: { match: "red" } }, "filter.color.match", "eq"],
      [{ field: "n", range: { gte: 1 } }, "filter.range", "gte"],
      [{ n: { range: { gte: 1 } } }, "filter.n.range", "gte"],
      [{ n: { $gt: 1 } }, "filter.n.$gt", "gt"],
    ] as const) {
      const { details, message } = fault(given);
      expect(details).toMatchObject({ suggestion });
      expect([details.path, message]).toEqual([
        path.includes("$") ? 'filter.n["$gt"]' : path,
        expect.stringContaining(`did you mean '${suggestion}'?`),
      ]);
    }
    // Fields can have these names.
    expect(matches({ must: 1, range: 2, match: "x" }, { must: 1, range: { gte: 2 }, match: "x" })).toBe(true);
  });

  test("what is missing is said to be missing, and what came is said", () => {
    const ofClients = (leaf: object) => fault({ Is: leaf });
    for (const [error, path, words] of [
      [ofClients({}), "filter.Is.field_name", "is missing"],
      [ofClients({ field_name: "a" }), "filter.Is.operator", "is missing"],
      [ofClients({ field_name: "a", operator: "eq" }), "filter.Is.operator", '"eq"'],
      [ofClients({ field_name: "a", operator: "Equal" }), "filter.Is.field_value", "is missing"],
      [fault({ not: null }), "filter.not", "a filter such as"],
      [fault({ and: null }), "filter.and", "an array of filters"],
      [fault({ Is: null }), "filter.Is", "field_name"],
    ] as const) {
      expect(error.details.path).toBe(path);
      expect(error.message).toContain(words);
      expect(error.message).not.toContain("undefined");
    }
  });

  test("any JSON is a filter, or is refused as invalid_filter", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        try {
          finishAtOnce(readFilter(value));
        } catch (error) {
          expect((error as QuiverError).code).toBe("invalid_filter");
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("[I6] a filter has limits", () => {
  const nested = (levels: number): object => (levels === 1 ? { a: 1 } : { not: nested(levels - 1) });
  const leaves = (count: number) => ({ or: Array.from({ length: count }, (_, i) => ({ a: i })) });
  const values = (count: number) => ({ a: { in: Array.from({ length: count }, (_, i) => i) } });

  test("of levels, conditions and values; the greatest are accepted", () => {
    expect(matches({ a: 1 }, nested(limits.filterLevelsMax))).toBe(limits.filterLevelsMax % 2 === 1);
    expect(matches({ a: limits.filterLeavesMax - 1 }, leaves(limits.filterLeavesMax))).toBe(true);
    expect(matches({ a: limits.filterValuesMax - 1 }, values(limits.filterValuesMax))).toBe(true);
    expect(fault(nested(limits.filterLevelsMax + 1)).details.maximum).toBe(limits.filterLevelsMax);
    expect(fault(leaves(limits.filterLeavesMax + 1)).details.maximum).toBe(limits.filterLeavesMax);
    expect(fault(values(limits.filterValuesMax + 1)).details.maximum).toBe(limits.filterValuesMax);
    expect(fault({ field: "x".repeat(limits.filterFieldLengthMax + 1), eq: 1 }).details.path).toBe(
      "filter.field",
    );
  });
});

test("filters with one key match the same records", () => {
  fc.assert(
    fc.property(anyFilter, anyFilter, anyRecord, (first, second, record) => {
      const [one, other] = [read(first), read(second)];
      if (keyOf(one) !== keyOf(other)) return;
      const plain = recordOf(JSON.parse(JSON.stringify(record)) as NaiveRecord);
      expect(new Predicate(one).matches(plain)).toBe(new Predicate(other).matches(plain));
    }),
    { numRuns: 5_000 },
  );
  expect(keyOf(read({ a: { in: [1, "1", true] } }))).toBe(keyOf(read({ field: "a", in: [true, "1", 1] })));
  expect(keyOf(read({ a: 1 }))).not.toBe(keyOf(read({ a: "1" })));
});
