// How does docs/benchmarks.md tell what all benchmarks in their short form have measured?

import { tableOf as filterTable } from "./filters/report.ts";
import { table as growthTable } from "./growth/report.ts";
import { subjects } from "./growth/subjects.ts";
import type { Measured } from "./rest/report.ts";
import type { ServersResult } from "./servers/measure.ts";
import { notes, shortSection } from "./servers/report.ts";
import { bars } from "./shared/bars.ts";
import { cpu, footer, head, line, ms, noteLines, titleCell, whole } from "./shared/report.ts";
import { type At, at, type EngineResult, type SetResult } from "./shared/results.ts";
import { goalsOf, type Ratios, sectionOf as shapeSection } from "./sparse/ratios-report.ts";

/** What was measured; undefined: its data are missing here, or it was not asked for. */
export type Short = {
  readonly dense?: SetResult;
  readonly filters?: SetResult;
  readonly sparse?: SetResult;
  readonly shapes?: readonly Ratios[];
  readonly text?: SetResult;
  readonly growth?: readonly SetResult[];
  readonly rest?: readonly Measured[];
  readonly servers?: readonly ServersResult[];
};

export type Run = { readonly rounds: number; readonly processor: string; readonly day: string };

type Picture = { readonly path: string; readonly svg: string };

/** The cost at a recall; of the engines with one effort, what they cost, which is exact or says so by its recall. */
const costOf = (engine: EngineResult, recall: number): At | undefined =>
  engine.points.length === 1
    ? { value: cpu(engine.points[0]), isBound: false }
    : at(recall, engine.points, cpu);

const isHeadline = ({ name }: EngineResult): boolean => name === "quiver-database";

/** One table: the whole engine first, its index alone second, then the rivals by cost. */
function table({ engines }: SetResult, recalls: readonly number[]): string {
  const first = recalls[0];
  const costed = (engine: EngineResult) => costOf(engine, first)?.value ?? Number.POSITIVE_INFINITY;
  const rank = (engine: EngineResult) => (isHeadline(engine) ? 0 : engine.isOurs ? 1 : 2);
  const sorted = engines.toSorted((a, b) => rank(a) - rank(b) || costed(a) - costed(b));
  const headline = engines.find(isHeadline);
  const lines = sorted.map((engine) => {
    const costs = recalls.map((recall) => {
      const found = costOf(engine, recall);
      const own = headline && costOf(headline, recall);
      if (found === undefined) return "not reached";
      const ratio = own === undefined ? "" : ` (${(found.value / own.value).toFixed(2)})`;
      return `${found.isBound ? "at most " : ""}${ms(found.value)}${ratio}`;
    });
    const seen = engine.points.map(({ recall }) => recall);
    const [least, most] = [Math.min(...seen), Math.max(...seen)].map((recall) => recall.toFixed(3));
    const title = titleCell(engine).replace("Quiver, the whole database", "Quiver, the whole engine");
    const name = engine.isOurs && !isHeadline(engine) ? `${title}, the index alone` : title;
    return line([name, ...costs, least === most ? most : `${least} to ${most}`, engine.buildCpuS.toFixed(1)]);
  });
  const costs = recalls.map((recall) => (recall === 1 ? "CPU ms a query" : `CPU ms a query at ${recall}`));
  return `${head(["engine", ...costs, "recall@10", "build CPU s"])}\n${lines.join("\n")}`;
}

function section(
  title: string,
  result: SetResult,
  recalls: readonly number[],
  page: string,
): { text: string; picture: Picture } {
  const path = `images/short-${result.set}.svg`;
  const reached = result.engines.flatMap((engine) => {
    const cost = costOf(engine, recalls[0]);
    return cost === undefined ? [] : [{ title: engine.title, isOurs: engine.isOurs, value: cost.value }];
  });
  const unit = recalls[0] === 1 ? "CPU ms a query" : `CPU ms a query at a recall of ${recalls[0]}`;
  const text = `## ${title}

${result.title}, of it ${whole(result.rowCount)} rows. In full: [${page}](${page}).

${table(result, recalls)}

${footer(result)}
![${unit}](${path})
`;
  return { text, picture: { path, svg: bars(title, unit, reached) } };
}

