// How fast is the HNSW index compared with its rivals at equal recall, and what does it cost to build?
//
//   npm run bench dense                                      the sets of its page; writes docs/benchmarks-dense.md
//   npm run bench dense -- --sets siftsmall --rounds 5       one set; the others stay on the page
//   npm run bench dense -- --sets mnist --rows 5000          a trial with the first rows, only printed
//   node tools/launch.mjs run bench/dense/report.ts          regenerates the page from stored results
//
//   --sets NAME,...  --engines NAME,...  --rounds 3  --queries 400  --rows COUNT  --beams 10,16,...
//
// Each engine runs in its own process (shared/worker.ts), and all get the same queries in turns (shared/measure.ts) from one thread. CPU
// time is that of all threads of a process. Other programs share the machine, so ratios are more reliable than milliseconds.

import { parseArgs } from "node:util";
import { kindNamed } from "../shared/engine.ts";
import { installRivals } from "../shared/install.ts";
import { keepResult } from "../shared/results.ts";
import { missing, setNames } from "./data.ts";
import { engineKinds } from "./engines.ts";
import { measure } from "./measure.ts";
import { sectionOf, writeReport } from "./report.ts";

/** Those of a million, and what the benchmark of servers adds. */
const others = ["clusters128-1m", "clusters100-1m", "words200"];
const beams = "10,16,24,32,48,64,96,128,192,256,384,512,768";

const { values } = parseArgs({
  options: {
    sets: { type: "string", default: setNames.filter((name) => !others.includes(name)).join(",") },
    engines: { type: "string", default: engineKinds.map(({ name }) => name).join(",") },
    rounds: { type: "string", default: "3" },
    queries: { type: "string", default: "400" },
    rows: { type: "string" },
    beams: { type: "string", default: beams },
  },
});

const engines = values.engines.split(",").map((name) => kindNamed(engineKinds, name));
const reason = installRivals();
if (reason !== undefined) console.log(reason);

for (const set of values.sets.split(",")) {
  const why = missing(set);
  if (why !== undefined) {
    console.log(`${set}: ${why}`);
    continue;
  }
  const rowsMax = values.rows === undefined ? undefined : Number(values.rows);
  const result = await measure({
    set,
    engines,
    beams: values.beams.split(",").map(Number),
    rounds: Number(values.rounds),
    queryCount: Number(values.queries),
    rowsMax,
  });
  console.log(sectionOf(result));
  if (rowsMax !== undefined) continue;
  keepResult("dense", result);
  writeReport();
}
