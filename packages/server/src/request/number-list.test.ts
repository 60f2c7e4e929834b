// Is a body whose vector the kernel reads the same as one that JSON.parse reads?

import "@quiverdb/engine/process/node-host";
import { finishAtOnce } from "@quiverdb/engine/database/contract";
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseBody } from "./json.ts";
import { parseWithFloats } from "./number-list.ts";

const key = "query_vector";
const filling = Array.from({ length: 64 }, (_, i) => i / 7);
const long = JSON.stringify(filling);

/** The value as parsed with the kernel, floats as numbers; or the code and details of the error. */
function outcome(bytes: Buffer, field?: string): unknown {
  try {
    const { value, floatsField } = finishAtOnce(parseBody(bytes, field));
    if (floatsField === undefined) return { value };
    const fields = value as Record<string, Float32Array>;
    expect(fields[floatsField]).toBeInstanceOf(Float32Array);
    return { value: { ...fields, [floatsField]: [...fields[floatsField]] } };
  } catch (error) {
    const { code, details } = error as { code: string; details: unknown };
    return { code, details };
  }
}

/** The same with each number of a list under the key rounded to a float. */
function rounded(result: unknown): unknown {
  const { value } = result as { value?: unknown };
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return result;
  const list = (value as Record<string, unknown>)[key];
  const isVector = Array.isArray(list) && list.every((item) => typeof item === "number");
  return isVector ? { value: { ...value, [key]: list.map(Math.fround) } } : result;
}

function expectSame(text: string | Buffer): void {
  const bytes = Buffer.from(text);
  expect(rounded(outcome(bytes, key)), String(text)).toEqual(rounded(outcome(bytes)));
}

test("a long list under the key is read as floats", () => {
  const body = Buffer.from(` { "top_k" : 3 , "${key}" :\n ${long} , "query_text": "é" } `);
  const value = parseWithFloats(body, key);
  expect(value).toEqual({ top_k: 3, [key]: Float32Array.from(filling), query_text: "é" });
});

test.each([
  ["a key of that name in a string", `{"a":"\\"${key}\\":${long}","${key}":[1]}`],
  ["a key that ends like it", `{"a\\"${key}":${long},"${key}":7}`],
  ["a nested key", `{"a":{"${key}":${long}},"${key}":[1,2]}`],
  ["a nested key alone", `{"a":{"${key}":${long}}}`],
  ["a later value of the key", `{"${key}":${long},"${key}":[3]}`],
  ["an earlier value of the key", `{"${key}":[3],"${key}":${long}}`],
  ["an escaped later key", `{"${key}":${long},"query\\u005fvector":[3]}`],
  ["the key as a value", `{"a":"${key}","${key}":${long}}`],
  ["nested lists", `{"${key}":[${long}]}`],
  ["a list of other values", `{"${key}":[1,"]",${long.slice(1)}}`],
  ["a number that is no float", `{"${key}":[1e39,${long.slice(1)}}`],
  ["a number that is no double", `{"${key}":[1e400,${long.slice(1)}}`],
  ["a body that is a list", `["${key}",${long}]`],
  ["a prototype", `{"__proto__":{"${key}":${long}},"a":1}`],
  ["text behind the body", `{"${key}":${long}}}`],
  ["a missing end", `{"${key}":${long}`],
  ["a list without end", `{"${key}":${long.slice(0, -1)}`],
  ["an empty item", `{"${key}":[1,,${long.slice(1)}}`],
])("%s is understood as JSON.parse does", (_what, text) => expectSame(text));

test("bytes that are not UTF-8 are reported where they are", () => {
  for (const bad of [`{"a":"\xff","${key}":${long}}`, `{"${key}":${long},"a":"\xc3"}`])
    expect(outcome(Buffer.from(bad, "latin1"), key)).toMatchObject({ code: "invalid_json" });
  expectSame(Buffer.from(`{"${key}":${long},"a":"\xc3"}`, "latin1"));
});

test("any body, whole or cut and mended at random, has the same value or the same fault", () => {
  const part = fc.constantFrom(
    `"${key}"`,
    ":",
    ",",
    "{",
    "}",
    "[",
    "]",
    '"',
    "\\",
    long,
    "1",
    "null",
    " ",
    '"a"',
  );
  const value = fc.oneof(fc.constant(long), fc.constant("[1]"), fc.json());
  const member = fc
    .tuple(fc.constantFrom(`"${key}"`, '"top_k"', '"a"'), value)
    .map(([name, text]) => `${name}:${text}`);
  const body = fc.array(member, { maxLength: 4 }).map((members) => `{${members.join(",")}}`);
  const mended = fc.tuple(body, fc.array(fc.tuple(fc.nat(), part), { maxLength: 2 })).map(([text, changes]) =>
    changes.reduce((changed, [at, more]) => {
      const cut = at % (changed.length + 1);
      return changed.slice(0, cut) + more + changed.slice(cut + (at % 3));
    }, text),
  );
  fc.assert(fc.property(fc.oneof(body, mended), expectSame), { numRuns: 3_000 });
});
