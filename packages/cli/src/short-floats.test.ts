import fc from "fast-check";
import { expect, test } from "vitest";
import { shortFloat, withShortFloats } from "./short-floats.ts";

test("[D3] the shortest digits are those of the same 32-bit float", () => {
  fc.assert(
    fc.property(fc.float({ noNaN: true, noDefaultInfinity: true }), (value) => {
      const short = shortFloat(String(value));
      expect(Math.fround(Number(short))).toBe(Number(String(value)));
      // Its twin, which tries all numbers of digits.
      const precise = Array.from({ length: 9 }, (_, i) => Number(value.toPrecision(i + 1)));
      const twin = value === 0 ? value : precise.find((each) => Math.fround(each) === value);
      expect(short.length).toBeLessThanOrEqual(String(twin).length);
    }),
    { numRuns: 20_000 },
  );
  for (const [value, short] of [
    [0.1, "0.1"],
    [16_777_216, "16777216"],
    [1e-45, "1e-45"],
    [3.4028234663852886e38, "3.4028235e+38"],
    [0.3333333, "0.3333333"],
    [-1 / 3, "-0.33333334"],
  ] as const)
    expect(shortFloat(String(Math.fround(value)))).toBe(short);
});

test("nothing of a record changes but the digits of its dense vector", () => {
  const before = '{"id":"\\"dense_values\\":[0.10000000149011612]","document_id":null,"dense_values":';
  const after = ',"metadata":{"dense_values":[0.10000000149011612],"n":9007199254740993}}';
  expect(withShortFloats(`${before}[0.10000000149011612,-0,1]${after}`)).toBe(`${before}[0.1,-0,1]${after}`);
  for (const none of ["null", "[]"])
    expect(withShortFloats(before + none + after)).toBe(before + none + after);
});
