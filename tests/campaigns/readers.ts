// Are answers of readers in other threads right for their versions? For as many as one likes.
//
//   node tools/launch.mjs run tests/campaigns/readers.ts [--answers 100000] [--seed 1] [--kinds dense,...] [--death-every 1000]

import { parseArgs } from "node:util";
import { hammerDrivers } from "../../packages/engine/src/index/testing/hammer-drivers.ts";
import { hammer } from "../../packages/engine/src/runtime/testing/hammer/hammer.ts";
import type { IndexKind } from "../../packages/protocol/src/shapes/index-definition.ts";

const { values } = parseArgs({
  options: {
    answers: { type: "string", default: "100000" },
    seed: { type: "string", default: "1" },
    kinds: { type: "string", default: hammerDrivers.map(({ kind }) => kind.name).join(",") },
    "death-every": { type: "string", default: "1000" },
  },
});
const report = await hammer({
  seed: Number(values.seed),
  answers: Number(values.answers),
  kinds: values.kinds.split(",") as IndexKind[],
  deathEvery: Number(values["death-every"]),
});
console.log(JSON.stringify({ ...report, wrong: report.wrong.length }, null, 2));
for (const wrong of report.wrong.slice(0, 20)) console.error(wrong);
if (report.wrong.length > 0) process.exitCode = 1;
