// How are the results on the growth of text search presented on the page?
//
//   node tools/launch.mjs run bench/text/growth-report.ts     the page and its picture, from the stored results

import { chart, logarithmicTicks, type Series } from "../shared/chart.ts";
import { fit, type Line } from "../shared/fit.ts";
import { head, line, ms, noteLines, whole, writeDocument } from "../shared/report.ts";
import { type EngineResult, keptResults, type SetResult } from "../shared/results.ts";
import { b, k, k1 } from "./engine.ts";
import { realCount } from "./passages.ts";

/** Passages. */
export const steps = [10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000] as const;

/** The results of one engine at each step. */
type Way = {
  readonly engine: EngineResult;
  readonly counts: readonly number[];
  readonly cpuMs: readonly number[];
  readonly postings: readonly number[];
};

function waysOf(results: readonly SetResult[]): Way[] {
  const names = [...new Set(results.flatMap(({ engines }) => engines.map(({ name }) => name)))];
  return names.map((name) => {
    const stations = results.flatMap((result) => {
      const engine = result.engines.find((each) => each.name === name);
      return engine === undefined ? [] : [{ result, engine }];
    });
    return {
      engine: stations[0].engine,
      counts: stations.map(({ result }) => result.rowCount),
      cpuMs: stations.map(({ engine }) => engine.points[0].cpuMs),
      postings: stations.map(({ result }) => result.postingsPerQuery ?? Number.NaN),
    };
  });
}

const times = (numbers: readonly number[]): number => numbers[numbers.length - 1] / numbers[0];
const nsEach = ({ cpuMs, postings }: Way, i: number): number => (1e6 * cpuMs[i]) / postings[i];

/** The exponent of N is the slope. */
const powerOf = ({ counts, cpuMs }: Way): Line => fit(counts.map(Math.log10), cpuMs.map(Math.log10));

function table(results: readonly SetResult[], ways: readonly Way[]): string {
  const titles = ["passages", "postings a query"];
  for (const { engine } of ways)
    titles.push(
      `${engine.title}: CPU ms a query`,
      "times the first",
      "ns a posting",
      "found of the exact",
      "build CPU s",
    );
  const lines = results.map(({ rowCount, postingsPerQuery, engines }) => {
    const cells = ways.flatMap((way) => {
      const engine = engines.find(({ name }) => name === way.engine.name);
      if (engine === undefined) return ["-", "-", "-", "-", "-"];
      const at = way.counts.indexOf(rowCount);
      return [
        ms(way.cpuMs[at]),
        (way.cpuMs[at] / way.cpuMs[0]).toFixed(2),
        nsEach(way, at).toFixed(1),
        engine.points[0].recall.toFixed(3),
        engine.buildCpuS.toFixed(1),
      ];
    });
    return line([whole(rowCount), whole(postingsPerQuery ?? Number.NaN), ...cells]);
  });
  return `${head(titles)}\n${lines.join("\n")}`;
}

function picture(ways: readonly Way[]): string {
  const counts = ways.flatMap((way) => way.counts);
  const costs = ways.flatMap(({ cpuMs }) => cpuMs);
  const [from, to] = [Math.min(...counts), Math.max(...counts)];
  const ticks = logarithmicTicks(Math.min(...costs), Math.max(...costs));
  const first = Math.min(...ways.map(({ cpuMs }) => cpuMs[0]));
  // A straight line at 45 degrees of both axes, as far as it stays inside.
  const guideTo = Math.min(to, (from * ticks[ticks.length - 1].value) / first);
  const guide: Series = {
    title: "in proportion to N",
    isGuide: true,
    points: [
      [from, first],
      [guideTo, (first * guideTo) / from],
    ],
  };
  return chart(
    "Text search: CPU time a query against the number of passages",
    { title: "passages", from, to, isLogarithmic: true, ticks: logarithmicTicks(from, to) },
    {
      title: "CPU ms a query",
      from: ticks[0].value,
      to: ticks[ticks.length - 1].value,
      isLogarithmic: true,
      ticks,
    },
    [
      ...ways.map(({ engine, counts: xs, cpuMs }): Series => {
        return {
          title: engine.title,
          isOurs: engine.isOurs,
          points: xs.map((count, i) => [count, cpuMs[i]] as const),
        };
      }),
      guide,
    ],
  );
}

/** Explains the growth of one engine's costs. */
function explained(way: Way): string {
  const { engine, cpuMs, postings } = way;
  const last = cpuMs.length - 1;
  const { slope, r2 } = powerOf(way);
  const [cost, work] = [times(cpuMs), times(postings)];
  const [before, after] = [nsEach(way, 0), nsEach(way, last)];
  const reason =
    cost < 0.9 * work
      ? "less than the postings: a part of the cost does not grow with them (the query's analysis, the ten best), or some of them are skipped"
      : cost > 1.1 * work
        ? "more than the postings: the longer the lists and the scores of all passages, the less of them the processor's caches hold"
        : "as the postings do: nearly all of the cost is the going through them";
  return `- **${engine.title}**: ${cost.toFixed(1)} times, ${reason}. A posting costs ${before.toFixed(1)} ns at first and ${after.toFixed(1)} ns at last. As a power: N^${slope.toFixed(3)} (R² ${r2.toFixed(3)}).`;
}

/** The Markdown of these steps. */
export function pageOf(results: readonly SetResult[]): string {
  const ways = waysOf(results);
  const last = results[results.length - 1];
  const counts = results.map(({ rowCount }) => rowCount);
  const postings = results.map(({ postingsPerQuery }) => postingsPerQuery ?? Number.NaN);
  const made =
    last.rowCount > realCount()
      ? `Up to ${whole(realCount())} passages are those of the dictionaries; those beyond are made of their sentences, each drawn at random from all, as many as a real passage has, so that words are as frequent, and passages on average as long, as the real ones.`
      : "All passages are those of the dictionaries.";
  return `# Text search: growth

Written by \`npm run bench text-growth\` ([bench/text/growth.ts](../bench/text/growth.ts)); do not edit. The words alone, without stems and stop words, the same queries at every step, OR, BM25 with k1 = ${k1} and b = ${b}, the ${k} best. ${made} Each engine has a process of its own; they are asked in turns; CPU milliseconds a query, of all threads, the median of ${last.rounds} rounds of ${last.queryCount} queries. "ns a posting" is that cost over all postings of a query's terms, whether the engine looks at them or not. ${last.day}, ${last.processor}.

${table(results, ways)}

![CPU time against the number of passages](images/text-growth.svg)

## Why it grows so

A query's words stay the same and the passages become more, so that the lists of these words become longer in proportion: from ${whole(counts[0])} to ${whole(last.rowCount)} passages, ${times(counts).toFixed(0)} times as many, a query's terms have ${times(postings).toFixed(1)} times the postings. An engine that looks at all of them grows alike, and one that skips those that cannot be among the ten best grows less. The costs:

${ways.map(explained).join("\n")}

## How the engines were asked

${noteLines(results)}
`;
}

/** Writes the page and its picture from the stored steps, up to a number of passages. */
export function writeReport(countMax: number = steps[steps.length - 1]): void {
  const names = steps.filter((step) => step <= countMax).map(String);
  const results = keptResults("text-growth", names);
  writeDocument("benchmarks-text-growth.md", pageOf(results));
  writeDocument("images/text-growth.svg", picture(waysOf(results)));
}

if (import.meta.main) writeReport();
