// How fast is the text index compared with its rivals, and does each of them find the right results?
//
//   npm run bench text                                          both sets; writes docs/benchmarks-text.md
//   npm run bench text -- --sets words --engines quiver,plain   a part; only printed if engines are left out
//   npm run bench text -- --rows 10000                          a trial with the first passages, only printed
//   node tools/launch.mjs run bench/text/report.ts              regenerates the page from stored results
//
//   --sets NAME,...  --engines NAME,...  --keep  --rounds 5  --queries 500  --rows COUNT
//
// With --keep the results go on the page even if engines are left out.
//
// Each engine runs in its own process (shared/worker.ts), and all get the same queries in turns (shared/measure.ts) from one thread. CPU
// time is that of all threads of a process, including text analysis. Other programs share the machine, so ratios are more reliable than
// milliseconds.

import { parseArgs } from "node:util";
import { kindNamed } from "../shared/engine.ts";
import { installRivals } from "../shared/install.ts";
import { keepResult } from "../shared/results.ts";
import { missing, setNamed, setNames } from "./data.ts";
import { engineKinds } from "./engines.ts";
import { measure } from "./measure.ts";
import { sectionOf, writeReport } from "./report.ts";

const allEngines = engineKinds.map(({ name }) => name).join(",");

const { values } = parseArgs({
  options: {
    sets: { type: "string", default: setNames.join(",") },
    engines: { type: "string", default: allEngines },
    rounds: { type: "string", default: "5" },
    queries: { type: "string", default: "500" },
    rows: { type: "string" },
    keep: { type: "boolean", default: false },
  },
});

async function run(): Promise<void> {
  const isWhole = values.keep || values.engines === allEngines;
  const engines = values.engines.split(",").map((name) => kindNamed(engineKinds, name));
  const reason = installRivals();
  if (reason !== undefined) console.log(reason);
  for (const set of values.sets.split(",").map(setNamed)) {
    const rowsMax = values.rows === undefined ? undefined : Number(values.rows);
    const { rounds, queries } = values;
    const plan = { set, engines, rounds: Number(rounds), queryCount: Number(queries), rowsMax };
    const result = await measure(plan);
    console.log(sectionOf(result));
    if (rowsMax !== undefined || !isWhole) continue;
    keepResult("text", result);
    writeReport();
  }
}

const why = missing();
if (why === undefined) await run();
else console.log(why);
