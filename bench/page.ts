// How does docs/benchmarks.md tell what the benchmarks have measured?
//
//   npm run bench page     writes the page and its chart from bench/results
//
// Every benchmark calls this after it has stored its result. A part whose benchmark was never run is left out.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { bestRival, isOurs, isRival, isWhole, least, num, timesOfRival } from "./figures.ts";
import { type Loss, losses, serversWhere, shortName } from "./losses.ts";
import { chart, logarithmicTicks, type Series } from "./shared/chart.ts";
import { fit } from "./shared/fit.ts";
import { type Row, type Run, stored } from "./shared/results.ts";
import { ms, table, whole } from "./shared/table.ts";

const docs = resolve(import.meta.dirname, "../docs");
const chartPath = "images/growth.svg";

const link = (benchmark: string): string => `[${benchmark}](../bench/results/${benchmark}.json)`;
const bold = (row: Row, name = shortName(row)): string => (isOurs(row) ? `**${name}**` : name);

type Format = (value: number) => string;
type Column = readonly [title: string, name: string, as: Format];

/** With the least and the greatest of the rounds, where they are recorded. */
function figure(row: Row | undefined, name: string, as: Format): string {
  if (row?.[name] === undefined) return "-";
  const [min, max] = ["Min", "Max"].map((end) => row[name.replace(/(?=@|$)/, end)]);
  const spread = min === undefined ? "" : ` [${as(Number(min))}–${as(Number(max))}]`;
  return `${as(num(row, name))}${spread}`;
}

/** A line for each row: what it is, and its figures. */
const figures = (
  [what, nameOf]: readonly [title: string, nameOf: (row: Row) => string],
  columns: readonly Column[],
  rows: readonly Row[],
): string =>
  table(
    [what, ...columns.map(([title]) => title)],
    rows.map((row) => [nameOf(row), ...columns.map(([, name, as]) => figure(row, name, as))]),
  );

const tenths = (value: number): string =>
  value.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const hundredths = (value: number): string => value.toFixed(2);
const recordsOf = ({ options }: Run): string => whole(num(options, "rows"));
const percent = (share: number): string => `${Number((100 * share).toPrecision(3))} %`;

// Servers

const recalls = [0.95, 0.99] as const;

/** p50 and p99. */
function latency(row: Row | undefined): string {
  return row === undefined
    ? "-"
    : `${figure(row, "p50Ms", hundredths)} / ${figure(row, "p99Ms", hundredths)}`;
}

const pointOf = ({ points = [] }: Run, server: Row, share: number, wanted: number, clients: number) =>
  points.find(
    (each) =>
      each.server === server.server &&
      each.share === share &&
      each.wanted === wanted &&
      each.clients === clients,
  );

const rate = (row: Row | undefined): string =>
  row === undefined ? "-" : `${figure(row, "perSecond", whole)} / ${figure(row, "p99Ms", hundredths)}`;

function serverTable(run: Run): string {
  const titles = recalls.flatMap((recall) => [
    `${recall}: CPU ms`,
    "p50 / p99 ms",
    "8 clients: a second / p99 ms",
  ]);
  const rows = run.rows.map((server) => {
    const cells = recalls.flatMap((recall) => {
      const [one, eight] = [1, 8].map((clients) => pointOf(run, server, 1, recall, clients));
      if (one === undefined) return ["not reached", "-", "-"];
      return [figure(one, "cpuMs", ms), latency(one), rate(eight)];
    });
    return [bold(server), ...cells];
  });
  return `${run.title}, its first ${recordsOf(run)} records:\n\n${table(["server", ...titles], rows)}\n`;
}

const serversSection = (runs: readonly Run[]): string => `## Servers

Each server's own public client sends the queries, on the cores of the server, with the narrowest beam that reaches a recall of 0.95, then 0.99. CPU time and latency are those of one client; with 8 clients, the rate and p99. The last row is a baseline: a server that only parses the body.

${runs.map(serverTable).join("\n")}`;

// REST

