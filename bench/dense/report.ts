// What does the page say about what was measured?
//
//   node tools/launch.mjs run bench/dense/report.ts     docs/benchmarks-dense.md and its pictures, from the kept results
//
// Each set stands as its latest run left it. Engines of one set always come from one run.

import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { chart, logarithmicTicks } from "./chart.ts";
import { setNames } from "./data.ts";
import {
  type At,
  at,
  deepEf,
  deepK,
  type EngineResult,
  k,
  keptResults,
  type Point,
  type SetResult,
} from "./results.ts";

const docs = resolve(import.meta.dirname, "../../docs");
const recalls = [0.95, 0.99];

const cpu = (point: Point): number => point.cpuMs;
const ms = (value: number): string => value.toFixed(3);
const whole = (value: number): string => Math.round(value).toLocaleString("en");

const fastest = (
  recall: number,
  engines: readonly EngineResult[],
): { engine: EngineResult; at: At } | undefined =>
  engines
    .flatMap((engine) => {
      const found = at(recall, engine.points, cpu);
      return found === undefined ? [] : [{ engine, at: found }];
    })
    .toSorted((a, b) => a.at.value - b.at.value)[0];

type Comparison = { readonly ours: string; readonly rival: string; readonly ratio: string };

/** Quiver's best against the best rival: how many times its queries a CPU second. */
function compare(recall: number, { engines }: SetResult): Comparison {
  const ours = fastest(
    recall,
    engines.filter(({ isOurs }) => isOurs),
  );
  const theirs = fastest(
    recall,
    engines.filter(({ isOurs }) => !isOurs),
  );
  if (ours === undefined) return { ours: "not reached", rival: theirs?.engine.title ?? "none", ratio: "-" };
  if (theirs === undefined) return { ours: ours.engine.title, rival: "none reached it", ratio: "-" };
  const value = (theirs.at.value / ours.at.value).toFixed(2);
  const prefix =
    ours.at.isBound && theirs.at.isBound
      ? "both at the smallest beam: "
      : ours.at.isBound
        ? "at least "
        : theirs.at.isBound
          ? "at most "
          : "";
  return { ours: ours.engine.title, rival: theirs.engine.title, ratio: `${prefix}${value}` };
}

function bytesCell({ bytesPerVector, grownPerVector }: EngineResult): string {
  const parts: string[] = [];
  if (bytesPerVector !== undefined) parts.push(whole(bytesPerVector));
  if (grownPerVector !== undefined) parts.push(`${whole(grownPerVector)} (process)`);
  return parts.join(", ") || "not told";
}

function row(engine: EngineResult, { engines }: SetResult): string {
  const cells = recalls.map((recall) => {
    const found = at(recall, engine.points, cpu);
    if (found === undefined) return "not reached";
    const best = fastest(
      recall,
      engines.filter(({ isOurs }) => isOurs),
    );
    const ratio = best === undefined ? "" : ` (${(found.value / best.at.value).toFixed(2)})`;
    return `${found.isBound ? "at most " : ""}${ms(found.value)}${ratio}`;
  });
  const wall = (cost: (point: Point) => number): string => {
    const found = at(recalls[0], engine.points, cost);
    return found === undefined ? "-" : ms(found.value);
  };
  const seen = engine.points.map(({ recall }) => recall);
  return `| ${[
    engine.isOurs ? `**${engine.title}**` : engine.title,
    ...cells,
    `${Math.min(...seen).toFixed(3)} to ${Math.max(...seen).toFixed(3)}`,
    engine.deepRecall.toFixed(3),
    `${wall((point) => point.wallP50Ms)} / ${wall((point) => point.wallP99Ms)}`,
    engine.buildCpuS.toFixed(1),
    bytesCell(engine),
  ].join(" | ")} |`;
}

/** The Markdown of one set. */
export function sectionOf(result: SetResult): string {
  const leftOut = result.leftOut.map((reason) => `- Left out: ${reason}\n`).join("");
  return `## ${result.title}

| engine | CPU ms at ${recalls[0]} | CPU ms at ${recalls[1]} | recall@${k} seen | recall@${deepK} at ef = ${deepEf} | wall ms at ${recalls[0]}, p50 / p99 | build CPU s | bytes a vector |
|---|---|---|---|---|---|---|---|
${result.engines.map((engine) => row(engine, result)).join("\n")}

${result.rowCount.toLocaleString("en")} rows, ${result.queryCount} queries, ${result.rounds} rounds, ${result.day}, ${result.processor}.
${leftOut === "" ? "" : `\n${leftOut}`}`;
}

