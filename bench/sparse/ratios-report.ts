// How does the page tell how many times faster than the plain loop a sparse search is?

import { type Goal, goalTable, head, line, whole } from "../shared/report.ts";

/** Microseconds a query: exact, and at a recall of 0.95 or more. */
export type Cost = { readonly exact: number; readonly atRecall: number };

export type Ratios = {
  readonly name: string;
  readonly title: string;
  readonly cells: readonly {
    /** Dimensions of a query. */
    readonly length: string;
    /** Of a query, on average. */
    readonly postings: number;
    readonly plainUs: number;
    readonly wholeUs: Cost;
    readonly indexUs: Cost;
  }[];
};

export type Run = { readonly rounds: number; readonly queries: number; readonly processor: string };

/** Times fewer microseconds than the plain loop. */
const wanted = { exact: 3, atRecall: 8 } as const;

const titles = [
  "dimensions of a query",
  "postings",
  "plain loop, µs",
  "whole engine, exact, µs",
  "index alone, exact, µs",
  "whole engine at 0.95, µs",
  "index alone at 0.95, µs",
];

/** The table of one shape; in brackets: how many times faster than the plain loop. */
export function sectionOf({ title, cells }: Ratios): string {
  const lines = cells.map(({ length, postings, plainUs, wholeUs, indexUs }) => {
    const cell = (us: number): string => `${whole(us)} (${(plainUs / us).toFixed(2)})`;
    const costs = [wholeUs.exact, indexUs.exact, wholeUs.atRecall, indexUs.atRecall].map(cell);
    return line([length, whole(postings), whole(plainUs), ...costs]);
  });
  return `### ${title}\n\n${head(titles)}\n${lines.join("\n")}\n`;
}

export function goalsOf(measured: readonly Ratios[]): Goal[] {
  const cells = measured.flatMap((each) => each.cells);
  return (["exact", "atRecall"] as const).flatMap((which) =>
    (["wholeUs", "indexUs"] as const).map((part): Goal => {
      const ratios = cells.map((cell) => cell.plainUs / cell[part][which]).toSorted((a, b) => a - b);
      const met = ratios.filter((ratio) => ratio >= wanted[which]).length;
      const [least, most] = [ratios[0], ratios[ratios.length - 1]].map((ratio) => ratio.toFixed(2));
      return {
        wanted: `${part === "wholeUs" ? "Whole engine" : "Index alone"}, ${which === "exact" ? "exact" : "at a recall of 0.95"}: ${wanted[which]} times the plain loop on each shape`,
        figure: `${least} to ${most} times; on ${met} of ${ratios.length}`,
        isMet: met === ratios.length,
      };
    }),
  );
}

export const pageOf = (measured: readonly Ratios[], { rounds, queries, processor }: Run): string =>
  `# Sparse search beside a plain loop

Written by \`npm run bench sparse-shapes\` ([bench/sparse/ratios.ts](../bench/sparse/ratios.ts)); do not edit. The ten records with the greatest dot product. Collections and queries are [generated](../bench/sparse/shapes.ts) in several shapes, because a way of searching that is good for one can be bad for the next; SciFact is a real, small set. The rival is a [plain JavaScript loop](../bench/shared/plain-index.ts) over flat arrays, which adds up every posting. It, the index alone and the whole engine, which checks a request, sees one version and fetches what it finds, take turns in one process. Figures are microseconds of processor time of the process for each query, medians of ${rounds} turns of ${queries} queries, and in brackets how many times faster than the loop. "At 0.95" is the least cost of all values of \`early_terminate_threshold\`, 0 included, with which at least 0.95 of the ten were found. ${processor}.

## The goals

${goalTable(goalsOf(measured))}

Why what is missing is missing: [postings](decisions/postings.md#sparse-vectors-list-by-list).

## The shapes

${measured.map(sectionOf).join("\n")}`;