function restTable(): string {
  const [run] = stored("rest");
  if (run === undefined) return "";
  const columns: Column[] = [
    ["records", "records", whole],
    ["Quiver", "quiverUs", whole],
    ["its search", "searchUs", whole],
    ["bare", "bareUs", whole],
    ["ratio", "ratio", hundredths],
    ["ratio without search", "ratioWithoutSearch", hundredths],
    ["to bare with numbers", "ratioToNumbersWithoutSearch", hundredths],
  ];
  return `A search with a vector of 768 numbers: CPU µs of the server for each request. Bare is node:http alone, which parses the same body. Without search: the time of the same search in process is subtracted first; the last column then divides by bare with numbers.

${figures(["vector as", ({ form }) => String(form)], columns, run.rows)}
`;
}

function agentTable(): string {
  const [run] = stored("agent");
  if (run === undefined) return "";
  const { options, rows } = run;
  const nameOf = (row: Row): string => {
    const name = row.recall === undefined ? String(row.searches) : `searches ${row.searches}`;
    return Number(row.refused) > 0 ? `${name}: **overloaded**` : name;
  };
  const shareOf = (row: Row): number => {
    const perSecond = num(options, row.recall === undefined ? "writes" : "searches");
    return num(row, "refused") / (perSecond * num(options, "seconds") * num(options, "rounds"));
  };
  const shown = rows.map((row) => ({ ...row, refusedShare: shareOf(row) }));
  const columns: Column[] = [
    ["p50 ms", "p50Ms", tenths],
    ["p99 ms", "p99Ms", tenths],
    ["p99 / alone", "p99Times", tenths],
    ["recall", "recall", (value) => value.toFixed(3)],
    ["server's cores", "serverCpuShare", hundredths],
    ["refused", "refusedShare", percent],
  ];
  return `An agent's loop: ${options.searches} searches a second, alone and beside ${options.writes} single upserts a second, from ${whole(num(options, "records"))} records of 768 numbers on. Recall is the least of all rounds. Overloaded: the server refused requests, because this machine could not carry the load; the latencies are those of its queue.

${figures(["requests", nameOf], columns, shown)}
`;
}

// In process

/** What a rival costs: its figure, and how many times that of Quiver. */
const rivalCell = (rival: Row | undefined, at: string, times: number): string =>
  rival === undefined
    ? "none reached it"
    : `${figure(rival, `cpuMs${at}`, ms)} ${shortName(rival)} (${times.toFixed(2)})`;

function denseTable(runs: readonly Run[]): string {
  const rows = runs.map((run) => [
    run.title,
    ...recalls.flatMap((recall) => {
      const at = `@${recall}`;
      const rival = least(run.rows.filter(isRival), `cpuMs${at}`);
      const own = least(run.rows.filter(isOurs), `cpuMs${at}`);
      return [figure(own, `cpuMs${at}`, ms), rivalCell(rival, at, timesOfRival(run, at))];
    }),
  ]);
  const titles = recalls.flatMap((recall) => [`Quiver at ${recall}`, "best rival"]);
  return table(["dense, index alone", ...titles], rows);
}

/** How many times the cost of one row that of another is: as recorded, with more digits, where the former is what multiples are of. */
function timesOf(row: Row, of: Row, cost: string): number {
  const times = cost.replace("cpuMs", "times");
  return Number(of[times] ?? 1) === 1 && row[times] !== undefined
    ? num(row, times)
    : num(row, cost) / num(of, cost);
}

/** The whole engine and the index alone beside the best rival. */
function wholeRow(title: string, { rows }: Run, cost: string, as: Format = ms): string[] {
  const own = rows.find(isWhole);
  const alone = least(
    rows.filter((row) => isOurs(row) && !isWhole(row)),
    cost,
  );
  const rival = least(rows.filter(isRival), cost);
  const times = (row: Row | undefined): string =>
    row?.[cost] === undefined || rival === undefined ? "" : ` (${timesOf(rival, row, cost).toFixed(2)})`;
  return [
    title,
    `${figure(own, cost, as)}${times(own)}`,
    `${figure(alone, cost, as)}${times(alone)}`,
    rival === undefined ? "-" : `${figure(rival, cost, as)} ${shortName(rival)}`,
  ];
}

