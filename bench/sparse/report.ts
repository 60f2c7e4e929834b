// How are the results of sparse search presented on the page?
//
//   node tools/launch.mjs run bench/sparse/report.ts     docs/benchmarks-sparse.md and its pictures, from the stored results

import {
  bytesCell,
  cpu,
  footer,
  type Goal,
  goalTable,
  head,
  isOurs,
  line,
  ms,
  noteLines,
  recallPicture,
  titleCell,
  writeDocument,
} from "../shared/report.ts";
import {
  type At,
  at,
  type EngineResult,
  keptResults,
  type Point,
  type SetResult,
} from "../shared/results.ts";
import { setNames } from "./data.ts";
import { k } from "./engine.ts";
import { engineKinds } from "./engines.ts";

const recall = 0.95;
/** Times fewer CPU seconds than the plain loop. */
const wanted = { exact: 5, atRecall: 15 };

/** The result without skipping; a graph always skips. */
const exactOf = ({ points }: EngineResult): Point | undefined => points.find(({ effort }) => effort === 0);

/** The cost at a recall: interpolated between efforts, or that of the exact search if it is cheaper. */
function costAtRecall(engine: EngineResult): At | undefined {
  const found = at(recall, engine.points, cpu);
  const exact = exactOf(engine);
  return found !== undefined && exact !== undefined && exact.cpuMs < found.value
    ? { value: exact.cpuMs, isBound: true }
    : found;
}

/** The engine with the cheapest exact search. */
const best = (engines: readonly EngineResult[]): EngineResult | undefined =>
  engines.toSorted((x, y) => (exactOf(x)?.cpuMs ?? Infinity) - (exactOf(y)?.cpuMs ?? Infinity))[0];

const plainOf = ({ engines }: SetResult): EngineResult | undefined =>
  engines.find(({ name }) => name === "plain");

function row(engine: EngineResult, ours: EngineResult | undefined): string {
  const exact = exactOf(engine);
  const found = costAtRecall(engine);
  const ratio = (cost: number, own: number | undefined): string =>
    own === undefined ? "" : ` (${(cost / own).toFixed(2)})`;
  const ownExact = ours && exactOf(ours)?.cpuMs;
  const ownFound = ours && costAtRecall(ours)?.value;
  const seen = engine.points.map((point) => point.recall);
  return line([
    titleCell(engine),
    exact === undefined ? "-" : `${ms(exact.cpuMs)}${ratio(exact.cpuMs, ownExact)}`,
    exact === undefined ? "-" : exact.recall.toFixed(3),
    exact === undefined ? "-" : `${ms(exact.wallP50Ms)} / ${ms(exact.wallP99Ms)}`,
    found === undefined
      ? "not reached"
      : `${found.isBound ? "at most " : ""}${ms(found.value)}${ratio(found.value, ownFound)}`,
    `${Math.min(...seen).toFixed(3)} to ${Math.max(...seen).toFixed(3)}`,
    engine.buildCpuS.toFixed(1),
    bytesCell(engine),
  ]);
}

/** Quiver's results at each threshold. */
function thresholds(ours: EngineResult | undefined): string {
  if (ours === undefined) return "";
  const lines = ours.points.map((point) =>
    line([String(point.effort), point.recall.toFixed(3), ms(point.cpuMs)]),
  );
  return `${ours.title} by \`early_terminate_threshold\`:

${head(["threshold", `recall@${k}`, "CPU ms a query"])}
${lines.join("\n")}
`;
}

/** The Markdown of one set. */
export function sectionOf(result: SetResult): string {
  const ours = best(result.engines.filter(isOurs));
  const titles = [
    "engine",
    "CPU ms, exact",
    `found of the exact ${k}`,
    "wall ms, exact, p50 / p99",
    `CPU ms at ${recall}`,
    `recall@${k} seen`,
    "build CPU s",
    "bytes a row",
  ];
  return `## ${result.title}

${head(titles)}
${result.engines.map((engine) => row(engine, ours)).join("\n")}

${footer(result, engineKinds)}
${thresholds(ours)}`;
}

function goalsOf(result: SetResult): Goal[] {
  const ours = best(result.engines.filter(isOurs));
  const own = ours && exactOf(ours);
  const plain = plainOf(result);
  const theirs = plain && exactOf(plain);
  const title = result.title.split(/[,(]/)[0].trim();
  const texts = {
    exact: `${title}: exact, ${wanted.exact} times fewer CPU seconds than the plain loop`,
    atRecall: `${title}: at a recall of ${recall}, ${wanted.atRecall} times fewer`,
  };
  if (ours === undefined || own === undefined || theirs === undefined)
    return Object.values(texts).map((text) => ({ wanted: text, figure: "-", isMet: undefined }));
  const times = theirs.cpuMs / own.cpuMs;
  const found = costAtRecall(ours);
  const timesAtRecall = found === undefined ? undefined : theirs.cpuMs / found.value;
  return [
    {
      wanted: texts.exact,
      figure: `${times.toFixed(2)} times, with ${own.recall.toFixed(3)} of the exact ${k}`,
      isMet: times >= wanted.exact && own.recall === 1,
    },
    {
      wanted: texts.atRecall,
      figure:
        timesAtRecall === undefined
          ? "not reached"
          : `${found?.isBound ? "at least " : ""}${timesAtRecall.toFixed(2)} times`,
      isMet: timesAtRecall !== undefined && timesAtRecall >= wanted.atRecall,
    },
  ];
}

/** Writes the page and its pictures from all stored results. */
export function writeReport(): void {
  const results = keptResults("sparse", setNames);
  const sections = results.map((result) => {
    const image = `images/sparse-${result.set}.svg`;
    writeDocument(image, recallPicture(result, k, { from: 0.5, hasExact: true }));
    return `${sectionOf(result)}\n![CPU time against recall](${image})\n`;
  });
  const page = `# Sparse search: benchmarks

Written by \`npm run bench sparse\` ([bench/sparse](../bench/sparse/main.ts)); do not edit. The ${k} rows with the greatest dot product. Each engine runs in a process of its own, and all are asked the same queries in turns, one at a time. A first round warms up and does not count, so that what an engine remembers of words or pages is there. CPU time is that of all threads of the process, its median over rounds; a cost at a recall is linear between the efforts around it, and "at most" says that an effort with more recall costs no more. In brackets: how many times the CPU time of Quiver's best. Bytes a row are those that the engine tells, and the growth of its process. Other work may share the machine: ratios are worth more than milliseconds.

Right is what a dot product in 64-bit numbers over every posting finds; a row that scores as much as the tenth is as good as the tenth. The generated set has the shape of what learned encoders make ([how](../bench/sparse/splade.ts)): a vocabulary of 30,522 pieces, used as unequally as words are, 120 of them in a row and 40 in a query, most of them of one topic. SciFact is a real, small set: the weights of BM25 as vectors.

## The goals

${goalTable(results.flatMap(goalsOf))}

${sections.join("\n")}
## How the engines were asked

${noteLines(results)}
`;
  writeDocument("benchmarks-sparse.md", page);
}

if (import.meta.main) writeReport();
