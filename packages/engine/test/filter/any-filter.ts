// Random records and filters that have much to do with each other: few keys, few values, deep paths, arrays, mixed types, odd characters.

import fc from "fast-check";
import type { NaiveRecord } from "./naive-filter.ts";

const keys = ["a", "b", "c", "a.b", "", "é", "𝒳", "id", "and", 'q"\\', "__proto__"];
/** Field names: of those keys, alone and in each other. */
export const fieldNames = [
  "a",
  "b",
  "c",
  "a.b",
  "a.a",
  "b.c.a",
  "a\\.b",
  "",
  "é",
  "𝒳",
  "\\id",
  "and",
  'q"\\\\',
  "missing",
  "__proto__",
  "id",
  "document_id",
];

/** Some come in another order as UTF-16. */
const texts = ["", "a", "ab", "b", 'x"y\\z\n', "é", "\ufffd", "𝒳", "𝒳𝒴", "2024-05-01", "long ".repeat(12)];
const numbers = [0, -0, 1, -1, 1.5, 0.1, 1e21, 5e-324, 123456789012345680000, 2 ** 53, -7.25];

const scalar = fc.oneof(fc.constantFrom(...texts), fc.constantFrom(...numbers), fc.boolean());
const { value } = fc.letrec<{ value: unknown; object: Record<string, unknown> }>((tie) => ({
  value: fc.oneof(
    { weight: 6, arbitrary: scalar },
    { weight: 1, arbitrary: fc.constant(null) },
    { weight: 2, arbitrary: fc.array(tie("value"), { maxLength: 3 }) },
    { weight: 2, arbitrary: tie("object") },
  ),
  object: fc.dictionary(fc.constantFrom(...keys), tie("value"), { maxKeys: 3, noNullPrototype: true }),
}));

export const anyMetadata: fc.Arbitrary<Record<string, unknown>> = fc.dictionary(
  fc.constantFrom(...keys),
  value,
  {
    maxKeys: 6,
    noNullPrototype: true,
  },
);

export const anyRecord: fc.Arbitrary<NaiveRecord> = fc.record({
  id: fc.constantFrom("a", "b", "r1", "𝒳"),
  document_id: fc.constantFrom(null, "a", "doc"),
  metadata: fc.option(anyMetadata),
});

const operators = fc.oneof(
  fc.record({ eq: scalar }),
  fc.record({ ne: scalar }),
  fc.record({ in: fc.array(scalar, { maxLength: 7 }) }),
  fc.record({ nin: fc.array(scalar, { maxLength: 3 }) }),
  fc.record({ exists: fc.boolean() }),
  fc.record({ contains: fc.constantFrom(...texts) }),
  fc.record({ prefix: fc.constantFrom(...texts) }),
  ...["gt", "gte", "lt", "lte"].map((name) =>
    fc.oneof(fc.constantFrom(...texts), fc.constantFrom(...numbers)).map((bound) => ({ [name]: bound })),
  ),
  fc.record({ gte: fc.constantFrom(...numbers), lt: fc.constantFrom(...numbers) }),
) as fc.Arbitrary<Record<string, unknown>>;

const longName = fc.constantFrom(...fieldNames);
/** Names that the short form can have. */
const shortName = longName.filter((name) => name !== "and");

/** A filter in any of its forms. */
export const anyFilter: fc.Arbitrary<object> = fc.letrec<{ filter: object }>((tie) => ({
  filter: fc.oneof(
    { depthSize: "small" },
    fc.tuple(longName, operators).map(([field, held]) => ({ field, ...held })),
    fc.dictionary(shortName, fc.oneof(scalar, operators), { minKeys: 1, maxKeys: 3, noNullPrototype: true }),
    fc.record({
      Is: fc.record({
        field_name: longName,
        operator: fc.constantFrom("Equal", "NotEqual"),
        field_value: scalar,
      }),
    }),
    fc.record({ not: tie("filter") }),
    ...["and", "or", "And", "Or"].map((name) =>
      fc.array(tie("filter"), { maxLength: 3 }).map((parts) => ({ [name]: parts })),
    ),
  ),
})).filter;