function inProcessSection(dense: readonly Run[], sparse: readonly Run[], text: readonly Run[]): string {
  const rows = [
    ...dense
      .filter((run) => run.rows.some(isWhole))
      .flatMap((run) =>
        recalls.map((recall) => wholeRow(`dense at ${recall}, ${run.title}`, run, `cpuMs@${recall}`)),
      ),
    ...sparse.map((run) => wholeRow(`sparse, exact, ${run.key}, ${recordsOf(run)}`, run, "cpuMs")),
    ...text.map((run) => wholeRow(`text, ${run.key}, ${recordsOf(run)}`, run, "cpuMs")),
  ];
  return `## In process

CPU milliseconds for each query. The whole engine checks the request, pins a version, searches, and fetches the results. The index alone only searches. The number in brackets is the rival's CPU time divided by Quiver's: below 1 the rival is faster. The plain loop is a JavaScript loop over flat posting lists.

${table(["search", "whole engine", "index alone", "best rival"], rows)}

The dense index alone, on each data set:

${denseTable(dense)}
${overheadTable()}`;
}

function overheadTable(): string {
  const [run] = stored("overhead");
  if (run === undefined) return "";
  const columns: Column[] = [
    ["records", "records", whole],
    ["whole engine", "engineUs", whole],
    ["index alone", "indexUs", whole],
    ["difference", "moreUs", whole],
    ["at best", "moreAtBestUs", whole],
  ];
  return `
What the whole engine adds to its index, in CPU µs: both in one process, in turns, with the first records of a set. The difference is the median over pairs of turns; at best, that of the two fastest turns. The index of the hybrid search is both indexes, one after the other.

${figures(["search", ({ search }) => String(search)], columns, run.rows)}
`;
}

// Builds

/** For equal recall: of dense rivals, only those that reach 0.99. */
function buildRow(title: string, run: Run): string[] {
  const isCompared = (row: Row): boolean =>
    isOurs(row) || row["recall@100"] === undefined || row["cpuMs@0.99"] !== undefined;
  const rows = run.rows.filter(isCompared);
  const recall = [isOurs, isRival].map((isWanted) =>
    figure(least(rows.filter(isWanted), "buildCpuS"), "recall@100", (value) => value.toFixed(3)),
  );
  const recalls = recall.includes("-") ? "-" : recall.join(" / ");
  return [...wholeRow(title, { ...run, rows }, "buildCpuS", tenths), recalls];
}

const buildsSection = (
  dense: readonly Run[],
  sparse: readonly Run[],
  text: readonly Run[],
): string => `## Builds

CPU seconds of all threads to load and build, once. In brackets: the cheapest rival's time divided by Quiver's. Only dense rivals that reach a recall of 0.99 count; recall@100 is Quiver's and that rival's with a beam of 128. The whole engine also checks, stores and reads the records: [shares of linking, ingest and encoding](decisions/hnsw-speed.md#consequences).

${table(
  ["build", "whole engine", "index alone", "cheapest rival", "recall@100"],
  [
    ...dense.map((run) => buildRow(run.title, run)),
    ...sparse.map((run) => buildRow(`sparse, ${run.key}, ${recordsOf(run)}`, run)),
    ...text.map((run) => buildRow(`text, ${run.key}, ${recordsOf(run)}`, run)),
  ],
)}
`;

// Filters

const shares = [1, 0.1, 0.01];
const filterTitles: Readonly<Record<string, string>> = {
  none: "no filter",
  random: "dense, independent of the vectors",
  near: "dense, near the query",
  far: "dense, far from the query",
  five: "dense, five fields with and, or, not",
};

function filterRows(run: Run): string[][] {
  const { points = [], key } = run;
  const own = points.filter(isWhole);
  const base = own.find(({ filter }) => filter === "none");
  const kinds = [...new Set(own.map(({ filter }) => String(filter)))].filter((kind) => kind !== "none");
  return kinds.map((kind) => {
    const cells = shares.map((share) => {
      const isBase = share === 1;
      if (isBase && kind !== kinds[0]) return "the same";
      const point = isBase ? base : own.find((each) => each.filter === kind && each.share === share);
      const rival = bestRival(run, isBase ? "none" : kind, share);
      if (point === undefined) return "-";
      if (rival === undefined) return figure(point, "cpuMs", ms);
      const times = timesOf(rival, point, "cpuMs");
      return `${figure(point, "cpuMs", ms)} (${times.toFixed(2)} ${shortName(rival).replace(/ (int8|FTS5)$/, "")})`;
    });
    return [filterTitles[kind] ?? `${key === "words" ? "text" : "sparse"}, one field`, ...cells];
  });
}

