// How does docs/benchmarks-growth.md tell what the whole engine costs as a collection grows?
//
//   node tools/launch.mjs run bench/growth/report.ts     the page and its pictures, from the stored results

import { chart, logarithmicTicks, type Series } from "../shared/chart.ts";
import { fit } from "../shared/fit.ts";
import { cpu, head, line, ms, noteLines, whole, writeDocument } from "../shared/report.ts";
import { type At, at, type EngineResult, keptResults, type SetResult } from "../shared/results.ts";
import { type Subject, subjects } from "./subjects.ts";

/** What was measured at one size. */
export type Step = { readonly subject: Subject; readonly result: SetResult };

export const storedName = ({ name }: Subject, rowCount: number): string => `${name}-${rowCount}`;

/** One engine at all sizes where it was measured. */
type Line = {
  readonly engine: EngineResult;
  readonly at: readonly { count: number; engine: EngineResult }[];
};

function linesOf(results: readonly SetResult[]): Line[] {
  const names = [...new Set(results.flatMap(({ engines }) => engines.map(({ name }) => name)))];
  return names.map((name) => {
    const stations = results.flatMap(({ rowCount, engines }) =>
      engines.filter((each) => each.name === name).map((engine) => ({ count: rowCount, engine })),
    );
    return { engine: stations[0].engine, at: stations };
  });
}

/** CPU time at a recall; that of an exact engine is the only one. */
const costOf = ({ points }: EngineResult, recall: number): At | undefined =>
  recall === 1 ? { value: cpu(points[0]), isBound: false } : at(recall, points, cpu);

const perRow = (seconds: number, count: number): number => (seconds * 1e6) / count;

type Figure = {
  readonly title: string;
  readonly unit: string;
  of(engine: EngineResult, count: number): number | undefined;
  /** The narrowest beam finds more already. */
  isBound?(engine: EngineResult): boolean;
};

/** What is told of each engine and drawn. */
const figuresOf = ({ recalls }: Subject): readonly Figure[] => [
  ...recalls.map(
    (recall): Figure => ({
      title: recall === 1 ? "CPU ms a query" : `CPU ms a query at ${recall}`,
      unit: "CPU ms a query",
      of: (engine) => costOf(engine, recall)?.value,
      isBound: (engine) => costOf(engine, recall)?.isBound ?? false,
    }),
  ),
  {
    title: "load, CPU µs a record",
    unit: "CPU µs a record",
    of: ({ buildCpuS }, count) => perRow(buildCpuS, count),
  },
  { title: "load, µs a record", unit: "µs a record", of: ({ buildS }, count) => perRow(buildS, count) },
  { title: "memory, bytes a record", unit: "bytes a record", of: ({ grownEach }) => grownEach },
  {
    title: "files, bytes a record",
    unit: "bytes a record",
    of: ({ fileBytesEach }) => (fileBytesEach > 0 ? fileBytesEach : undefined),
  },
];

const titleOf = ({ name, title, isOurs }: EngineResult): string => {
  if (name === "quiver-database") return "Quiver, the whole engine";
  return isOurs ? `${title}, the index alone` : title;
};

/** All figures of each engine at each size. */
export function table(subject: Subject, results: readonly SetResult[]): string {
  const figures = figuresOf(subject);
  const lines = linesOf(results).flatMap(({ engine: first, at: stations }) =>
    stations.map(({ count, engine }) => {
      const cells = figures.map(({ unit, of, isBound }) => {
        const value = of(engine, count);
        if (value === undefined) return "-";
        return `${isBound?.(engine) ? "at most " : ""}${unit.includes("ms") ? ms(value) : whole(value)}`;
      });
      const title = titleOf(first);
      return line([first.isOurs ? `**${title}**` : title, whole(count), ...cells]);
    }),
  );
  return `${head(["engine", subject.rows, ...figures.map(({ title }) => title)])}\n${lines.join("\n")}`;
}

/** The exponent of N in the cost, from all sizes. */
function powers({ recalls }: Subject, results: readonly SetResult[]): string {
  const told = linesOf(results).flatMap(({ engine, at: stations }) =>
    recalls.flatMap((recall) => {
      const known = stations.flatMap((station) => {
        const cost = costOf(station.engine, recall);
        return cost === undefined ? [] : [{ count: station.count, ms: cost.value }];
      });
      if (known.length < 3) return [];
      const logs = (of: (each: (typeof known)[number]) => number) =>
        known.map((each) => Math.log10(of(each)));
      const { slope } = fit(
        logs(({ count }) => count),
        logs((each) => each.ms),
      );
      const times = known[known.length - 1].ms / known[0].ms;
      const [from, to] = [known[0].count, known[known.length - 1].count];
      const where = recall === 1 ? "" : ` at ${recall}`;
      return [
        `- ${titleOf(engine)}${where}: ${times.toFixed(1)} times from ${whole(from)} to ${whole(to)}; as a power, N^${slope.toFixed(2)}.`,
      ];
    }),
  );
  return told.join("\n");
}

