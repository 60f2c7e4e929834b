import fc from "fast-check";
import { expect, test } from "vitest";
import { utf8 } from "../base/bytes.ts";
import { type Field, fieldNamed, timeOf } from "./field.ts";
import { MetadataScanner } from "./scan.ts";

const field = (name: string): Field => fieldNamed(name) as Field;

/** What a scan finds, as plain values. */
function found(json: string, names: readonly string[]): [name: string, value: unknown][] {
  const values: [string, unknown][] = [];
  new MetadataScanner(names.map(field)).scan(utf8(json), (position, value) =>
    values.push([
      names[position],
      value.type === "object"
        ? {}
        : value.type === "string"
          ? value.text
          : value.type === "number"
            ? value.number
            : value.boolean,
    ]),
  );
  return values;
}

test("numbers are read as JSON.parse reads them", () => {
  const json = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
    fc.integer().map(String),
    fc.tuple(fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }), fc.nat(30)).map(([digits, zeros]) => {
      const text = `${digits < 0n ? -digits : digits}`.padStart(zeros + 1, "0");
      const whole = text.slice(0, text.length - zeros).replace(/^0+(?=\d)/, "");
      return `${digits < 0n ? "-" : ""}${whole}${zeros === 0 ? "" : `.${text.slice(text.length - zeros)}`}`;
    }),
    fc.constantFrom(
      "0",
      "-0",
      "1e999",
      "-1E+5",
      "1.0",
      "0.1",
      "999999999999999",
      "0.000000000000001",
      "9007199254740993",
    ),
  );
  fc.assert(
    fc.property(json, (text) => {
      expect(found(`{"n":${text}}`, ["n"])).toEqual([["n", JSON.parse(text)]]);
    }),
    { numRuns: 3_000 },
  );
});

test("strings are read as JSON.parse reads them", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 40 }), fc.string({ maxLength: 10 }), (text, key) => {
      const name = key.replaceAll(/[\\.]/g, "\\$&");
      const json = JSON.stringify({ other: [text, { x: text }], [key]: text, last: "}]" });
      if (key === "other" || key === "last" || name === "id") return;
      expect(found(json, [name])).toEqual([[name, text]]);
    }),
    { numRuns: 2_000 },
  );
});

test("an array stands for its elements, and what is not wanted is passed", () => {
  const json = '{"x":{"a":[1,"]}",{"a":2}]},"a":[{"b":1},[{"b":[2,null,"3"]}],4,{}],"b":false,"c":null}';
  expect(found(json, ["a.b", "b", "a", "c", "d"])).toEqual([
    ["a", {}],
    ["a.b", 1],
    ["a", {}],
    ["a.b", 2],
    ["a.b", "3"],
    ["a", 4],
    ["a", {}],
    ["b", false],
  ]);
});

test("bytes that are no JSON end with an error", () => {
  const whole = '{"a":["x",{"b":1}],"c":"\\u00e9"}';
  for (let length = 0; length < whole.length; length++)
    for (const names of [["z"], ["a.b", "z"]])
      expect(() => found(whole.slice(0, length), names), whole.slice(0, length)).toThrow("Invariant");
});

test("the name of a field is a path, with backslashes for dots in keys", () => {
  expect(field("a.b").keys).toEqual(["a", "b"]);
  expect(field("a\\.b\\\\.c").keys).toEqual(["a.b\\", "c"]);
  expect(field("").keys).toEqual([""]);
  expect(field("id").record).toBe("id");
  expect(field("\\id").keys).toEqual(["id"]);
  expect(field("id.x").keys).toEqual(["id", "x"]);
  expect(fieldNamed("a\\")).toBeNull();
});

test("moments are read from ISO 8601 as Date.parse reads them", () => {
  fc.assert(
    fc.property(
      fc.date({
        noInvalidDate: true,
        min: new Date("0000-01-01T00:00:00Z"),
        max: new Date("9999-12-31T23:59:59Z"),
      }),
      fc.integer({ min: -1_439, max: 1_439 }),
      (date, offset) => {
        const iso = date.toISOString();
        expect(timeOf(iso)).toBe(date.getTime());
        expect(timeOf(iso.slice(0, 10))).toBe(Date.parse(iso.slice(0, 10)));
        const [hours, minutes] = [Math.trunc(Math.abs(offset) / 60), Math.abs(offset) % 60].map((n) =>
          String(n).padStart(2, "0"),
        );
        const zone = `${offset < 0 ? "-" : "+"}${hours}:${minutes}`;
        expect(timeOf(iso.replace("Z", zone))).toBe(Date.parse(iso.replace("Z", zone)));
      },
    ),
  );
  expect(timeOf("2024-02-29T10:30")).toBe(Date.UTC(2024, 1, 29, 10, 30));
  expect(timeOf("2024-05-01 10:30:00.000250+0200")).toBe(Date.UTC(2024, 4, 1, 8, 30) + 0.25);
  for (const text of [
    "",
    "2024",
    "2023-02-29",
    "2024-13-01",
    "2024-05-01T24:00",
    "2024-05-01T10:60",
    "x2024-05-01",
    "2024-05-00",
  ])
    expect(timeOf(text), text).toBeNaN();
});
