// How does docs/benchmarks-filters.md tell what filters cost?
//
//   node tools/launch.mjs run bench/filters/report.ts     the page and its pictures, from the stored result

import { chart, logarithmicTicks } from "../shared/chart.ts";
import {
  cpu,
  footer,
  type Goal,
  goalTable,
  head,
  isOurs,
  line,
  ms,
  noteLines,
  titleCell,
  writeDocument,
} from "../shared/report.ts";
import { type EngineResult, keptResults, type Point, type SetResult } from "../shared/results.ts";
import { type Case, cases, type Kind, kinds } from "./data.ts";
import { engineKinds } from "./engines.ts";
import { shares as invertedShares, setNames } from "./inverted.ts";

const headline = "quiver-database";
/** An approximate engine that finds less than this of what is there is no rival at that point. */
const recallMin = 0.9;

const meaning: Readonly<Record<Kind, string>> = {
  random: "Filters that are independent of the vectors",
  near: "Filters that select what is near the query",
  far: "Filters that select what is far from the query",
  five: "Filters of five fields, with and, or and not",
};

/** The cases of a kind with their numbers, which are the efforts of the points. */
const casesOf = (kind: Kind): { readonly effort: number; readonly share: number }[] =>
  cases.flatMap((one, effort) => (one.kind === kind ? [{ effort, share: one.share }] : []));

const pointOf = ({ points }: EngineResult, effort: number): Point | undefined =>
  points.find((point) => point.effort === effort);

const engineOf = ({ engines }: SetResult, name: string) => engines.find((engine) => engine.name === name);

const shareText = (share: number): string => `${100 * share} %`;

function cellOf(engine: EngineResult, own: EngineResult | undefined, effort: number): string {
  const point = pointOf(engine, effort);
  if (point === undefined) return "-";
  const base = own && pointOf(own, effort);
  const ratio = base === undefined || engine === own ? "" : ` (${(cpu(point) / cpu(base)).toFixed(2)})`;
  return `${ms(cpu(point))}${ratio}<br>${point.recall.toFixed(3)}`;
}

/** The table of a kind of filters: cost, times that of the whole database, and recall. */
export function tableOf(kind: Kind, result: SetResult): string {
  const own = engineOf(result, headline);
  const shown = casesOf(kind);
  const lines = result.engines.map((engine) => {
    const cells = [{ effort: 0, share: 1 }, ...shown].map(({ effort }) => cellOf(engine, own, effort));
    return line([titleCell(engine), ...cells]);
  });
  return `${head(["engine", "no filter", ...shown.map(({ share }) => shareText(share))])}\n${lines.join("\n")}`;
}

function pictureOf(kind: Kind, { title, engines }: SetResult): string {
  const shown = casesOf(kind);
  const series = engines.map((engine) => ({
    title: engine.title,
    isOurs: engine.name === headline,
    points: shown.flatMap(({ effort, share }) => {
      const point = pointOf(engine, effort);
      return point === undefined ? [] : [[-Math.log10(share), cpu(point)] as const];
    }),
  }));
  const costs = series.flatMap(({ points }) => points.map(([, cost]) => cost));
  const ticks = logarithmicTicks(Math.min(...costs), Math.max(...costs));
  const last = Math.max(...shown.map(({ share }) => -Math.log10(share)));
  return chart(
    `${meaning[kind]}: ${title}`,
    {
      title: "share of the records that match",
      from: 0,
      to: last,
      ticks: [1, 0.1, 0.01, 0.001, 0.0001]
        .filter((share) => -Math.log10(share) <= last)
        .map((share) => ({ value: -Math.log10(share), label: shareText(share) })),
    },
    {
      title: "CPU ms a query",
      from: ticks[0].value,
      to: ticks[ticks.length - 1].value,
      ticks,
      isLogarithmic: true,
    },
    series,
  );
}

/** The tables of a result. */
export const sectionsOf = (result: SetResult): string =>
  kinds.map((kind) => `## ${meaning[kind]}\n\n${tableOf(kind, result)}\n`).join("\n");

