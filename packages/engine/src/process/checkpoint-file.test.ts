// Does reading a checkpoint return exactly what was written, or nothing?

import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
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
  writeCheckpoint(
    path,
    meta,
    parts.map((bytes) => ({ bytes })),
  );
  const read = readAll();
  expect(read.map(({ length }) => length)).toEqual([3, 0, 40_000_000]);
  for (const [i, part] of parts.entries())
    expect(Buffer.compare(Buffer.from(read[i]), Buffer.from(part))).toBe(0);
  // The next checkpoint replaces it and leaves no other file.
  writeCheckpoint(path, meta, [{ bytes: Uint8Array.of(9) }]);
  expect(readAll()).toEqual([Uint8Array.of(9)]);
  expect(readdirSync(join(directory, "checkpoints"))).toEqual(["dense"]);
});

test("rows are read back, also where a chunk ends in the middle of one, and take little room", () => {
  for (const [rows, rowBytes] of [
    [0, 128],
    [1, 256],
    [30_000, 384],
  ]) {
    const bytes = new Uint8Array(new SharedArrayBuffer(rows * rowBytes + 5));
    const words = new Uint32Array(bytes.buffer, 0, (rows * rowBytes) / 4);
    for (let i = 0; i < words.length; i++)
      words[i] = i % 7 === 0 ? 0xffff_ffff : Math.imul(i, 0x9e37_79b9) >>> 16;
    writeCheckpoint(path, meta, [{ bytes, rowBytes }]);
    const [read] = readAll();
    expect(Buffer.compare(Buffer.from(read), Buffer.from(bytes))).toBe(0);
    // Half of each word is zero.
    expect(statSync(path).size).toBeLessThan(0.6 * bytes.length + 500);
  }
});

test("[I5] a checkpoint of another format is refused", () => {
  writeCheckpoint(path, meta, [{ bytes: Uint8Array.of(1) }]);
  const whole = readFileSync(path);
  const footerAt = whole.indexOf('{"format":3');
  whole.write('{"format":2', footerAt);
  whole.writeUInt32LE(crc32(whole.subarray(footerAt, -16)), whole.length - 12);
  writeFileSync(path, whole);
  expect(() => new CheckpointReader(path)).toThrow("the format is 2, not 3");
});

test("[I5] a changed byte anywhere, or an end that is missing, is noticed", () => {
  const parts = [
    Uint8Array.from({ length: 300 }, (_, i) => i),
    Uint8Array.from({ length: 77 }, (_, i) => i * 3),
  ];
  writeCheckpoint(path, meta, [{ bytes: parts[0] }, { bytes: parts[1], rowBytes: 8 }]);
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
  writeCheckpoint(path, meta, [{ bytes: Uint8Array.of(1) }]);
  writeFileSync(`${path}.new`, "half");
  expect(readAll()).toEqual([Uint8Array.of(1)]);
  writeCheckpoint(path, meta, [{ bytes: Uint8Array.of(2) }]);
  expect(readAll()).toEqual([Uint8Array.of(2)]);
  writeFileSync(`${path}.new`, "half");
  removeCheckpoint(path);
  expect(existsSync(path) || existsSync(`${path}.new`)).toBe(false);
  expect(() => new CheckpointReader(path)).toThrow("ENOENT");
});
