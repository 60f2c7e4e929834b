// A short form of corruption.ts: eight damaged places.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Campaign } from "./corruption.ts";

const seed = Number(process.env.QUIVER_TEST_SEED ?? 11);

it(`[Z3] [Z4] damaged data is never served, and what is intact is saved (seed ${seed})`, async () => {
  const folder = mkdtempSync(join(tmpdir(), "quiver-corruption-"));
  try {
    const campaign = new Campaign(folder, seed);
    await campaign.prepare();
    for (let run = 0; run < 8; run++) await campaign.run();
    const { runs, answersRight } = campaign.summary;
    expect(runs).toBe(8);
    expect(answersRight).toBeGreaterThan(0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 600_000);
