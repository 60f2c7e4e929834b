// Which goals are there, and are they reached?
//
// Each goal is computed from the stored results. A goal whose benchmark was never run is left out. Runs before 2026-11-26 are stored with
// fewer digits; where a ratio was recorded with them, as one of their facts, it counts.

import { type Row, type Run, stored } from "./shared/results.ts";

export type Goal = {
  readonly wanted: string;
  readonly figure: string;
  readonly isMet: boolean;
};

const goalOf = (wanted: string, figure: string, isMet: boolean): Goal => ({ wanted, figure, isMet });

export const num = (row: Row | undefined, name: string): number => Number(row?.[name] ?? Number.NaN);
export const isOurs = (row: Row): boolean => row.ours === true;
export const isRival = (row: Row): boolean => !isOurs(row) && row.bare !== true;
export const isWhole = ({ engine }: Row): boolean => engine === "Quiver, the whole engine";
export const isIndexAlone = ({ engine }: Row): boolean => engine === "Quiver u8, index alone";

/** The row with the least of a figure. */
export const least = (rows: readonly Row[], name: string): Row | undefined =>
  rows
    .filter((row) => row[name] !== undefined)
    .toSorted((a, b) => num(a, name) - num(b, name))
    .at(0);

export const span = (values: readonly number[], digits = 2): string => {
  const [from, to] = [Math.min(...values), Math.max(...values)].map((value) => value.toFixed(digits));
  return from === to ? from : `${from} to ${to}`;
};

const runsOf = (benchmark: string, prefix = ""): Run[] =>
  stored(benchmark).filter(({ key }) => key.startsWith(prefix));
const runOf = (benchmark: string, key: string): Run | undefined =>
  stored(benchmark).find((run) => run.key === key);

/** How many times Quiver's best the best rival costs; figures of Quiver's best are 1. */
export const timesOfRival = ({ rows }: Run, at: string): number =>
  num(least(rows.filter(isRival), `cpuMs${at}`), `times${at}`);

function dense(): Goal[] {
  const benchmark = "dense";
  const runs = runsOf(benchmark);
  if (runs.length === 0) return [];
  const hnswlib = (key: string): Row | undefined =>
    runOf(benchmark, key)?.rows.find(({ engine }) => String(engine).startsWith("hnswlib"));
  const ratios = runs.flatMap((run) => ["@0.95", "@0.99"].map((at) => timesOfRival(run, at)));
  const words = ["@0.95", "@0.99"].map((at) => num(hnswlib("glove-cosine"), `times${at}`));
  const wide = num(hnswlib("clusters768"), "times@0.99");
  const builds = runs.map(({ key, rows, facts }) =>
    Number(
      facts?.buildTimesHnswlib ?? num(rows.find(isIndexAlone), "buildCpuS") / num(hnswlib(key), "buildCpuS"),
    ),
  );
  return [
    goalOf(
      "Dense index alone: 3 times the best rival, on every set, at 0.95 and 0.99",
      `${span(ratios)} times`,
      ratios.every((ratio) => ratio >= 3),
    ),
    goalOf(
      "Dense index alone: 4.2 times hnswlib-node on word vectors, at 0.95 and 0.99",
      `${words.map((ratio) => ratio.toFixed(2)).join(" and ")} times`,
      words.every((ratio) => ratio >= 4.2),
    ),
    goalOf(
      "Dense index alone: 8 times hnswlib-node on 768 dimensions, at 0.99",
      `${wide.toFixed(2)} times`,
      wide >= 8,
    ),
    goalOf(
      "Dense index alone: at most 0.5 of hnswlib-node's CPU time to build",
      `${span(builds)} (${builds.filter((ratio) => ratio > 0.5).length} of ${builds.length} sets above)`,
      builds.every((ratio) => ratio <= 0.5),
    ),
  ];
}

function growth(): Goal[] {
  const runs = runsOf("growth", "dense-index-");
  const [first, last] = [runs[0], runs[runs.length - 1]];
  if (first === undefined) return [];
  const wanted = Math.log10(num(last.options, "rows")) / Math.log10(num(first.options, "rows"));
  const times = ["@0.95", "@0.99"].map(
    (at) => num(last.rows[0], `cpuMs${at}`) / num(first.rows[0], `cpuMs${at}`),
  );
  return [
    goalOf(
      `Dense index alone: grows as log N, ${wanted.toFixed(2)} times from 10,000 to 1,000,000 vectors`,
      `${times.map((each) => each.toFixed(1)).join(" and ")} times, at 0.95 and 0.99`,
      times.every((each) => each <= 1.1 * wanted),
    ),
  ];
}

