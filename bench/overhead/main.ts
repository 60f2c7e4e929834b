// What does a search of the embedded engine cost besides its index?
//
//   npm run bench overhead                                   all cases; writes docs/benchmarks-overhead.md
//   npm run bench overhead -- --cases dense-glove,text       some cases, only printed
//
//   --cases NAME,...  --rows 50000  --rounds 40  --queries 200
//
// The engine and its index alone are in one process for each case and take turns, so that what else runs on the machine slows both
// down. In each turn all queries are asked once. Figures are of the turns after the first ones, which warm up; the difference is taken
// turn by turn.

import "../../packages/engine/src/process/node-host.ts";
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { measuredAside } from "../shared/aside.ts";
import { ownCpuMs } from "../shared/quiet.ts";
import { head, line, whole, writeDocument } from "../shared/report.ts";
import { median } from "../shared/results.ts";
import { caseNamed, cases } from "./cases.ts";

type Plan = { readonly rows: number; readonly rounds: number; readonly queries: number };
type Measured = {
  readonly title: string;
  readonly rows: number;
  readonly engineUs: number;
  readonly indexUs: number;
  /** The median of what the engine took more, and the least that it took in any turn less the least of the index. */
  readonly overUs: number;
  readonly leastOverUs: number;
};

const warmUps = 10;
const goalUs = 15;

async function measure(name: string, { rows, rounds, queries }: Plan): Promise<Measured> {
  const { title, open } = caseNamed(name);
  const directory = mkdtempSync(join(tmpdir(), "quiver-bench-"));
  try {
    const { engine, index, count } = await open(directory, rows, queries);
    const turn = async (search: (query: number) => unknown): Promise<number> => {
      const before = ownCpuMs();
      for (let i = 0; i < queries; i++) {
        const found = search(i);
        if (found instanceof Promise) await found;
      }
      return ((ownCpuMs() - before) * 1_000) / queries;
    };
    const engineUs: number[] = [];
    const indexUs: number[] = [];
    for (let round = 0; round < warmUps + rounds; round++) {
      engineUs.push(await turn(engine));
      indexUs.push(await turn(index));
    }
    const [engineTurns, indexTurns] = [engineUs.slice(warmUps), indexUs.slice(warmUps)];
    return {
      title,
      rows: count,
      engineUs: median(engineTurns),
      indexUs: median(indexTurns),
      overUs: median(engineTurns.map((us, i) => us - indexTurns[i])),
      leastOverUs: Math.min(...engineTurns) - Math.min(...indexTurns),
    };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const us = (value: number): string => value.toFixed(1);

function tableOf(measured: readonly Measured[]): string {
  const titles = [
    "search",
    "records",
    "engine, µs",
    "index alone, µs",
    "more, µs",
    "more at best, µs",
    `${goalUs} µs or less`,
  ];
  const lines = measured.map(({ title, rows, engineUs, indexUs, overUs, leastOverUs }) => {
    const isReached = overUs <= goalUs ? "yes" : "**no**";
    return line([title, whole(rows), us(engineUs), us(indexUs), us(overUs), us(leastOverUs), isReached]);
  });
  return [head(titles), ...lines].join("\n");
}

const pageOf = (
  measured: readonly Measured[],
  { rounds, queries }: Plan,
  reasons: readonly string[],
): string =>
  `# What the embedded engine costs besides its index

Written by \`npm run bench overhead\` ([bench/overhead/main.ts](../bench/overhead/main.ts)); do not edit. Processor time of the process for one search with \`top_k\` 10. The engine checks the request, sees one version, searches, ranks, and fetches ids and documents; the index alone gets a query that is ready and returns ordinals. Both hold the same records and take turns in one process; medians of ${rounds} turns of ${queries} queries. "More" is the median of the differences of two turns next to each other, "more at best" the difference of the two fastest turns, which other work on the machine disturbs least. The goal is ${goalUs} µs.

${tableOf(measured)}

A hybrid search asks each index for 50 records and fuses the rankings; "index alone" are the same searches. What was removed to get here: [identities](decisions/identities.md).

${reasons.map((reason) => `- Left out: ${reason}\n`).join("")}${new Date().toISOString().slice(0, 10)}, ${cpus()[0]?.model ?? "unknown processor"}.
`;

const { values } = parseArgs({
  options: {
    cases: { type: "string", default: cases.map(({ name }) => name).join(",") },
    rows: { type: "string", default: "50000" },
    rounds: { type: "string", default: "40" },
    queries: { type: "string", default: "200" },
    only: { type: "string" },
    plan: { type: "string", default: "" },
  },
});
if (values.only !== undefined) {
  const measured = await measure(values.only, JSON.parse(values.plan));
  process.send?.(measured, () => process.exit(0));
} else {
  const plan = { rows: Number(values.rows), rounds: Number(values.rounds), queries: Number(values.queries) };
  const names = values.cases.split(",");
  const measured: Measured[] = [];
  const reasons: string[] = [];
  for (const name of names) {
    const reason = caseNamed(name).missing();
    if (reason !== undefined) reasons.push(`${name}: ${reason}`);
    else measured.push(await measuredAside<Measured>(import.meta.filename, name, plan));
  }
  console.log([tableOf(measured), ...reasons].join("\n"));
  if (names.length === cases.length) writeDocument("benchmarks-overhead.md", pageOf(measured, plan, reasons));
}
