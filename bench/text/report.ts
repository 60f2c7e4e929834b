// How are the results of text search presented on the page?
//
//   node tools/launch.mjs run bench/text/report.ts     docs/benchmarks-text.md and its pictures, from the stored results

import { bars } from "../shared/bars.ts";
import {
  bytesCell,
  fastest,
  footer,
  type Goal,
  goalTable,
  head,
  isOurs,
  isRival,
  line,
  ms,
  noteLines,
  titleCell,
  writeDocument,
} from "../shared/report.ts";
import { type EngineResult, keptResults, type SetResult } from "../shared/results.ts";
import { setNames } from "./data.ts";
import { b, k, k1 } from "./engine.ts";
import { engineKinds } from "./engines.ts";

/** Goal: the cost of a query relative to the best rival, at most. */
const mostOfRival = 0.5;

/** Text engines have only one effort. */
const pointOf = ({ points }: EngineResult) => points[0];

function row(engine: EngineResult, ours: number | undefined): string {
  const { cpuMs, wallP50Ms, wallP99Ms, recall } = pointOf(engine);
  return line([
    titleCell(engine),
    ms(cpuMs) + (ours === undefined ? "" : ` (${(cpuMs / ours).toFixed(2)})`),
    `${ms(wallP50Ms)} / ${ms(wallP99Ms)}`,
    recall.toFixed(3),
    engine.buildCpuS.toFixed(1),
    bytesCell(engine),
  ]);
}

/** The Markdown of one set. */
export function sectionOf(result: SetResult): string {
  const ours = fastest(0, result.engines.filter(isOurs))?.at.value;
  const titles = [
    "engine",
    "CPU ms a query",
    "wall ms, p50 / p99",
    `found of the exact ${k}`,
    "build CPU s",
    "bytes a passage",
  ];
  return `## ${result.title}

${head(titles)}
${result.engines.map((engine) => row(engine, ours)).join("\n")}

${footer(result, engineKinds)}`;
}

const leastBuild = (engines: readonly EngineResult[]): EngineResult | undefined =>
  engines.toSorted((x, y) => x.buildCpuS - y.buildCpuS)[0];

function goalsOf({ title, engines }: SetResult): Goal[] {
  const rivals = engines.filter(isRival);
  const [rival, builder] = [fastest(0, rivals), leastBuild(rivals)];
  const ours = fastest(0, engines.filter(isOurs));
  const name = title.split(/[:,]/)[0];
  const texts = {
    search: `${name}: at most ${mostOfRival} of the best rival's CPU time per query, with the exact ${k}`,
    build: `${name}: the fastest build`,
  };
  if (ours === undefined || rival === undefined || builder === undefined)
    return Object.values(texts).map((wanted) => ({ wanted, figure: "-", isMet: undefined }));
  const share = ours.at.value / rival.at.value;
  const { recall } = pointOf(ours.engine);
  const build = ours.engine.buildCpuS / builder.buildCpuS;
  return [
    {
      wanted: texts.search,
      figure: `${share.toFixed(2)} of ${rival.engine.title}'s, with ${recall.toFixed(3)} of the exact ${k}`,
      isMet: share <= mostOfRival && recall === 1,
    },
    {
      wanted: texts.build,
      figure: `${build.toFixed(2)} of ${builder.title}'s CPU time`,
      isMet: build < 1,
    },
  ];
}

const picture = ({ title, engines }: SetResult): string =>
  bars(
    title,
    "CPU ms a query",
    engines.map((engine) => ({ title: engine.title, isOurs: engine.isOurs, value: pointOf(engine).cpuMs })),
  );

/** Writes the page and its pictures from all stored results. */
export function writeReport(): void {
  const results = keptResults("text", setNames);
  const sections = results.map((result) => {
    const image = `images/text-${result.set}.svg`;
    writeDocument(image, picture(result));
    return `${sectionOf(result)}\n![CPU time a query](${image})\n`;
  });
  const page = `# Text search: benchmarks

Written by \`npm run bench text\` ([bench/text](../bench/text/main.ts)); do not edit. OR queries of 2 to 6 content words, BM25 with k1 = ${k1} and b = ${b}, the ${k} best. The passages are those of two English dictionaries, the GNU Collaborative International Dictionary of English and WordNet, as Debian packages them, in a random order; the words of a query come from one passage. Each engine runs in a process of its own, and all are asked the same queries in turns, one at a time. A first round warms up and does not count, so that what an engine remembers of words or pages is there. They are given text: its analysis counts, in building and in asking. CPU time is that of all threads of the process, its median over rounds; in brackets, how many times Quiver's. Bytes a passage are those that the engine tells, and the growth of its process. Other work may share the machine: ratios are worth more than milliseconds.

"Found of the exact ${k}" keeps anyone from being fast by being wrong: the mean share of an engine's answers that are among the ${k} best by exact BM25, computed in 64-bit numbers over every posting; a passage that scores as much as the tenth is as good as the tenth. Where all read the same words, whoever has less than 1 scores differently, as its note says. Where each analyses English in its own way, the share also says how much its stems and stop words differ from Quiver's.

## The goals

${goalTable(results.flatMap(goalsOf))}

What a search costs as passages become more: [growth](benchmarks-text-growth.md). Whether what is found is relevant: \`npm run eval\` ([README](../README.md#relevance)).

${sections.join("\n")}
## How the engines were asked

${noteLines(results)}
`;
  writeDocument("benchmarks-text.md", page);
}

if (import.meta.main) writeReport();