function filtersSection(runs: readonly Run[], servers: readonly Run[]): string {
  const own = runs.flatMap(({ points = [] }) => points.filter(isWhole)).map((point) => num(point, "recall"));
  const columns = servers.flatMap((run) => [0.1, 0.01].map((share) => ({ run, share })));
  const rows = (servers[0]?.rows ?? [])
    .filter(({ bare }) => bare !== true)
    .map((server) => [
      bold(server),
      ...columns.map(({ run, share }) =>
        recalls.map((recall) => figure(pointOf(run, server, share, recall, 1), "cpuMs", ms)).join(" / "),
      ),
    ]);
  const titles = columns.map(({ run, share }) => `${run.key.split("-")[0]}, ${percent(share)}`);
  return `## Filters

In process, by the share of records that match: CPU milliseconds of the whole engine. In brackets: the time of the best rival with a recall of 0.9 or more, divided by Quiver's. Quiver's recall is at least ${Math.min(...own).toFixed(3)}. The fields have metadata indexes, and the filters of the dense rows were used before. Without a metadata index, a filter reads all records, which takes tens of milliseconds.

${table(["filter", "no filter", ...shares.slice(1).map(percent)], runs.flatMap(filterRows))}

Servers, one client: CPU milliseconds at a recall of ${recalls.join(" / ")}. A dash means that the server did not reach it.

${table(["server", ...titles], rows)}
`;
}

// Ingest, memory, disk

function ingestTables(): string {
  const [bodies, single] = ["bodies", "single"].map((key) => stored("ingest").find((run) => run.key === key));
  if (bodies === undefined || single === undefined) return "";
  const { options, facts, rows } = bodies;
  const forms = [...new Set(rows.map(({ form }) => String(form)))].map((form) => {
    const [streamed, staged] = ["streamed", "in a transaction"].map((how) =>
      rows.find((row) => row.form === form && row.written === how),
    );
    const cpu = (row: Row | undefined): string =>
      `${figure(row, "cpuMs", whole)} (${figure(row, "cpuTimesParse", hundredths)})`;
    return [form, figure(streamed, "bodiesMB", tenths), cpu(streamed), cpu(staged)];
  });
  const disk = ["streamed", "in a transaction"].map((how) =>
    figure(
      rows.find(({ written }) => written === how),
      "filesTimesVectors",
      hundredths,
    ),
  );
  const clients = single.rows
    .map(
      (row) =>
        `${figure(row, "perSecond", whole)} a second with ${row.clients} client${row.clients === 1 ? "" : "s"}`,
    )
    .join(", ");
  const titles = ["form", "MB", "CPU ms, streamed", "CPU ms, transaction"];
  return `One client writes ${whole(num(options, "records"))} records of ${options.dimension} numbers through REST, ${options.per} in each request. A request is acknowledged when it is on disk. In brackets: the CPU time divided by that of \`JSON.parse\` for the same records, ${figure(facts, "parseMs", whole)} ms. The files take ${disk[0]} times the bytes of the vectors, ${disk[1]} times after a transaction. One record in each request: ${clients}.

${table(titles, forms)}

`;
}

/** In brackets: how many times ours a rival's cost is. */
const ofOurs = (row: Row | undefined, own: Row | undefined, cost: string): string =>
  row?.[cost] === undefined || own?.[cost] === undefined || isOurs(row)
    ? ""
    : ` (${timesOf(row, own, cost).toFixed(2)})`;

