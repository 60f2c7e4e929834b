// How does the cost of a text search grow with the number of passages?
//
//   npm run bench text-growth                            writes docs/benchmarks-text-growth.md and its picture
//   npm run bench text-growth -- --max 20000             the first steps, only printed
//   npm run bench text-growth -- --max 200000 --keep     the first steps, on the page
//
//   --engines quiver,plain  --rounds 5  --queries 500
//
// Uses the set "words" of the text benchmark (main.ts) and the same queries at each step. Each step builds a new index, with each engine in
// its own process. Steps beyond the size of the dictionaries use passages composed of their sentences (passages.ts).

import { parseArgs } from "node:util";
import { kindNamed } from "../shared/engine.ts";
import { installRivals } from "../shared/install.ts";
import { keepResult } from "../shared/results.ts";
import { missing } from "./data.ts";
import { engineKinds } from "./engines.ts";
import { pageOf, steps, writeReport } from "./growth-report.ts";
import { measure } from "./measure.ts";

const { values } = parseArgs({
  options: {
    max: { type: "string", default: String(steps.at(-1)) },
    engines: { type: "string", default: "quiver,plain" },
    rounds: { type: "string", default: "5" },
    queries: { type: "string", default: "500" },
    keep: { type: "boolean", default: false },
  },
});

async function run(): Promise<void> {
  const max = Number(values.max);
  const isKept = values.keep || max >= (steps.at(-1) as number);
  const engines = values.engines.split(",").map((name) => kindNamed(engineKinds, name));
  const reason = installRivals();
  if (reason !== undefined) console.log(reason);
  const measured = [];
  for (const rowsMax of steps.filter((step) => step <= max)) {
    const plan = { engines, rounds: Number(values.rounds), queryCount: Number(values.queries), rowsMax };
    const result = { ...(await measure({ set: "words", ...plan })), set: String(rowsMax) };
    if (isKept) keepResult("text-growth", result);
    measured.push(result);
  }
  console.log(pageOf(measured));
  if (isKept) writeReport(max);
}

const why = missing();
if (why === undefined) await run();
else console.log(why);