function summary(results: readonly SetResult[]): string {
  const lines = results.map((result) => {
    const cells = recalls.flatMap((recall) => {
      const { ours, rival, ratio } = compare(recall, result);
      return [ratio, `${ours} against ${rival}`];
    });
    return `| ${result.title} | ${cells.join(" | ")} |`;
  });
  return `| set | ratio at ${recalls[0]} | between | ratio at ${recalls[1]} | between |
|---|---|---|---|---|
${lines.join("\n")}`;
}

const glove = "glove-cosine";
const wide = "clusters768";

/** How many times the queries per CPU second of hnswlib-node, at each recall. */
function timesHnswlib(set: string, results: readonly SetResult[]): string[] {
  const engines = results.find((result) => result.set === set)?.engines ?? [];
  return recalls.map((recall) => {
    const ours = fastest(
      recall,
      engines.filter(({ isOurs }) => isOurs),
    );
    const theirs = fastest(
      recall,
      engines.filter(({ name }) => name === "hnswlib"),
    );
    return ours === undefined || theirs === undefined ? "-" : (theirs.at.value / ours.at.value).toFixed(2);
  });
}

function goals(results: readonly SetResult[]): string {
  const [gloveLow, gloveHigh] = timesHnswlib(glove, results);
  const [, wideHigh] = timesHnswlib(wide, results);
  const builds = results.flatMap(({ title, engines }) => {
    const ours = engines.find(({ name }) => name === "quiver-u8");
    const theirs = engines.find(({ name }) => name === "hnswlib");
    if (ours === undefined || theirs === undefined) return [];
    return `${(ours.buildCpuS / theirs.buildCpuS).toFixed(2)} (${title.split(",")[0]}, ${title.split(", ").at(-1)})`;
  });
  return `What was wanted, and what is:

- At least 3 times the best rival on every set at both recalls: the table above.
- At least 4.2 times hnswlib-node on 100-dimensional words at both recalls: ${gloveLow} and ${gloveHigh}. At least 8 times on 768 dimensions at ${recalls[1]}: ${wideHigh}.
- At most half of hnswlib-node's CPU time to build: ${builds.join(", ")}.

Where a figure falls short, [the decisions on speed](decisions/hnsw-speed.md) have the profile and what was tried.`;
}

/** CPU time against recall: further down and to the right is better. */
function picture({ title, engines }: SetResult): string {
  const from = 0.8;
  // The axis gives each halving of the error the same room, as the costs do.
  const stretch = (recall: number): number => -Math.log2(1 - Math.min(recall, 0.9995));
  const shown = engines.flatMap(({ points }) => points.filter(({ recall }) => recall >= from));
  const costs = shown.map(cpu);
  const ticks = logarithmicTicks(Math.min(...costs), Math.max(...costs));
  return chart(
    title,
    {
      title: `recall@${k}`,
      from: stretch(from),
      to: stretch(0.9995),
      ticks: [0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999].map((recall) => ({
        value: stretch(recall),
        label: String(recall),
      })),
    },
    {
      title: "CPU ms a query",
      from: ticks[0].value,
      to: ticks[ticks.length - 1].value,
      ticks,
      isLogarithmic: true,
    },
    engines.map(({ title: name, isOurs, points }) => ({
      title: name,
      isOurs,
      points: points.map(({ recall, cpuMs }) => [stretch(recall), cpuMs] as const),
    })),
  );
}

/** Writes the page and its pictures from all results that are kept. */
export function writeReport(): void {
  const results = keptResults(setNames);
  mkdirSync(join(docs, "images"), { recursive: true });
  const sections = results.map((result) => {
    const image = `images/dense-${result.set}.svg`;
    writeFileSync(join(docs, image), picture(result));
    return `${sectionOf(result)}\n![CPU time against recall](${image})\n`;
  });
  const notes = new Map(results.flatMap(({ engines }) => engines.map(({ title, note }) => [title, note])));
  const noteLines = [...notes].flatMap(([title, note]) =>
    note === undefined ? [] : [`- **${title}.** ${note}`],
  );
  const page = `# Dense search: benchmarks

Written by \`npm run bench:dense\` ([bench/dense](../bench/dense/main.ts)); do not edit. Each engine runs in a process of its own, and all are asked the same queries in turns, one at a time, with M = 16 and ef_construction = 200. CPU time is that of all threads of the process, its median over rounds; a cost at a recall is linear between the beams around it. In brackets: how many times the CPU time of Quiver's best. "At most" says that the smallest beam (ef = ${k}) has more recall already. Bytes a vector are those that the engine tells, and the growth of its process, with vectors and all. Other work may share the machine: ratios are worth more than milliseconds. Not every engine was run on every set: a set's table says which were.

## Quiver's best against the best rival

How many times the queries per CPU second.

${summary(results)}

${goals(results)}

${sections.join("\n")}
## How the engines were asked

${noteLines.join("\n")}
`;
  writeFileSync(join(docs, "benchmarks-dense.md"), page);
}

if (import.meta.main) writeReport();