/** Below this recall a filtered search is no rival at that point. */
const filterRecallMin = 0.9;

/** The best rival among the points of one filter and share. */
export function bestRival({ rows, points = [] }: Run, filter: string, share: number): Row | undefined {
  const rivals = new Set(rows.filter(isRival).map(({ engine }) => engine));
  const known = points.filter(
    (each) =>
      each.filter === filter &&
      each.share === share &&
      rivals.has(each.engine) &&
      num(each, "recall") >= filterRecallMin,
  );
  return least(known, "cpuMs");
}

function filters(): Goal[] {
  const benchmark = "filters";
  const run = runOf(benchmark, "clusters");
  if (run === undefined) return [];
  const all = run.points ?? [];
  const own = all.filter((each) => isWhole(each) && each.filter !== "none");
  const lost = own.flatMap((point) => {
    const rival = bestRival(run, String(point.filter), num(point, "share"));
    return rival !== undefined && num(rival, "cpuMs") < num(point, "cpuMs")
      ? [`${100 * num(point, "share")} % ${point.filter}`]
      : [];
  });
  const base = num(
    all.find((each) => isWhole(each) && each.filter === "none"),
    "cpuMs",
  );
  const multiples = (engine: string, what: string, recorded: unknown): Goal => {
    const times = all
      .filter((each) => each.engine === engine && each.filter !== "none" && num(each, "share") >= 0.1)
      .map((each) => num(each, "cpuMs") / base);
    return goalOf(
      `Dense filters ${what}: at most 1.5 times the search without one, from 100 % to 10 %`,
      `${recorded ?? span(times)} times`,
      times.every((each) => each <= 1.5),
    );
  };
  const recalls = own.map((each) => num(each, "recall"));
  return [
    goalOf(
      "Dense filters: less CPU time than every rival, at every filter and share",
      lost.length === 0 ? "at every point" : `not at ${lost.join(", ")}`,
      lost.length === 0,
    ),
    goalOf(
      "Dense filters: recall@10 of at least 0.98, at every filter and share",
      `at least ${Math.min(...recalls).toFixed(3)}`,
      Math.min(...recalls) >= 0.98,
    ),
    multiples("Quiver, the whole engine", "that were asked before", run.facts?.askedBeforeTimes),
    multiples("Quiver, each filter new", "that are new each time", run.facts?.newTimes),
  ];
}

