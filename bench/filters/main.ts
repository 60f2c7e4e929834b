// What does a filter cost, at every selectivity, beside the rivals that filter?
//
//   npm run bench filters                                    writes docs/benchmarks-filters.md
//   npm run bench filters -- --rows 5000 --queries 20        a trial, only printed
//   node tools/launch.mjs run bench/filters/report.ts        regenerates the page from the stored result
//
//   --engines NAME,...  --rounds 3  --queries 40  --rows 40000
//
// Each engine runs in its own process (shared/worker.ts), and all get the same queries with the same filters in turns, from one thread. CPU
// time is that of all threads of a process. Other programs share the machine, so ratios are more reliable than milliseconds.

import { parseArgs } from "node:util";
import { kindNamed } from "../shared/engine.ts";
import { installRivals } from "../shared/install.ts";
import { keepResult } from "../shared/results.ts";
import { engineKinds } from "./engines.ts";
import { setNames } from "./inverted.ts";
import { measureInverted, missing } from "./inverted-measure.ts";
import { measure, rowsDefault } from "./measure.ts";
import { invertedTable, sectionsOf, writeReport } from "./report.ts";

const all = engineKinds.map(({ name }) => name).join(",");
const { values } = parseArgs({
  options: {
    engines: { type: "string", default: all },
    rounds: { type: "string", default: "3" },
    queries: { type: "string", default: "40" },
    rows: { type: "string", default: String(rowsDefault) },
  },
});

const reason = installRivals();
if (reason !== undefined) console.log(reason);
const result = await measure({
  engines: values.engines.split(",").map((name) => kindNamed(engineKinds, name)),
  rounds: Number(values.rounds),
  queryCount: Number(values.queries),
  rowCount: Number(values.rows),
});
console.log(sectionsOf(result));
const isWhole = values.engines === all && Number(values.rows) === rowsDefault;
if (isWhole) keepResult("filters", result);
for (const set of isWhole ? setNames : []) {
  const why = missing(set);
  if (why !== undefined) {
    console.log(`${set}: ${why}`);
    continue;
  }
  const rounds = Number(values.rounds);
  const found = await measureInverted(set, { rounds, queryCount: Number(values.queries) });
  console.log(invertedTable(found));
  keepResult("filters", found);
}
if (isWhole) writeReport();
