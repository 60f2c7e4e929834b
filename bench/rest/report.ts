// How does the page docs/benchmarks-rest.md tell what was measured?

import { type Goal, goalTable, head, line, whole } from "../shared/report.ts";

/** Microseconds of processor time of the server's process for a request, and their ratio: medians of the rounds. */
export type Measured = {
  readonly records: number;
  readonly form: string;
  readonly bodyBytes: number;
  readonly quiverUs: number;
  readonly bareUs: number;
  /** Of the same search in process. */
  readonly searchUs: number;
  readonly ratio: number;
  readonly ratioRange: readonly [least: number, most: number];
};

export type Run = {
  readonly requests: number;
  readonly rounds: number;
  readonly warm: number;
  readonly queries: number;
  readonly processor: string;
};

const goals: Readonly<Record<string, number>> = { numbers: 1.5, base64: 1.2 };

/** The ratio to the bare server if the search cost nothing. */
const withoutSearch = ({ quiverUs, searchUs, bareUs }: Measured): number => (quiverUs - searchUs) / bareUs;

export function page(
  measured: readonly Measured[],
  { requests, rounds, warm, queries, processor }: Run,
): string {
  const numbersUs = (records: number): number =>
    measured.find((each) => each.records === records && each.form === "numbers")?.bareUs ?? Number.NaN;
  const rows = measured.map((each) => {
    const { records, form, bodyBytes, quiverUs, bareUs, searchUs, ratio, ratioRange } = each;
    return line([
      whole(records),
      form,
      whole(bodyBytes),
      whole(quiverUs),
      whole(searchUs),
      whole(bareUs),
      `${ratio.toFixed(2)} (${ratioRange.map((end) => end.toFixed(2)).join(" to ")})`,
      withoutSearch(each).toFixed(2),
      (quiverUs / numbersUs(records)).toFixed(2),
    ]);
  });
  const titles = [
    "records",
    "vector as",
    "bytes of the body",
    "Quiver, µs",
    "of them the search alone, in process, µs",
    "bare server, µs",
    "ratio",
    "ratio without the search",
    "ratio to the bare server with numbers",
  ];
  const least = Math.min(...measured.map(({ records }) => records));
  return `# What a search costs through REST

Written by \`npm run bench rest -- --write\`: processor time of the server's whole process for one dense search of 768 numbers with ten
results. Quiver runs as \`quiver serve\` starts it, with a key and its log. The bare server is node:http alone: it reads and parses the same
body, makes 32-bit floats of the vector, and answers with ten results, without key, checks or search. One client with eight connections
drives both in turns.

${head(titles)}
${rows.join("\n")}

The goals are for the way of a request without its search. With ${least} records there is little to search; the search in process, which
is subtracted, runs in a loop of its own, with everything in the processor's caches, and costs less than it does between requests.

${goalTable(measured.filter(({ records }) => records === least).flatMap((each) => goalsOf(each, numbersUs(least))))}

${whole(requests)} requests a round and side with ${queries} queries, medians of ${rounds} rounds, least and greatest in brackets, after ${whole(warm)} requests for the compiler of Node.js.
${new Date().toISOString().slice(0, 10)}, ${processor}. What was removed to get here, and what lost: [decisions/rest-path.md](decisions/rest-path.md).
`;
}

function goalsOf(each: Measured, numbersUs: number): Goal[] {
  const most = goals[each.form];
  if (most === undefined) return [];
  const own = withoutSearch(each);
  const goal = (what: string, figure: number): Goal => ({
    wanted: `${each.form}, without the search: at most ${most.toFixed(1)} times ${what}`,
    figure: figure.toFixed(2),
    isMet: figure <= most,
  });
  const toNumbers = (each.quiverUs - each.searchUs) / numbersUs;
  return each.form === "numbers"
    ? [goal("the bare server", own)]
    : [goal("the bare server with numbers", toNumbers), goal("the bare server with the same body", own)];
}
