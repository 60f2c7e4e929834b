// How fast is the sparse index compared with its rivals, exactly and at reduced recall?
//
//   npm run bench sparse                                  both sets; writes docs/benchmarks-sparse.md
//   npm run bench sparse -- --sets scifact                one set; the other stays on the page
//   npm run bench sparse -- --sets splade --rows 20000    a trial with the first rows, only printed
//   npm run bench sparse -- --engines quiver,plain        some engines, only printed
//   node tools/launch.mjs run bench/sparse/report.ts      regenerates the page from stored results
//
//   --sets NAME,...  --engines NAME,...  --keep  --rounds 5  --queries 500  --rows COUNT  --thresholds 0.8,...,0
//
// With --keep the results go on the page even if engines are left out: zvec's graph of the generated set takes longer to build than
// everything else together.
//
// Each engine runs in its own process (shared/worker.ts), and all get the same queries in turns (shared/measure.ts) from one thread. CPU
// time is that of all threads of a process. Other programs share the machine, so ratios are more reliable than milliseconds.

import { parseArgs } from "node:util";
import { kindNamed } from "../shared/engine.ts";
import { installRivals } from "../shared/install.ts";
import { keepResult } from "../shared/results.ts";
import { missing, setNamed, setNames } from "./data.ts";
import { engineKinds } from "./engines.ts";
import { measure } from "./measure.ts";
import { sectionOf, writeReport } from "./report.ts";

const allEngines = engineKinds.map(({ name }) => name).join(",");
const thresholds = "0.5,0.4,0.3,0.25,0.2,0.17,0.15,0.13,0.12,0.11,0.1,0.09,0.08,0.06,0.05,0.03,0.02,0";

const { values } = parseArgs({
  options: {
    sets: { type: "string", default: setNames.join(",") },
    engines: { type: "string", default: allEngines },
    rounds: { type: "string", default: "5" },
    queries: { type: "string", default: "500" },
    rows: { type: "string" },
    keep: { type: "boolean", default: false },
    thresholds: { type: "string", default: thresholds },
  },
});

const isWhole = values.keep || values.engines === allEngines;
const engines = values.engines.split(",").map((name) => kindNamed(engineKinds, name));
const rowsMax = values.rows === undefined ? undefined : Number(values.rows);
const reason = installRivals();
if (reason !== undefined) console.log(reason);

for (const set of values.sets.split(",").map(setNamed)) {
  const why = missing(set);
  if (why !== undefined) {
    console.log(`${set}: ${why}`);
    continue;
  }
  const result = await measure({
    set,
    engines,
    thresholds: values.thresholds.split(",").map(Number),
    rounds: Number(values.rounds),
    queryCount: Number(values.queries),
    rowsMax,
  });
  console.log(sectionOf(result));
  if (rowsMax !== undefined || !isWhole) continue;
  keepResult("sparse", result);
  writeReport();
}
