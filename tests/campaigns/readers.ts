// Are answers of readers in other threads right for their versions? For as long as one likes.
//
//   node tools/launch.mjs run tests/campaigns/readers.ts [--seconds 60] [--seed 1] [--kinds dense,...] [--death-ms 2500]

import { parseArgs } from "node:util";
import { hammerDrivers } from "../../packages/engine/src/index/testing/hammer-drivers.ts";
import { hammer } from "../../packages/engine/src/runtime/testing/hammer/hammer.ts";
import type { IndexKind } from "../../packages/protocol/src/shapes/index-definition.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
    kinds: { type: "string", default: hammerDrivers.map(({ kind }) => kind.name).join(",") },
    "death-ms": { type: "string", default: "2500" },
  },
});
const report = await hammer({
  seed: Number(values.seed),
  ms: 1_000 * Number(values.seconds),
  kinds: values.kinds.split(",") as IndexKind[],
  deathMs: Number(values["death-ms"]),
});
console.log(JSON.stringify({ ...report, wrong: report.wrong.length }, null, 2));
for (const wrong of report.wrong.slice(0, 20)) console.error(wrong);
if (report.wrong.length > 0) process.exitCode = 1;