/** Sparse and text searches: cost by share, times that of the whole database, and recall. */
export function invertedTable(result: SetResult): string {
  const own = engineOf(result, headline);
  const titles = invertedShares.map((share) => (share === undefined ? "no filter" : shareText(share)));
  const lines = result.engines.map((engine) => {
    const cells = invertedShares.map((_, effort) => cellOf(engine, own, effort));
    return line([titleCell(engine), ...cells]);
  });
  return `${head(["engine", ...titles])}\n${lines.join("\n")}`;
}

const ofCases = (wanted: (one: Case) => boolean): number[] =>
  cases.flatMap((one, effort) => (one.kind !== "none" && wanted(one) ? [effort] : []));

function goalsOf(result: SetResult): Goal[] {
  const own = engineOf(result, headline);
  if (own === undefined) return [];
  const rivals = result.engines.filter((engine) => !isOurs(engine));
  const lost = ofCases(() => true).flatMap((effort) => {
    const mine = pointOf(own, effort);
    return rivals.flatMap((rival) => {
      const theirs = pointOf(rival, effort);
      if (mine === undefined || theirs === undefined || theirs.recall < recallMin) return [];
      const { kind, share } = cases[effort];
      return cpu(theirs) < cpu(mine) ? [`${rival.title} at ${shareText(share)} ${kind}`] : [];
    });
  });
  const base = pointOf(own, 0);
  const multiples = (name: string, wanted: (one: Case) => boolean): Goal => {
    const engine = engineOf(result, name);
    const found = ofCases(wanted).flatMap((effort) => {
      const point = engine && pointOf(engine, effort);
      return point && base ? [{ effort, times: cpu(point) / cpu(base) }] : [];
    });
    const worst = found.toSorted((a, b) => b.times - a.times)[0];
    const what = name === headline ? "filters that were asked before" : "filters that are new each time";
    return {
      wanted: `At most 1.5 times the search without a filter, from 100 % to 10 %, ${what}`,
      figure: worst
        ? `${Math.min(...found.map(({ times }) => times)).toFixed(2)} to ${worst.times.toFixed(2)} (${shareText(cases[worst.effort].share)}, ${cases[worst.effort].kind})`
        : "-",
      isMet: worst && worst.times <= 1.5,
    };
  };
  const least = Math.min(...ofCases(() => true).map((effort) => pointOf(own, effort)?.recall ?? 1));
  const known = (one: Case) => one.share >= 0.1;
  return [
    {
      wanted: `Less CPU time than every rival with a recall of ${recallMin} or more, at every point`,
      figure: lost.length === 0 ? "at every point" : `not: ${lost.join("; ")}`,
      isMet: lost.length === 0,
    },
    {
      wanted: "Recall@10 of at least 0.98 at every point",
      figure: `at least ${least.toFixed(3)}`,
      isMet: least >= 0.98,
    },
    multiples(headline, known),
    multiples("quiver-new", known),
  ];
}

/** Writes the page and its pictures from the stored result. */
export function writeReport(): void {
  const [result] = keptResults("filters", ["clusters"]);
  const inverted = keptResults("filters", setNames);
  const sections = kinds.map((kind) => {
    const image = `images/filters-${kind}.svg`;
    writeDocument(image, pictureOf(kind, result));
    return `## ${meaning[kind]}\n\n${tableOf(kind, result)}\n\n![CPU time against selectivity](${image})\n`;
  });
  const page = `# Filtered dense search: benchmarks

Written by \`npm run bench filters\` ([bench/filters](../bench/filters/main.ts)); do not edit. Each engine runs in a process of its own, and all are asked the same queries with the same filters in turns, one at a time, with M = 16 and one beam width for all. CPU time in milliseconds is that of all threads of the process, its median over rounds after one that warms up; in brackets how many times that of the whole database; below it recall@10 against the exact search among the matching records. Other work may share the machine: ratios are worth more than milliseconds. [How filters work](decisions/filters.md).

## Goals

${goalTable(goalsOf(result))}

${sections.join("\n")}
${footer(result, engineKinds)}
${inverted.map((each) => `## ${each.title}\n\nWith a filter on one field.\n\n${invertedTable(each)}\n\n${footer(each)}`).join("\n")}
## How the engines were asked

${noteLines([result])}
${inverted.length === 0 ? "" : `\nSparse and text searches:\n\n${noteLines(inverted)}\n`}
`;
  writeDocument("benchmarks-filters.md", page);
}

if (import.meta.main) writeReport();