function ingestSection(servers: readonly Run[]): string {
  const first = servers[0]?.rows.filter(({ bare }) => bare !== true) ?? [];
  const names = ["recordsPerSecond", "loadCpuS", "filesMB", "memoryMB"];
  const rows = first.map((server) => [
    bold(server),
    ...servers.flatMap((run) => {
      const row = run.rows.find((each) => each.server === server.server);
      return names.map((name) => {
        const told = figure(row, name, name === "recordsPerSecond" ? whole : tenths);
        return name === "loadCpuS" ? `${told}${ofOurs(row, run.rows.find(isOurs), name)}` : told;
      });
    }),
  ]);
  const titles = servers.flatMap(({ key }) => [
    `${key.split("-")[0]}: records a second`,
    "CPU s",
    "files, MB",
    "memory, MB",
  ]);
  return `## Ingest, memory, disk

${ingestTables()}Servers: one client loads 10,000 records with an index, 1,000 in each request. In brackets: divided by Quiver's. Memory is that of all processes after the searches.

${table(["server", ...titles], rows)}
`;
}

const hasFiles = ({ rows }: Run): boolean => rows.some(({ fileBytes }) => fileBytes !== undefined);

/** @param runs in which files were measured */
function bytesSection(runs: readonly Run[]): string {
  const rows = runs.flatMap(({ title, rows: own, facts }) =>
    own.map((row) => {
      const times = num(row, "fileBytes") / num(facts, "vectorBytes");
      const files = `${figure(row, "fileBytes", whole)}${Number.isNaN(times) ? "" : ` (${times.toFixed(2)})`}`;
      const index = figure(row, "bytes", whole);
      return [title, bold(row), index, files, figure(row, "processBytes", whole)];
    }),
  );
  return `## Bytes for each record

Index: its codes and links, or its postings and lengths. Files: all that the engine has in its directory, records and vectors included; in brackets: how many times the bytes of the vectors; a dash: it keeps none, or they were not measured. Process: by how much it has grown, after the searches; of engines that map their files, with the pages that were read.

${table(["records", "engine", "index", "files", "process"], rows)}
`;
}

// Growth

type Curve = {
  readonly subject: string;
  readonly engine: string;
  readonly isOurs: boolean;
  readonly at: string;
  readonly steps: readonly { readonly count: number; readonly row: Row }[];
};

function curves(): Curve[] {
  const runs = stored("growth");
  const subjects = [...new Set(runs.map(({ key }) => key.replace(/-\d+$/, "")))];
  return subjects.flatMap((subject) => {
    const own = runs
      .filter(({ key }) => key.replace(/-\d+$/, "") === subject)
      .map(({ options, rows }) => ({ count: num(options, "rows"), rows }))
      .toSorted((a, b) => a.count - b.count);
    const engines = [...new Set(own.flatMap(({ rows }) => rows.map(({ engine }) => String(engine))))];
    return engines.map((engine) => {
      const steps = own.flatMap(({ count, rows }) =>
        rows.filter((row) => row.engine === engine).map((row) => ({ count, row })),
      );
      const at = steps[0].row["cpuMs@0.95"] === undefined ? "" : "@0.95";
      return { subject, engine, isOurs: isOurs(steps[0].row), at, steps };
    });
  });
}

const costs = ({ steps, at }: Curve): (readonly [number, number])[] =>
  steps.map(({ count, row }) => [count, num(row, `cpuMs${at}`)] as const);

const isDrawn = ({ subject, engine, isOurs: ours }: Curve): boolean =>
  !subject.endsWith("-index") && (!ours || engine === "Quiver, the whole engine");

function growthChart(all: readonly Curve[]): string {
  const series = all.filter(isDrawn).map((curve): Series => {
    const name = shortName({ engine: curve.engine }).replace("Quiver, the whole engine", "Quiver");
    const where = curve.at === "" ? "" : ` at ${curve.at.slice(1)}`;
    return { title: `${curve.subject}${where}, ${name}`, isOurs: curve.isOurs, points: costs(curve) };
  });
  const points = series.flatMap((each) => each.points);
  const counts = points.map(([count]) => count);
  const values = points.map(([, value]) => value);
  const [from, to] = [Math.min(...counts), Math.max(...counts)];
  const ticks = logarithmicTicks(Math.min(...values), Math.max(...values));
  return chart(
    "CPU time a query as a collection grows",
    { title: "records", from, to, isLogarithmic: true, ticks: logarithmicTicks(from, to) },
    {
      title: "CPU ms a query",
      from: ticks[0].value,
      to: ticks[ticks.length - 1].value,
      isLogarithmic: true,
      ticks,
    },
    series,
  );
}

