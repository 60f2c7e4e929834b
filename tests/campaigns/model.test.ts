// A short form of tests/campaigns/model.ts, and the proof that it leaves no endpoint out.

import { type OperationName, operations } from "@quiverdb/engine/operations/operations";
import { expect, it } from "vitest";
import { seed } from "../seed.ts";
import { modelled, notModelled } from "./model/routes.ts";
import { modelCampaign } from "./model.ts";

it("[M1] every endpoint is in the model, or excluded with a reason", () => {
  for (const name of Object.keys(operations) as OperationName[]) {
    const isLeftOut = (notModelled[name] ?? "") !== "";
    expect([name, modelled.has(name) !== isLeftOut]).toEqual([name, true]);
  }
});

it(`[M1] a server answers every sequence of operations as the model does (seed ${seed})`, async () => {
  const seen = await modelCampaign({ seed, sequences: 6, say: () => undefined });
  expect(seen.sequences).toBe(6);
}, 600_000);