function sparse(): Goal[] {
  const sets = runsOf("sparse").map(({ title, rows }) => ({
    name: title.split(/[,(]/)[0].trim(),
    loop: rows.find(({ engine }) => engine === "plain JavaScript loop"),
  }));
  if (sets.length === 0) return [];
  return [
    { at: "", what: "exact", wanted: 5 },
    { at: "@0.95", what: "at 0.95", wanted: 15 },
  ].map(({ at, what, wanted }): Goal => {
    const times = sets.map(({ loop }) => num(loop, `times${at}`));
    return goalOf(
      `Sparse index alone, ${what}: ${wanted} times the plain loop`,
      sets.map(({ name }, i) => `${times[i].toFixed(2)} (${name})`).join(", "),
      times.every((each) => each >= wanted),
    );
  });
}

function shapes(): Goal[] {
  const cells = runsOf("sparse-shapes").flatMap(({ rows }) => rows);
  if (cells.length === 0) return [];
  return [
    { at: "", what: "exact", wanted: 3 },
    { at: "@0.95", what: "at 0.95", wanted: 8 },
  ].flatMap(({ at, what, wanted }) =>
    (["whole", "index"] as const).map((part): Goal => {
      const ratios = cells.map((row) => num(row, `${part}Times${at}`));
      const met = ratios.filter((ratio) => ratio >= wanted).length;
      return goalOf(
        `Sparse ${part === "whole" ? "whole engine" : "index alone"}, ${what}: ${wanted} times the plain loop, on each shape`,
        `${span(ratios)} times; on ${met} of ${ratios.length}`,
        met === ratios.length,
      );
    }),
  );
}

function text(): Goal[] {
  const benchmark = "text";
  const sets = runsOf(benchmark).map(({ title, rows, facts }) => {
    const [ours, rivals] = [rows.filter(isOurs), rows.filter(isRival)];
    const [own, rival, builder] = [least(ours, "cpuMs"), least(rivals, "cpuMs"), least(rivals, "buildCpuS")];
    return {
      name: title.split(/[:,]/)[0],
      share: num(own, "cpuMs") / num(rival, "cpuMs"),
      isExact: num(own, "recall") === 1,
      build: Number(facts?.buildTimesBestRival ?? num(own, "buildCpuS") / num(builder, "buildCpuS")),
    };
  });
  if (sets.length === 0) return [];
  const told = (of: (set: (typeof sets)[number]) => number): string =>
    sets.map((set) => `${of(set).toFixed(2)} (${set.name})`).join(", ");
  return [
    goalOf(
      "Text index alone: at most 0.5 of the best rival's CPU time, with the exact ten",
      told(({ share }) => share),
      sets.every(({ share, isExact }) => share <= 0.5 && isExact),
    ),
    goalOf(
      "Text index alone: the fastest build, as times that of the fastest rival",
      told(({ build }) => build),
      sets.every(({ build }) => build < 1),
    ),
  ];
}

function rest(): Goal[] {
  const rows = runOf("rest", "all")?.rows ?? [];
  const few = rows.filter(
    (row) => num(row, "records") === Math.min(...rows.map((each) => num(each, "records"))),
  );
  const [numbers, base64] = ["numbers", "base64"].map((form) => few.find((row) => row.form === form));
  const goal = (row: Row | undefined, name: string, most: number, what: string): Goal[] =>
    row === undefined
      ? []
      : [
          goalOf(
            `REST, vector as ${row.form}, without the search: at most ${most} times ${what}`,
            `${num(row, name).toFixed(2)} times`,
            num(row, name) <= most,
          ),
        ];
  return [
    ...goal(numbers, "ratioWithoutSearch", 1.5, "node:http alone"),
    ...goal(base64, "ratioToNumbersWithoutSearch", 1.2, "node:http alone with numbers"),
    ...goal(base64, "ratioWithoutSearch", 1.2, "node:http alone"),
  ];
}

function ingest(): Goal[] {
  const rows = (runOf("ingest", "bodies")?.rows ?? []).filter(({ form }) => form === "JSON, numbers");
  if (rows.length === 0) return [];
  const [streamed, staged] = ["streamed", "in a transaction"].map((how) =>
    rows.find(({ written }) => written === how),
  );
  const times = num(runOf("ingest", "single")?.facts, "timesOneClient");
  const [parse, files] = [num(streamed, "cpuTimesParse"), num(staged, "filesTimesVectors")];
  return [
    goalOf(
      "Ingest of JSON numbers: at most 2 times the CPU time of JSON.parse",
      `${parse.toFixed(2)} times`,
      parse <= 2,
    ),
    goalOf(
      "After a transaction: files of at most 1.3 times the vectors",
      `${files.toFixed(2)} times`,
      files <= 1.3,
    ),
    goalOf(
      "64 clients write single records at more than 10 times the rate of one",
      `${times.toFixed(1)} times`,
      times > 10,
    ),
  ];
}

function overhead(): Goal[] {
  const rows = runOf("overhead", "all")?.rows ?? [];
  if (rows.length === 0) return [];
  const more = rows.map((row) => num(row, "moreUs"));
  const most = 15;
  return [
    goalOf(
      `A search in process costs at most ${most} µs besides its index`,
      `${span(more, 1)} µs; missed by ${more.filter((us) => us > most).length} of ${more.length} searches`,
      more.every((us) => us <= most),
    ),
  ];
}

function threads(): Goal[] {
  const benchmark = "threads";
  const goal = (
    key: string,
    threadsOf: (row: Row) => boolean,
    name: string,
    most: number,
    wanted: string,
  ) => {
    const values = (runOf(benchmark, key)?.rows ?? []).filter(threadsOf).map((row) => num(row, name));
    if (values.length === 0) return [];
    const greatest = Math.max(...values);
    return [{ wanted, figure: `up to ${greatest} times`, isMet: greatest <= most }];
  };
  return [
    ...goal(
      "work",
      (row) => row.threads === "default",
      "serverTimes",
      1.1,
      "Default serving threads: at most 1.1 times the CPU time of one",
    ),
    ...goal(
      "load",
      () => true,
      "p99Times",
      2,
      "p99 of searches during a bulk load: at most 2 times that of a quiet server",
    ),
  ];
}

/** All goals, by benchmark. */
export const goals = (): Goal[] =>
  [dense, growth, filters, sparse, shapes, text, rest, ingest, overhead, threads].flatMap((each) => each());
