// Which JSON texts does the fuzzer generate for a shape: valid, nearly valid and hostile ones?
//
// Everything is generated as JSON *text*, because the interesting cases cannot be written with JSON.stringify: 1e400, -0, a duplicate key,
// half a surrogate pair, 5,000 levels of nesting. The arbitraries are derived from the shapes of the protocol, so new endpoints and fields
// are fuzzed without a change here.

import fc from "fast-check";

/** The parts of a JSON schema that the shapes of the protocol use. */
type Schema = {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly minLength?: number;
};

export type Shaping = {
  /** Number of hostile values per 1,000; an object with ten fields is therefore wrong ten times as often. */
  readonly flawPermille: number;
  /** Meaningful values of a key, beyond its shape (a vector of the right dimension, an id that exists), as JSON text. */
  readonly hints: Readonly<Record<string, fc.Arbitrary<string>>>;
};

const text = (value: unknown) => JSON.stringify(value);

const hostileNumbers = [
  "1e400",
  "-1e400",
  "1e-400",
  "-0",
  "-0.0",
  "-1",
  "0",
  "0.5",
  "1E+308",
  "3.5e38",
  "3.4028235e38",
  "1e-45",
  "2147483648",
  "4294967295",
  "4294967296",
  "9007199254740991",
  "9007199254740993",
  "18446744073709551616",
  "123456789012345678901234567890",
  `1${"0".repeat(400)}`,
  `0.${"1".repeat(2_000)}`,
];

const hostileStrings = [
  "",
  " ",
  ".",
  "..",
  "loaded",
  "../../etc/passwd",
  "%2e%2e%2f",
  "a\u0000b",
  "__proto__",
  "constructor",
  "toString",
  "null",
  "\u202eabc\u202c",
  "ﷺ".repeat(50),
  `e${"\u0301".repeat(3_000)}`,
  "👩‍👩‍👧‍👦".repeat(40),
  "x".repeat(300),
  "x".repeat(100_000),
  "a b ".repeat(5_000),
  '+"a b" -c d* e~2 \\*'.repeat(3),
  `${"a* ".repeat(17)}`,
  `${"+a ".repeat(1_100)}`,
  '"unclosed',
  "a~9",
  "<script>alert(1)</script>",
  "'; DROP TABLE collections; --",
  "$" + "{7*7}",
  "\ufeff",
  "\uffff",
  "İıſßẞ",
  "日本語のテキスト",
].map(text);

/** Texts that no serializer produces; some are valid JSON, some are not. */
const hostileTexts = [
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"\\u0000"',
  "null",
  "true",
  "false",
  "{}",
  "[]",
  "[null]",
  "[[]]",
  "[[[[[[[[[[1]]]]]]]]]]",
  '[1,"a",null]',
  "[1e400]",
  "[-0]",
  '{"__proto__":{"polluted":true}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  '{"length":4294967295}',
  '{"0":1,"length":1}',
  '{"toJSON":1,"valueOf":2,"toString":3}',
  '{"a":1,"a":2,"a":3}',
  '{"index":0,"value":1}',
  '{"index":-1,"value":1e400}',
  "[0,0,0]",
  "[4294967296,1]",
  "NaN",
  "Infinity",
  "undefined",
  "01",
  "1.",
  ".5",
  "+1",
  "0x10",
  "'a'",
  "{a:1}",
  "[1,]",
  "\ufeff1",
  "/*c*/1",
  '"\u0001"',
  '"\\x41"',
  "",
];

const bigTexts: readonly (() => string)[] = [
  () => "[".repeat(5_000) + "]".repeat(5_000),
  () => `${'{"a":'.repeat(3_000)}1${"}".repeat(3_000)}`,
  () => `[${"0,".repeat(20_000)}0]`,
  () => `[${"[],".repeat(10_000)}[]]`,
  () => `{${Array.from({ length: 3_000 }, (_, i) => `"k${i}":${i}`).join(",")}}`,
  () => `"${"\\u00e9".repeat(20_000)}"`,
];

/** A text that is wrong almost everywhere. Big ones are rare, because they cost the generator more than the server. */
export const hostile: fc.Arbitrary<string> = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...hostileNumbers) },
  { weight: 8, arbitrary: fc.constantFrom(...hostileStrings) },
  { weight: 12, arbitrary: fc.constantFrom(...hostileTexts) },
  { weight: 6, arbitrary: fc.jsonValue({ maxDepth: 3 }).map(text) },
  { weight: 3, arbitrary: fc.string({ unit: "binary", maxLength: 40 }).map(text) },
  { weight: 1, arbitrary: fc.constantFrom(...bigTexts).map((make) => make()) },
);

