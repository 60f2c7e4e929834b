// How are the results presented on the page?
//
//   node tools/launch.mjs run bench/dense/report.ts     docs/benchmarks-dense.md and its pictures, from the stored results
//
// The page shows the latest run of each set. All engines of a set are from one run.

import {
  bytesCell,
  cpu,
  fastest,
  footer,
  head,
  isOurs,
  isRival,
  line,
  ms,
  noteLines,
  recallPicture,
  titleCell,
  writeDocument,
} from "../shared/report.ts";
import { at, type EngineResult, keptResults, type Point, type SetResult } from "../shared/results.ts";
import { setNames } from "./data.ts";
import { deepEf, deepK, k } from "./measure.ts";

const recalls = [0.95, 0.99];

type Comparison = { readonly ours: string; readonly rival: string; readonly ratio: string };

/** Quiver's best against the best rival: how many times its queries a CPU second. */
function compare(recall: number, { engines }: SetResult): Comparison {
  const ours = fastest(recall, engines.filter(isOurs));
  const theirs = fastest(recall, engines.filter(isRival));
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

function row(engine: EngineResult, { engines }: SetResult): string {
  const cells = recalls.map((recall) => {
    const found = at(recall, engine.points, cpu);
    if (found === undefined) return "not reached";
    const best = fastest(recall, engines.filter(isOurs));
    const ratio = best === undefined ? "" : ` (${(found.value / best.at.value).toFixed(2)})`;
    return `${found.isBound ? "at most " : ""}${ms(found.value)}${ratio}`;
  });
  const wall = (cost: (point: Point) => number): string => {
    const found = at(recalls[0], engine.points, cost);
    return found === undefined ? "-" : ms(found.value);
  };
  const seen = engine.points.map(({ recall }) => recall);
  return line([
    titleCell(engine),
    ...cells,
    `${Math.min(...seen).toFixed(3)} to ${Math.max(...seen).toFixed(3)}`,
    engine.deepRecall?.toFixed(3) ?? "-",
    `${wall((point) => point.wallP50Ms)} / ${wall((point) => point.wallP99Ms)}`,
    engine.buildCpuS.toFixed(1),
    bytesCell(engine),
  ]);
}

/** The Markdown of one set. */
export function sectionOf(result: SetResult): string {
  const titles = [
    "engine",
    ...recalls.map((recall) => `CPU ms at ${recall}`),
    `recall@${k} seen`,
    `recall@${deepK} at ef = ${deepEf}`,
    `wall ms at ${recalls[0]}, p50 / p99`,
    "build CPU s",
    "bytes a vector",
  ];
  return `## ${result.title}

${head(titles)}
${result.engines.map((engine) => row(engine, result)).join("\n")}

${footer(result)}`;
}

function summary(results: readonly SetResult[]): string {
  const lines = results.map((result) => {
    const cells = recalls.flatMap((recall) => {
      const { ours, rival, ratio } = compare(recall, result);
      return [ratio, `${ours} against ${rival}`];
    });
    return line([result.title, ...cells]);
  });
  const titles = recalls.flatMap((recall) => [`ratio at ${recall}`, "between"]);
  return `${head(["set", ...titles])}
${lines.join("\n")}`;
}

const glove = "glove-cosine";
const wide = "clusters768";

/** How many times the queries per CPU second of hnswlib-node, at each recall. */
function timesHnswlib(set: string, results: readonly SetResult[]): string[] {
  const engines = results.find((result) => result.set === set)?.engines ?? [];
  return recalls.map((recall) => {
    const ours = fastest(recall, engines.filter(isOurs));
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
    return `${(ours.buildCpuS / theirs.buildCpuS).toFixed(2)} (${title})`;
  });
  return `What was wanted, and what is:

- At least 3 times the best rival on every set at both recalls: the table above.
- At least 4.2 times hnswlib-node on 100-dimensional words at both recalls: ${gloveLow} and ${gloveHigh}. At least 8 times on 768 dimensions at ${recalls[1]}: ${wideHigh}.
- At most half of hnswlib-node's CPU time to build: ${builds.join("; ")}.

Where a figure falls short, [the decisions on speed](decisions/hnsw-speed.md) have the profile and what was tried.`;
}

/** Writes the page and its pictures from all stored results. */
export function writeReport(): void {
  const results = keptResults("dense", setNames);
  const sections = results.map((result) => {
    const image = `images/dense-${result.set}.svg`;
    writeDocument(image, recallPicture(result, k));
    return `${sectionOf(result)}\n![CPU time against recall](${image})\n`;
  });
  const page = `# Dense search: benchmarks

Written by \`npm run bench dense\` ([bench/dense](../bench/dense/main.ts)); do not edit. Each engine runs in a process of its own, and all are asked the same queries in turns, one at a time, with M = 16 and ef_construction = 200. CPU time is that of all threads of the process, its median over rounds; a cost at a recall is linear between the beams around it. In brackets: how many times the CPU time of Quiver's best. "At most" says that the smallest beam (ef = ${k}) has more recall already. Bytes a vector are those that the engine tells, and the growth of its process, with vectors and all. Other work may share the machine: ratios are worth more than milliseconds. Not every engine was run on every set: a set's table says which were.

## Quiver's best against the best rival

How many times the queries per CPU second.

${summary(results)}

${goals(results)}

${sections.join("\n")}
## How the engines were asked

${noteLines(results)}
`;
  writeDocument("benchmarks-dense.md", page);
}

if (import.meta.main) writeReport();
