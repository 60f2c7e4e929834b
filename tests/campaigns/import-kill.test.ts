// A short form of tests/import-kill.ts: generated vectors, one run of each kind.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Mode, randomNumbers, readSource, runOnce, type Source } from "./import-kill.ts";

const ROWS = 5_000;
const DIMENSION = 16;
const seed = Number(process.env.QUIVER_TEST_SEED ?? 7);

let folder: string;
let source: Source;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "quiver-import-kill-source-"));
  const random = randomNumbers(seed);
  const values = new Float32Array(ROWS * DIMENSION).map(() => random() * 2 - 1);
  const path = join(folder, "vectors.f32");
  writeFileSync(path, values);
  source = readSource(path, DIMENSION);
});
afterAll(() => rmSync(folder, { recursive: true }));

it.each<[Mode, boolean]>([
  ["streaming", true],
  ["transaction", false],
])(
  `a killed server keeps every acknowledged record of a %s import (gives up: %s, seed ${seed})`,
  async (mode, givesUp) => {
    const result = await runOnce({ source, mode, givesUp, seed });
    expect(result.total).toBe(ROWS);
  },
  120_000,
);
