// Do readers in other threads get right answers, while the owners of the collections change them? For longer: `npm run campaign readers`.

import { expect, test } from "vitest";
import { hammerDrivers } from "../../test/index/hammer-drivers.ts";
import { hammer } from "../../test/runtime/hammer/hammer.ts";

test("[N3] two owners change their collections, four threads search them and die: every answer is right for its version", async () => {
  const kinds = hammerDrivers.map(({ kind }) => kind.name);
  const { wrong, answers, oldPins, deaths, writers } = await hammer({
    seed: 5,
    answers: 600,
    kinds,
    deathEvery: 200,
  });
  expect(wrong).toEqual([]);
  expect(deaths).toBeGreaterThan(0);
  expect(oldPins).toBeGreaterThan(0);
  for (const { removed, freed } of writers) expect(Math.min(removed, freed)).toBeGreaterThan(0);
  for (const kind of kinds) {
    const { answers: count, wanted, found } = answers[kind];
    expect(count).toBeGreaterThan(0);
    expect(found).toBeGreaterThanOrEqual(0.97 * wanted);
  }
}, 600_000);
