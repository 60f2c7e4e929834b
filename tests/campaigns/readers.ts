// Are answers of readers in other threads right for their versions? For as many as one likes.
//
//   node tests/campaigns/readers.ts [--answers 100000] [--kinds dense,...] [--death-every 1000]

import { hammerDrivers } from "../../packages/engine/test/index/hammer-drivers.ts";
import { hammer } from "../../packages/engine/test/runtime/hammer/hammer.ts";
import type { IndexKind } from "../../packages/protocol/src/shapes/index-definition.ts";
import { command, say } from "./campaign.ts";

await command({
  name: "readers",
  options: {
    answers: 100_000,
    seed: 1,
    kinds: hammerDrivers.map(({ kind }) => kind.name).join(","),
    "death-every": 1_000,
  },
  async run({ answers, seed, kinds, "death-every": deathEvery }) {
    const report = await hammer({ seed, answers, kinds: kinds.split(",") as IndexKind[], deathEvery });
    say(JSON.stringify({ ...report, wrong: report.wrong.length }, null, 2));
    if (report.wrong.length > 0)
      throw new Error(`${report.wrong.length} wrong answers:\n${report.wrong.slice(0, 20).join("\n")}`);
    return { "reader threads that died": report.deaths, "wrong answers": 0 };
  },
});