type Picture = { readonly path: string; readonly title: string; readonly svg: string };

function pictureOf(
  subject: Subject,
  { title, unit, of }: Figure,
  which: number,
  results: readonly SetResult[],
): Picture[] {
  const series = linesOf(results)
    .map(({ engine, at: stations }): Series => {
      const points = stations.flatMap(({ count, engine: measured }) => {
        const value = of(measured, count);
        return value === undefined ? [] : [[count, value] as const];
      });
      return { title: titleOf(engine), isOurs: engine.isOurs, points };
    })
    .filter(({ points }) => points.length > 0);
  const points = series.flatMap((each) => each.points);
  if (points.length === 0) return [];
  const counts = points.map(([count]) => count);
  const values = points.map(([, value]) => value);
  const ticks = logarithmicTicks(Math.min(...values), Math.max(...values));
  const [from, to] = [Math.min(...counts), Math.max(...counts)];
  const svg = chart(
    `${subject.title}: ${title}`,
    { title: subject.rows, from, to, isLogarithmic: true, ticks: logarithmicTicks(from, to) },
    { title: unit, from: ticks[0].value, to: ticks[ticks.length - 1].value, isLogarithmic: true, ticks },
    series,
  );
  return [{ path: `images/growth-${subject.name}-${which}.svg`, title, svg }];
}

const picturesOf = (subject: Subject, results: readonly SetResult[]): Picture[] =>
  figuresOf(subject).flatMap((figure, which) => pictureOf(subject, figure, which, results));

function section(subject: Subject, results: readonly SetResult[]): string {
  const { title, rounds, queryCount, processor } = results[0];
  const days = [...new Set(results.map(({ day }) => day))].sort();
  const leftOut = results.flatMap(({ rowCount, leftOut: reasons }) =>
    reasons.map((reason) => `- Left out at ${whole(rowCount)}: ${reason}\n`),
  );
  const absent = subject.steps.filter((step) => !results.some(({ rowCount }) => rowCount === step));
  const without =
    absent.length === 0
      ? ""
      : `- Not measured in this run: ${absent.map((step) => whole(step)).join(", ")} ${subject.rows}.\n`;
  const images = picturesOf(subject, results).map((picture) => `![${picture.title}](${picture.path})`);
  return `## ${subject.title}

${title}, its first rows.

${table(subject, results)}

${powers(subject, results)}

${images.join("\n")}

${queryCount} queries, ${rounds} rounds, ${days.join(" and ")}, ${processor}.
${without || leftOut.length > 0 ? `\n${without}${leftOut.join("")}` : ""}`;
}

/** The Markdown of these steps. */
export function pageOf(measured: readonly Step[]): string {
  const sections = subjects.flatMap((subject) => {
    const results = measured.filter((step) => step.subject === subject).map(({ result }) => result);
    return results.length === 0 ? [] : [section(subject, results)];
  });
  return `# The whole engine: growth

Written by \`npm run bench growth -- --write\` ([bench/growth/main.ts](../bench/growth/main.ts)); do not edit. The whole engine, embedded in a program: records are written durably and indexed, searches are checked, see one version and fetch what they find. The second engine is the index alone. Each size is built anew; each engine has a process of its own, and all are asked the same queries in turns. CPU time is that of all threads, a query: the median of the rounds after one that warms up, and linear between the beams around a recall. Loading ends when the indexes have everything; its CPU time is counted until the engine is idle. Memory is what the process has grown by, pages of mapped files included, from 50,000 records on: with fewer it is mostly the program. Files are those of the data directory. Other work may share the machine: ratios are worth more than milliseconds.

${sections.join("\n")}
## How the engines were asked

${noteLines(measured.map(({ result }) => result))}
`;
}

/** All stored steps, by subject and size. */
const stored = (): Step[] =>
  subjects.flatMap((subject) =>
    keptResults(
      "growth",
      subject.steps.map((step) => storedName(subject, step)),
    ).map((result) => ({ subject, result })),
  );

/** Writes the page and its pictures from the stored steps. */
export function writeReport(): void {
  const measured = stored();
  for (const subject of subjects) {
    const results = measured.filter((step) => step.subject === subject).map(({ result }) => result);
    for (const { path, svg } of picturesOf(subject, results)) writeDocument(path, svg);
  }
  writeDocument("benchmarks-growth.md", pageOf(measured));
}

if (import.meta.main) writeReport();
