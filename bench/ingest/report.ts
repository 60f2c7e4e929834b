// How does the page docs/benchmarks-ingest.md tell what was measured?

import { type Goal, goalTable, head, line, whole } from "../shared/report.ts";

/** Times of writing all records once, and the bytes of the collection's files afterwards. */
export type Ingest = { readonly wallMs: number; readonly cpuMs: number; readonly diskBytes: number };

/** Records a second, and the server's processor time for each. */
export type Single = { readonly clients: number; readonly rate: number; readonly cpuUs: number };

export type Run = {
  readonly forms: readonly {
    readonly title: string;
    readonly bodyBytes: number;
    readonly streamed: Ingest;
    readonly staged: Ingest;
  }[];
  readonly parseMs: number;
  readonly singles: readonly Single[];
  readonly records: number;
  readonly dimension: number;
  readonly per: number;
  readonly rounds: number;
  readonly processor: string;
};

const parseGoal = 2;
const diskGoal = 1.3;
const clientsGoal = 10;

export function page({ forms, parseMs, singles, records, dimension, per, rounds, processor }: Run): string {
  const contentBytes = records * dimension * 4;
  const rows = forms.flatMap(({ title, bodyBytes, streamed, staged }) =>
    [
      { how: "streamed", ...streamed },
      { how: "in a transaction", ...staged },
    ].map(({ how, wallMs, cpuMs, diskBytes }) =>
      line([
        title,
        how,
        (bodyBytes / 1e6).toFixed(1),
        whole(cpuMs),
        (cpuMs / parseMs).toFixed(2),
        whole(wallMs),
        (wallMs / parseMs).toFixed(2),
        (diskBytes / contentBytes).toFixed(2),
      ]),
    ),
  );
  const titles = [
    "form",
    "written",
    "MB of bodies",
    "server's processor time, ms",
    "times JSON.parse",
    "time, ms",
    "times JSON.parse",
    "files, times the vectors",
  ];
  const goals: Goal[] = [
    ...forms.slice(0, 1).map(({ title, streamed }) => ({
      wanted: `${title}: at most ${parseGoal} times the processor time of JSON.parse`,
      figure: (streamed.cpuMs / parseMs).toFixed(2),
      isMet: streamed.cpuMs <= parseGoal * parseMs,
    })),
    ...forms.slice(0, 1).map(({ staged }) => ({
      wanted: `after a transaction, files of at most ${diskGoal} times the vectors`,
      figure: (staged.diskBytes / contentBytes).toFixed(2),
      isMet: staged.diskBytes <= diskGoal * contentBytes,
    })),
    ...singles.slice(1).map(({ clients, rate }) => ({
      wanted: `${clients} clients at more than ${clientsGoal} times the rate of one`,
      figure: (rate / singles[0].rate).toFixed(1),
      isMet: rate > clientsGoal * singles[0].rate,
    })),
  ];
  return `# What it costs to write records

Written by \`npm run bench ingest -- --write\`: ${whole(records)} records of ${dimension} numbers, ${per} in each request, sent by one client, one request
after the other, into a collection without an index. Each is acknowledged when it is on disk. JSON.parse takes ${whole(parseMs)} ms of
processor time for the same records as JSON.

${head(titles)}
${rows.join("\n")}

Single records, each its own request:

${head(["clients", "records a second", "server's processor time for each, µs"])}
${singles.map(({ clients, rate, cpuUs }) => line([`${clients}`, whole(rate), whole(cpuUs)])).join("\n")}

${goalTable(goals)}

Medians of ${rounds} rounds after one for the compiler of Node.js. ${new Date().toISOString().slice(0, 10)}, ${processor}.
`;
}