const filtersSection = (result: SetResult): string => `## Filtered dense search

Filters that are independent of the vectors, by the share of the records that match: CPU milliseconds a query, in brackets how many times those of the whole engine, and recall@10. ${result.title}. In full: [benchmarks-filters.md](benchmarks-filters.md).

${filterTable("random", result)}

${footer(result)}`;

function restSection(measured: readonly Measured[]): string {
  const lines = measured.map(({ form, quiverUs, searchUs, bareUs, ratio }) =>
    line([`vector as ${form}`, whole(quiverUs), whole(searchUs), whole(bareUs), ratio.toFixed(2)]),
  );
  const titles = [
    "dense search of 768 numbers",
    "Quiver's server, CPU µs",
    "the whole engine in process, CPU µs",
    "least server that could answer, CPU µs",
    "ratio",
  ];
  return `## Through REST

${whole(measured[0].records)} records. In full: [benchmarks-rest.md](benchmarks-rest.md).

${head(titles)}
${lines.join("\n")}
`;
}

const shapesSection = (measured: readonly Ratios[]): string => {
  const told = goalsOf(measured).map(({ wanted, figure }) => line([wanted, figure]));
  return `## Sparse search, whatever the data are like

Beside a plain JavaScript loop in the same process; in brackets how many times faster than it. In full: [benchmarks-sparse-shapes.md](benchmarks-sparse-shapes.md).

${head(["goal", "measured"])}
${told.join("\n")}

${measured.map(shapeSection).join("\n")}`;
};

const growthSection = (results: readonly SetResult[]): string => `## Growth

${results[0].title}, its first rows. In full: [benchmarks-growth.md](benchmarks-growth.md).

${growthTable(subjects[0], results)}
`;

const serversSection = (results: readonly ServersResult[]): string => `## Beside other servers

Server CPU milliseconds a query, in brackets how many times those of Quiver, and latency as the client sees it. In full: [benchmarks-servers.md](benchmarks-servers.md).

${results.map(shortSection).join("\n")}`;

/** The page, and the pictures that it shows. */
export function pageOf(
  { dense, filters, sparse, shapes, text, growth, rest, servers }: Short,
  { rounds, processor, day }: Run,
): { page: string; pictures: Picture[] } {
  const kinds = [
    dense && section("Dense search", dense, [0.95, 0.99], "benchmarks-dense.md"),
    sparse && section("Sparse search, exact", sparse, [1], "benchmarks-sparse.md"),
    text && section("Text search", text, [1], "benchmarks-text.md"),
  ].filter((each) => each !== undefined);
  const results = [dense, filters, sparse, text, growth].flat().filter((each) => each !== undefined);
  const sections = [
    ...kinds.map((each) => each.text),
    ...(filters ? [filtersSection(filters)] : []),
    ...(shapes ? [shapesSection(shapes)] : []),
    ...(growth ? [growthSection(growth)] : []),
    ...(rest ? [restSection(rest)] : []),
    ...(servers?.length ? [serversSection(servers)] : []),
  ];
  const page = `# Benchmarks in short

Written by \`npm run bench\` ([bench/main.ts](../bench/main.ts)); do not edit. The short form of every benchmark: fewer rows, queries, rounds and rivals than on the pages in full, all in one run. The first row of each table is what a program gets that embeds Quiver: a request is checked, sees one version, is searched, and what it finds is fetched. The second is the index alone. Engines are asked the same queries in turns; CPU time is that of all threads of an engine's process, medians of ${rounds} rounds after one that warms up, and in brackets how many times that of the whole engine. Other work may share the machine: ratios are worth more than milliseconds. ${day}, ${processor}.

${sections.join("\n")}
## How the engines were asked

${noteLines(results)}
${servers?.length ? `\nThe servers:\n\n${notes(servers)}\n` : ""}`;
  return { page, pictures: kinds.map((each) => each.picture) };
}