const lineTitles: Readonly<Record<string, string>> = { "dense-words": "dense, generated words" };

function growthSection(all: readonly Curve[]): string {
  const rows = all.filter(isDrawn).map((curve) => {
    const known = costs(curve);
    const [first, last] = [known[0], known[known.length - 1]];
    const { slope } = fit(
      known.map(([count]) => Math.log10(count)),
      known.map(([, cost]) => Math.log10(cost)),
    );
    const { row, count } = curve.steps[curve.steps.length - 1];
    const cost = (each: Row): string => figure(each, `cpuMs${curve.at}`, ms);
    const own = all
      .find((each) => isDrawn(each) && each.isOurs && each.subject === curve.subject)
      ?.steps.find((step) => step.count === count)?.row;
    // Recorded with more digits than the costs.
    const power = Number(row[`growthPower${curve.at}`] ?? slope);
    return [
      `${lineTitles[curve.subject] ?? curve.subject}: ${bold({ engine: curve.engine, ours: curve.isOurs })}`,
      `${whole(first[0])} to ${whole(last[0])}`,
      `${cost(curve.steps[0].row)} to ${cost(row)}`,
      `N^${power.toFixed(2)}`,
      `${figure(row, "loadCpuUs", whole)}${ofOurs(row, own, "loadCpuUs")}`,
      figure(row, "processBytes", whole),
      figure(row, "fileBytes", whole),
    ];
  });
  const titles = ["engine", "records", "CPU ms", "growth", "load: CPU µs", "memory: bytes", "files: bytes"];
  return `## Growth

CPU time for each query while a collection grows: vectors of 100 numbers at a recall of 0.95, passages made of dictionary words, sparse vectors of 120 entries. Load, memory and files are for each record, at the largest size; in brackets: divided by Quiver's at that size. Memory includes pages of mapped files.

![CPU time for each query as a collection grows](${chartPath})

${table(titles, rows)}
`;
}

// Where we lose

const lostText = ({ lost, compared }: Loss): string => (compared === 1 ? "" : `, ${lost} of ${compared}`);

/** Servers: a line for each figure, a column for each set. */
function serverLosses(all: readonly Loss[]): string {
  const sets = [...new Set(all.map(({ where }) => where))];
  const figures = [...new Set(all.map((loss) => loss.figure))];
  const rows = figures.map((name) => [
    name,
    ...sets.map((where) => {
      const loss = all.find((each) => each.where === where && each.figure === name);
      return loss === undefined ? "-" : `${loss.best}${lostText(loss)}`;
    }),
  ]);
  return table([serversWhere, ...sets.map((where) => where.slice(serversWhere.length + 2))], rows);
}

/** The others: a line for each kind of search, and in it each figure. */
function otherLosses(all: readonly Loss[]): string {
  const rows = Map.groupBy(all, ({ where }) => where)
    .entries()
    .map(([where, own]) => [
      where,
      own.map((loss) => `${loss.figure}: ${loss.best}${lostText(loss)}`).join("<br>"),
    ])
    .toArray();
  return table(["in process", "better"], rows);
}

function lossesSection(): string {
  const lost = losses();
  const isServers = ({ where }: Loss): boolean => where.startsWith(serversWhere);
  return `## Where we lose

Every figure in which a rival is better: the best rival, by what factor, how many other rivals are better in brackets, and in how many comparisons. Quiver is the whole engine where that was measured, else the index alone.

${serverLosses(lost.filter(isServers))}

${otherLosses(lost.filter((loss) => !isServers(loss)))}
`;
}

// Raw results

/** What each file holds, in the order of the page. */
const files: readonly (readonly [benchmark: string, what: string])[] = [
  ["servers", "Quiver's server beside Redis, PostgreSQL and Chroma"],
  ["dense", "HNSW beside rivals, by recall"],
  ["sparse", "sparse search beside rivals, by threshold"],
  ["sparse-shapes", "sparse search beside a plain loop, by shape of the data"],
  ["text", "BM25 beside rivals"],
  ["filters", "filtered search at every share, beside rivals"],
  ["growth", "10,000 to 1,000,000 records; text to 2,000,000"],
  ["ingest", "writing through REST, by form of the body"],
  ["memory", "what a server's memory consists of"],
  ["rest", "a search through REST beside node:http alone"],
  ["agent", "searches through REST while 500 records a second are written"],
  ["overhead", "a search in process beside its index alone"],
  ["versions", "what kept versions cost, today and at earlier versions"],
  ["threads", "one serving thread, one a core, and the default"],
  ["cluster", "a cluster of one to three nodes on one machine, and what happens when a part ends"],
  ["dense-start", "start with 990,000 vectors"],
  ["dense-lasting", "a graph in which every vector was replaced 3 times"],
  ["text-start", "build and restart with 1,000,000 passages"],
  ["short", "the short form of the others"],
];

