// How does the page docs/benchmarks-rest.md tell what was measured?

import { type Goal, goalTable, head, line, writeDocument } from "../shared/report.ts";

/** Microseconds of processor time of the server's process per request, and their ratio: medians of the rounds. */
export type FormResult = {
  readonly form: string;
  /** Of a body. */
  readonly bytes: number;
  readonly quiverUs: number;
  readonly bareUs: number;
  readonly ratio: number;
  readonly ratioRange: readonly [least: number, most: number];
};

export type RestResult = {
  readonly results: readonly FormResult[];
  /** Of the same search in process. */
  readonly searchUs: number;
  readonly requests: number;
  readonly rounds: number;
  readonly records: number;
  readonly dimension: number;
  readonly processor: string;
};

const goals: Readonly<Record<string, number>> = { json: 1.5, base64: 1.2 };
const us = (value: number): string => value.toFixed(0);

/** @param write whether the page is written; otherwise it is only returned */
export function report(result: RestResult, write: boolean): string {
  const { results, searchUs, requests, rounds, records, dimension, processor } = result;
  const rows = results.map(({ form, bytes, quiverUs, bareUs, ratio, ratioRange }) =>
    line([
      form,
      bytes.toLocaleString("en"),
      us(quiverUs),
      us(bareUs),
      `**${ratio.toFixed(2)}** (${ratioRange.map((each) => each.toFixed(2)).join(" to ")})`,
      ((quiverUs - searchUs) / bareUs).toFixed(2),
    ]),
  );
  const titles = [
    "vector as",
    "bytes of the body",
    "Quiver, µs",
    "bare server, µs",
    "ratio",
    "ratio without the search",
  ];
  const page = `# What a search costs through REST

Written by \`npm run bench:rest -- --write\`. Processor time of the server's whole process for one dense search of ${dimension} numbers with
ten results, in ${records.toLocaleString("en")} records. The bare server is node:http alone: it reads and parses the same body, makes 32-bit
floats of the vector, and answers with ten results, without key, checks or search. One client with eight connections drives both in turns.
The same search in process, with the embedded engine, costs ${us(searchUs)} µs; the last column leaves it out.

${head(titles)}
${rows.join("\n")}

${goalTable(results.flatMap((each) => goalsOf(each)))}

${requests.toLocaleString("en")} requests a round, medians of ${rounds} rounds, least and greatest in brackets.
${new Date().toISOString().slice(0, 10)}, ${processor}. What was removed to get here: [decisions/rest-path.md](decisions/rest-path.md).
`;
  if (write) writeDocument("benchmarks-rest.md", page);
  return page;
}

function goalsOf({ form, ratio }: FormResult): Goal[] {
  const most = goals[form];
  if (most === undefined) return [];
  return [
    {
      wanted: `${form}: at most ${most.toFixed(1)} times the bare server`,
      figure: ratio.toFixed(2),
      isMet: ratio <= most,
    },
  ];
}
