// Does the kernel for lists of numbers read what JSON.parse and Math.fround read, in both builds?

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FloatListReader } from "./float-list.ts";
import { parseFloats } from "./reference.ts";

const bytesMax = 4_096;
const bytesOf = (text: string) => new TextEncoder().encode(text);

/** Text of a number as programs write it: shortest, with nine digits, with an exponent, with many zeros. */
const written = fc.oneof(
  fc.float({ noNaN: true, noDefaultInfinity: true }).map(String),
  fc.double({ noNaN: true, min: -1, max: 1 }).map(String),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
  fc.float({ noNaN: true, noDefaultInfinity: true }).map((value) => value.toPrecision(9)),
  fc.double({ noNaN: true, min: -1e20, max: 1e20 }).map((value) => value.toExponential(17)),
  fc.double({ noNaN: true, min: -1e6, max: 1e6 }).map((value) => value.toFixed(30)),
  fc.integer().map(String),
);
const digits = fc.stringMatching(/^[0-9]{0,40}$/);
/** Parts of numbers in any order: valid numbers by chance, and everything that is nearly one. */
const pieces = fc
  .array(
    fc.oneof(
      digits,
      fc.constantFrom("-", "+", ".", "e", "E", ",", " ", "\n", "0", "00", "[", "]", "null", '"'),
    ),
    {
      maxLength: 12,
    },
  )
  .map((parts) => parts.join(""));
const blank = fc.constantFrom("", "", "", " ", "\n", "\t ", "\r\n");
const list = fc
  .array(fc.tuple(blank, written, blank), { minLength: 1, maxLength: 40 })
  .map((items) => items.map((item) => item.join("")).join(","));

/** The decimal number halfway between a float and the next one, exactly, and its neighbours in the last digits. */
const middles = fc
  .tuple(fc.float({ noNaN: true, min: 2 ** -60, max: 2 ** 60 }), fc.constantFrom(-1n, 0n, 1n), fc.boolean())
  .map(([value, step, isNegative]) => {
    const bits = new Uint32Array(new Float32Array([value]).buffer)[0];
    const next = new Float32Array(new Uint32Array([bits + 1]).buffer)[0];
    const middle = new Float64Array([(value + next) / 2]);
    const near = new BigUint64Array(middle.buffer);
    near[0] += step;
    return `${isNegative ? "-" : ""}${middle[0]}`;
  });

describe.each([{ debug: false }, { debug: true }])("build with %o", (options) => {
  const reader = new FloatListReader(bytesMax, options);

  /** What the kernel reads is right; whether it reads everything that is ordinary is tested below. */
  function expectSame(text: string): void {
    const read = reader.read(bytesOf(text));
    if (read === undefined) return;
    const expected = parseFloats(text);
    expect(expected, `${JSON.stringify(text)} is not a list, and is read as ${read.join()}`).toBeDefined();
    expect([...read], text).toEqual([...(expected as Float32Array)]);
  }

  test("any list of numbers is read as JSON.parse and Math.fround read it, or not at all", () => {
    fc.assert(fc.property(list, expectSame), { numRuns: 3_000 });
  });

  test("nothing else is read as a list", () => {
    fc.assert(fc.property(pieces, expectSame), { numRuns: 10_000 });
    fc.assert(
      fc.property(list, pieces, fc.nat(), (text, more, at) => {
        const cut = at % (text.length + 1);
        expectSame(text.slice(0, cut) + more + text.slice(cut));
      }),
      { numRuns: 3_000 },
    );
  });

  test("numbers next to the middle of two floats are rounded right, or left to others", () => {
    fc.assert(
      fc.property(fc.array(middles, { minLength: 1, maxLength: 5 }), (texts) => expectSame(texts.join())),
      {
        numRuns: 3_000,
      },
    );
  });

  test("ordinary numbers are read, however they are written", () => {
    const ordinary = fc.oneof(
      fc.float({ noNaN: true, min: Math.fround(1e-30), max: Math.fround(1e30) }).map(String),
      fc
        .float({ noNaN: true, min: Math.fround(-1), max: 1 })
        .filter((value) => value === 0 || Math.abs(value) > 1e-30)
        .map((value) => (Object.is(value, -0) ? "-0" : value.toPrecision(9))),
      fc.integer({ min: -1_000_000, max: 1_000_000 }).map(String),
      fc.constantFrom(
        "0",
        "-0",
        "0.0",
        "0e5",
        "1E+2",
        "1e-2",
        "0.000000000000000000001",
        "123456789012345678901234567890",
      ),
    );
    fc.assert(
      fc.property(fc.array(ordinary, { minLength: 1, maxLength: 40 }), (texts) => {
        const read = reader.read(bytesOf(texts.join(" , ")));
        expect(read && [...read]).toEqual([...(parseFloats(texts.join()) as Float32Array)]);
      }),
      { numRuns: 2_000 },
    );
  });

  test("the longest list is read whole, and none beyond it", () => {
    const longest = Array.from({ length: bytesMax / 2 }, (_, i) => i % 10).join();
    const read = reader.read(bytesOf(`${longest} `));
    expect(read?.length).toBe(bytesMax / 2);
    expect([...(read as Float32Array)]).toEqual(longest.split(",").map(Number));
    expect(() => reader.read(new Uint8Array(bytesMax + 1))).toThrow(RangeError);
  });

  test.each([
    "",
    " ",
    "1,",
    ",1",
    "1,,2",
    "01",
    "-",
    "1.",
    ".5",
    "1e",
    "1e+",
    "+1",
    "0x10",
    "1 2",
    "NaN",
    "1e39",
    "1e-44",
    "-1e400",
    "1e99999",
  ])("%j is left to others", (text) => expect(reader.read(bytesOf(text))).toBeUndefined());
});
