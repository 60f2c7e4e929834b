import { describe, expect, it } from "vitest";
import {
  formatBytes,
  formatCount,
  formatDuration,
  readBoolean,
  readBytes,
  readDuration,
  readInteger,
  readNumber,
} from "./values.ts";

it.each([
  ["0", 0],
  ["1048576", 1048576],
  ["64MiB", 64 * 1024 ** 2],
  ["64 mib", 64 * 1024 ** 2],
  ["2GB", 2e9],
  ["2g", 2 * 1024 ** 3],
  ["1.5KiB", 1536],
])("reads the size %s", (text, bytes) => expect(readBytes(text)).toBe(bytes));

it.each([
  ["250ms", 250],
  ["90", 90_000],
  ["90s", 90_000],
  ["5m", 300_000],
  ["1.5h", 5_400_000],
])("reads the duration %s", (text, ms) => expect(readDuration(text)).toBe(ms));

it.each(["", "x", "-1", "1 lightyear", "NaN", "1e3s"])("rejects %j as size and as duration", (text) => {
  expect(() => readBytes(text)).toThrow(/expected a size/);
  expect(() => readDuration(text)).toThrow(/expected a duration/);
});

describe("whole numbers", () => {
  it("keep within their bounds", () => {
    expect(readInteger("1_000", 1, 1_000)).toBe(1_000);
    expect(() => readInteger("0", 1)).toThrow("expected a whole number of at least 1");
    expect(() => readInteger("70000", 0, 65_535)).toThrow("at most 65535");
  });
  it.each(["", "1.5", "0x10", "ten", "-3"])("are not %j", (text) =>
    expect(() => readInteger(text)).toThrow(),
  );
});

it("reads numbers and truth values", () => {
  expect(readNumber("-0.5")).toBe(-0.5);
  expect(() => readNumber("")).toThrow();
  expect(["true", "YES", "1", "on"].map(readBoolean)).toEqual([true, true, true, true]);
  expect(["false", "no", "0", "off"].map(readBoolean)).toEqual([false, false, false, false]);
  expect(() => readBoolean("maybe")).toThrow("expected true or false");
});

it("writes counts, sizes and durations for people", () => {
  expect(formatCount(1234567.4)).toBe("1,234,567");
  expect([0, 1023, 1536, 3 * 1024 ** 3].map(formatBytes)).toEqual(["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]);
  expect([1234, 125_000, 3_725_000].map(formatDuration)).toEqual(["1.2 s", "2m 05s", "1h 02m"]);
});
