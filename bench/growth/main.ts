// What does the whole engine cost as a collection grows from 10,000 to 1,000,000 records?
//
//   npm run bench growth -- --write                         writes docs/benchmarks-growth.md and its pictures
//   npm run bench growth -- --write --resume                only the steps that are not stored yet
//   npm run bench growth -- --subjects dense --max 30000    the first steps of one kind of search, only printed
//   node tools/launch.mjs run bench/growth/report.ts        regenerates the page from stored results
//
//   --engines NAME,...  --rounds 3  --queries 200
//
// Each step builds anew, each engine in its own process (shared/worker.ts), and asks all of them the same queries in turns. A step is stored
// as soon as it is done; the last ones take longest, so that a run can be divided.

import { parseArgs } from "node:util";
import { installRivals } from "../shared/install.ts";
import { keepResult, keptResults } from "../shared/results.ts";
import { pageOf, type Step, storedName, writeReport } from "./report.ts";
import { subjects } from "./subjects.ts";

const { values } = parseArgs({
  options: {
    subjects: { type: "string", default: subjects.map(({ name }) => name).join(",") },
    max: { type: "string", default: "1000000" },
    engines: { type: "string" },
    rounds: { type: "string", default: "3" },
    queries: { type: "string", default: "200" },
    write: { type: "boolean", default: false },
    resume: { type: "boolean", default: false },
  },
});

const asked = values.subjects.split(",").map((name) => {
  const subject = subjects.find((each) => each.name === name);
  if (subject !== undefined) return subject;
  throw new Error(
    `nothing that grows is called ${name}; there are ${subjects.map((each) => each.name).join(", ")}`,
  );
});
const reason = installRivals();
if (reason !== undefined) console.log(reason);

const measured: Step[] = [];
for (const subject of asked) {
  const why = subject.missing();
  if (why !== undefined) {
    console.log(`${subject.name}: ${why}`);
    continue;
  }
  for (const rowsMax of subject.steps.filter((step) => step <= Number(values.max))) {
    const set = storedName(subject, rowsMax);
    if (values.resume && keptResults("growth", [set]).length > 0) continue;
    const started = performance.now();
    const result = await subject.measure({
      engines: values.engines?.split(","),
      rounds: Number(values.rounds),
      queryCount: Number(values.queries),
      rowsMax,
    });
    measured.push({ subject, result });
    console.log(`${set}: ${((performance.now() - started) / 1_000).toFixed(0)} s`);
    if (!values.write) continue;
    keepResult("growth", { ...result, set });
    writeReport();
  }
}
if (!values.write) console.log(pageOf(measured));
