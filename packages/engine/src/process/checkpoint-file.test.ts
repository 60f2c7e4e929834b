// Does reading a checkpoint return exactly what was written, or nothing?

import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CheckpointReader, removeCheckpoint, writeCheckpoint } from "./checkpoint-file.ts";

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "quiver-checkpoint-"));
  path = join(directory, "checkpoints", "dense");
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const meta = { configuration: "abc", version: 7, hash: "00" };

function readAll(): Uint8Array[] {
  const reader = new CheckpointReader(path);
  try {
    expect(reader.meta).toEqual(meta);
    return Array.from({ length: reader.partCount }, (_, part) => {
      const bytes = new Uint8Array(new SharedArrayBuffer(reader.lengthOf(part)));
      reader.read(part, bytes);
      return bytes;
    });
  } finally {
    reader.close();
  }
}

test("parts of any length are read back, including those of several chunks and of shared memory", () => {
  const large = new Uint8Array(new SharedArrayBuffer(40_000_000));
  for (let i = 0; i < large.length; i += 997) large[i] = i;
  const parts = [Uint8Array.of(1, 2, 3), new Uint8Array(0), large];
  writeCheckpoint(path, meta, parts);
  const read = readAll();
  expect(read.map(({ length }) => length)).toEqual([3, 0, 40_000_000]);
  for (const [i, part] of parts.entries())
    expect(Buffer.compare(Buffer.from(read[i]), Buffer.from(part))).toBe(0);
  // The next checkpoint replaces it and leaves no other file.
  writeCheckpoint(path, meta, [Uint8Array.of(9)]);
  expect(readAll()).toEqual([Uint8Array.of(9)]);
  expect(readdirSync(join(directory, "checkpoints"))).toEqual(["dense"]);
});

test("[I5] a changed byte anywhere, or an end that is missing, is noticed", () => {
  const parts = [
    Uint8Array.from({ length: 300 }, (_, i) => i),
    Uint8Array.from({ length: 77 }, (_, i) => i * 3),
  ];
  writeCheckpoint(path, meta, parts);
  const whole = readFileSync(path);
  fc.assert(
    fc.property(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
      const damaged = Buffer.from(whole);
      damaged[at] ^= change;
      writeFileSync(path, damaged);
      expect(readAll).toThrow();
    }),
    { numRuns: 300 },
  );
  for (let length = 0; length < whole.length; length += 7) {
    writeFileSync(path, whole);
    truncateSync(path, length);
    expect(readAll).toThrow();
  }
  writeFileSync(path, Buffer.concat([whole, Buffer.from("x")]));
  expect(readAll).toThrow();
  writeFileSync(path, whole);
  expect(readAll()).toEqual(parts);
});

test("leftovers of an interrupted write do no harm", () => {
  writeCheckpoint(path, meta, [Uint8Array.of(1)]);
  writeFileSync(`${path}.new`, "half");
  expect(readAll()).toEqual([Uint8Array.of(1)]);
  writeCheckpoint(path, meta, [Uint8Array.of(2)]);
  expect(readAll()).toEqual([Uint8Array.of(2)]);
  writeFileSync(`${path}.new`, "half");
  removeCheckpoint(path);
  expect(existsSync(path) || existsSync(`${path}.new`)).toBe(false);
  expect(() => new CheckpointReader(path)).toThrow("ENOENT");
});
