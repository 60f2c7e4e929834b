// A short form of import-kill.ts: generated vectors, one run of each kind.

import { writeFileSync } from "node:fs";
import { randomNumbers } from "@quiverdb/kernels/random";
import { afterAll, beforeAll, expect, it } from "vitest";
import { seed } from "../seed.ts";
import { TemporaryFolder } from "./campaign.ts";
import { type Mode, readSource, runOnce, type Source } from "./import-kill.ts";

const rows = 5_000;
const dimension = 16;

let folder: TemporaryFolder;
let source: Source;

beforeAll(() => {
  folder = new TemporaryFolder("import-kill-source");
  const random = randomNumbers(seed);
  const values = new Float32Array(rows * dimension).map(() => random() * 2 - 1);
  const path = folder.join("vectors.f32");
  writeFileSync(path, values);
  source = readSource(path, dimension);
});
afterAll(() => folder[Symbol.dispose]());

it.each<[Mode, boolean]>([
  ["streaming", true],
  ["transaction", false],
])(
  `a killed server keeps every acknowledged record of a %s import (gives up: %s, seed ${seed})`,
  async (mode, givesUp) => {
    const result = await runOnce({ source, mode, givesUp, seed });
    expect(result.total).toBe(rows);
  },
  120_000,
);