function filesSection(): string {
  const rows = files.flatMap(([benchmark, what]) => {
    const runs = stored(benchmark);
    if (runs.length === 0) return [];
    const days = runs.map(({ date }) => date).sort();
    const machines = runs.map(({ machine }) => /EPYC|Xeon/.exec(machine)?.[0] ?? machine.split(",")[0]);
    const known = machines.map((machine) => machine.replace(/^not recorded$/, "machine not recorded"));
    const dates = [...new Set([days[0], days[days.length - 1]])].join(" to ");
    return [`- ${link(benchmark)}: ${what} (${dates}, ${[...new Set(known)].join(", ")})`];
  });
  return `## Raw results

\`npm run bench NAME\` repeats a benchmark, and writes its file and this page; \`npm run bench\` names all. Each file has the commit, the options, and the use of every engine. In brackets: when and on which machine.

${rows.join("\n")}
`;
}

// The page

const method = `# Benchmarks

Quiver beside other engines and servers. Within a benchmark, all have the same machine and data. \`npm run bench page\` writes this page from [bench/results](../bench/results); do not edit it.

- **Machine.** An AMD EPYC or an Intel Xeon ([by benchmark](#raw-results)), 2 cores if recorded, Node.js 24. The machine is shared: trust ratios more than milliseconds.
- **Rounds.** Each engine has a process of its own. All answer the same queries, one engine after the other. The first round warms up; figures are medians of the others, [least–greatest] where recorded (not before 2026-11-29).
- **CPU time** is the sum over all threads of an engine or a server, for each query. **Latency** is what the client sees.
- **Recall** is recall@10 against exact search. The cost at a recall is interpolated between beam widths (ef). If the narrowest beam exceeds the recall, its cost is given.
- **zvec** runs in the process that uses it, so it is not among the servers. It is not beside sparse vectors by shape, where a query takes it 38 ms, nor in the lines of growth before 2026-11-29.
- **Goals**, and which are missed: [goals of speed](decisions/goals-of-speed.md).
- **Graphs** have M = 16 and ef_construction = 200 (benchmark of filters: 128) in every engine that can set them.
`;

function pageOf(): { page: string; chart: string | undefined } {
  const [servers, dense, sparse, text, filters] = ["servers", "dense", "sparse", "text", "filters"].map(
    stored,
  );
  const grown = curves();
  const rest = [restTable(), agentTable()].filter((each) => each !== "");
  const weighed = [...dense, ...text, ...sparse].filter(hasFiles);
  const sections = [
    ...(servers.length > 0 ? [serversSection(servers)] : []),
    ...(rest.length > 0 ? [`## REST\n\n${rest.join("\n")}`] : []),
    inProcessSection(dense, sparse, text),
    buildsSection(dense, sparse, text),
    ...(filters.length > 0 ? [filtersSection(filters, servers)] : []),
    ingestSection(servers),
    ...(weighed.length > 0 ? [bytesSection(weighed)] : []),
    ...(grown.length > 0 ? [growthSection(grown)] : []),
    lossesSection(),
    filesSection(),
  ];
  return {
    page: [method, ...sections].join("\n"),
    chart: grown.length > 0 ? growthChart(grown) : undefined,
  };
}

/** Writes the page and its chart. */
export function writePage(): void {
  const { page, chart: svg } = pageOf();
  writeFileSync(join(docs, "benchmarks.md"), page);
  if (svg === undefined) return;
  mkdirSync(dirname(join(docs, chartPath)), { recursive: true });
  writeFileSync(join(docs, chartPath), svg);
}

if (import.meta.main) writePage();