/** Texts for a value of the shape. `key` is the property that holds it. */
export function shaped(schema: unknown, shaping: Shaping, key = ""): fc.Arbitrary<string> {
  const hint = shaping.hints[key];
  const valid = fitting(schema as Schema, shaping);
  const sensible =
    hint === undefined ? valid : fc.oneof({ weight: 9, arbitrary: hint }, { weight: 1, arbitrary: valid });
  if (shaping.flawPermille === 0) return sensible;
  return fc.oneof(
    { weight: 1_000 - shaping.flawPermille, arbitrary: sensible },
    { weight: shaping.flawPermille, arbitrary: hostile },
  );
}

function fitting(schema: Schema, shaping: Shaping): fc.Arbitrary<string> {
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map((branch) => shaped(branch, shaping)));
  if (schema.const !== undefined) return fc.constant(text(schema.const));
  if (schema.enum) return fc.constantFrom(...schema.enum.map(text));
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  return fc.oneof(...types.map((type: string) => ofType(type, schema, shaping)));
}

function ofType(type: string, schema: Schema, shaping: Shaping): fc.Arbitrary<string> {
  switch (type) {
    case "null":
      return fc.constant("null");
    case "boolean":
      return fc.constantFrom("true", "false");
    case "integer": {
      const min = schema.minimum ?? Number.MIN_SAFE_INTEGER;
      const max = schema.maximum ?? Number.MAX_SAFE_INTEGER;
      // Across a range that 32 bits cannot hold.
      const anywhere = fc.nat(1_000_000).map((share) => min + Math.floor((share / 1_000_000) * (max - min)));
      const near = fc.integer({ min, max: Math.min(max, min + 200) });
      return fc
        .oneof(
          { weight: 9, arbitrary: near },
          { weight: 1, arbitrary: anywhere },
          { weight: 1, arbitrary: fc.constantFrom(min, max) },
        )
        .map(String);
    }
    case "number": {
      const min = schema.minimum ?? schema.exclusiveMinimum ?? -1_000;
      const max = schema.maximum ?? 1_000;
      return fc
        .double({ min, max, noNaN: true, minExcluded: schema.exclusiveMinimum !== undefined })
        .map(text);
    }
    case "string":
      return fc.string({ unit: "grapheme", minLength: schema.minLength ?? 0, maxLength: 20 }).map(text);
    case "array": {
      const items = shaped(schema.items ?? {}, shaping);
      const minLength = schema.minItems ?? 0;
      const maxLength = Math.min(schema.maxItems ?? 6, minLength + 6);
      return fc.array(items, { minLength, maxLength }).map((parts) => `[${parts.join(",")}]`);
    }
    case "object":
      return object(schema, shaping);
    default:
      return fc.jsonValue({ maxDepth: 2 }).map(text);
  }
}

function object(schema: Schema, shaping: Shaping): fc.Arbitrary<string> {
  if (!schema.properties) {
    return fc
      .dictionary(fc.string({ maxLength: 8 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 })
      .map(text);
  }
  const required = new Set(schema.required ?? []);
  const often = shaping.flawPermille === 0 ? 0 : 1;
  const members = Object.entries(schema.properties).map(([key, property]) => {
    const member = shaped(property, shaping, key).map((value) => `${text(key)}:${value}`);
    // A required key is left out as rarely as a value is hostile; an optional one is there every other time.
    return required.has(key)
      ? fc.oneof(
          { weight: 1_000 - shaping.flawPermille, arbitrary: member },
          { weight: shaping.flawPermille, arbitrary: fc.constant("") },
        )
      : fc.option(member, { nil: "", freq: 2 });
  });
  const odd = fc.oneof(
    { weight: 30, arbitrary: fc.constant("") },
    {
      weight: often,
      arbitrary: fc
        .tuple(fc.constantFrom("__proto__", "constructor", "id", "junk", "", "top_k"), hostile)
        .map(([key, value]) => `${text(key)}:${value}`),
    },
  );
  return fc.tuple(...members, odd).map((parts) => `{${parts.filter((part) => part !== "").join(",")}}`);
}
