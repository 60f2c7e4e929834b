// Where is a rival better, and by what factor?

import { bestRival, isOurs, isRival, isWhole, num } from "./figures.ts";
import { type Row, type Run, stored } from "./shared/results.ts";

export type Loss = {
  readonly where: string;
  readonly figure: string;
  /** The rival with the greatest factor of all comparisons, and how many others are better, too. */
  readonly best: string;
  /** In how many of the comparisons some rival is better. */
  readonly lost: number;
  readonly compared: number;
};

/** How `where` begins of losses to servers. */
export const serversWhere = "servers";

/** Without version and details. */
export const shortName = (row: Row): string =>
  String(row.engine ?? row.server)
    .replace(/ \(.*| \d+\.\d+\.\d+/g, "")
    .replace("Redis vector set,", "Redis")
    .replace("PostgreSQL, pgvector HNSW", "pgvector")
    .replace("plain JavaScript loop", "plain loop");

type Figure = { readonly name: string; readonly title: string; readonly isMore?: boolean };

/** The rivals that are better in one comparison, with their factors. Undefined if there is nothing to compare. */
type Better = readonly (readonly [string, number])[] | undefined;

/** @param own the row that the rivals are compared with */
function better(own: Row | undefined, rivals: readonly Row[], { name, isMore }: Figure): Better {
  const measured = rivals.filter((row) => row[name] !== undefined);
  if (own?.[name] === undefined || measured.length === 0) return undefined;
  return measured
    .map((row): [string, number] => {
      const ratio = num(own, name) / num(row, name);
      return [shortName(row), isMore ? 1 / ratio : ratio];
    })
    .filter(([, factor]) => factor > 1);
}

/** A cost that rounds to zero has no factor. */
const factorText = (factor: number): string => (Number.isFinite(factor) ? factor.toFixed(2) : "(0 measured)");

/** Factors that are known come first. */
const rank = ([, factor]: readonly [string, number]): number => (Number.isFinite(factor) ? factor : 0);

/** What was compared under several conditions, told together. */
function lossesOf(where: string, figure: string, conditions: readonly Better[]): Loss[] {
  const compared = conditions.filter((each) => each !== undefined);
  const lost = compared.filter((each) => each.length > 0);
  if (lost.length === 0) return [];
  const [[name, factor]] = lost.flat().toSorted((a, b) => rank(b) - rank(a));
  const others = new Set(lost.flat().map(([rival]) => rival)).size - 1;
  const best = `${name} ${factorText(factor)}${others === 0 ? "" : ` (+${others})`}`;
  return [{ where, figure, best, lost: lost.length, compared: compared.length }];
}

function servers({ key, rows, points = [] }: Run): Loss[] {
  const where = `${serversWhere}, ${key.split("-")[0]}`;
  const names = new Set(rows.filter(isRival).map(({ server }) => server));
  const own = rows.find(isOurs);
  const ofPoints = (asked: readonly { share: number; clients: number }[], figure: Figure): Loss[] =>
    lossesOf(
      where,
      figure.title,
      asked.flatMap(({ share, clients }) =>
        [0.95, 0.99].map((wanted) => {
          const same = points.filter(
            (each) => each.share === share && each.clients === clients && each.wanted === wanted,
          );
          const rivals = same.filter(({ server }) => names.has(server));
          const mine = same.find(({ server }) => server === own?.server);
          return better(mine, rivals, figure);
        }),
      ),
    );
  const load = (name: string, figureTitle: string, isMore?: boolean): Loss[] =>
    lossesOf(where, figureTitle, [better(own, rows.filter(isRival), { name, title: figureTitle, isMore })]);
  const [one, eight] = [[{ share: 1, clients: 1 }], [{ share: 1, clients: 8 }]];
  const filtered = [0.1, 0.01].map((share) => ({ share, clients: 1 }));
  return [
    ...ofPoints(one, { name: "cpuMs", title: "CPU, 1 client" }),
    ...ofPoints(one, { name: "p50Ms", title: "p50, 1 client" }),
    ...ofPoints(one, { name: "p99Ms", title: "p99, 1 client" }),
    ...ofPoints(eight, { name: "cpuMs", title: "CPU, 8 clients" }),
    ...ofPoints(eight, { name: "p50Ms", title: "p50, 8 clients" }),
    ...ofPoints(eight, { name: "p99Ms", title: "p99, 8 clients" }),
    ...ofPoints(eight, { name: "perSecond", title: "searches a second, 8 clients", isMore: true }),
    ...ofPoints(filtered, { name: "cpuMs", title: "CPU with a filter" }),
    ...ofPoints(filtered, { name: "p50Ms", title: "p50 with a filter" }),
    ...ofPoints(filtered, { name: "p99Ms", title: "p99 with a filter" }),
    ...load("recordsPerSecond", "records a second", true),
    ...load("loadCpuS", "CPU to load"),
    ...load("filesMB", "files"),
    ...load("memoryMB", "memory"),
    ...load("mappedMB", "mapped files"),
  ];
}

const inProcess: readonly Figure[] = [
  { name: "cpuMs", title: "CPU" },
  { name: "cpuMs@0.95", title: "CPU at 0.95" },
  { name: "cpuMs@0.99", title: "CPU at 0.99" },
  { name: "p50Ms", title: "p50" },
  { name: "p99Ms", title: "p99" },
  { name: "p50Ms@0.95", title: "p50 at 0.95" },
  { name: "p99Ms@0.95", title: "p99 at 0.95" },
  { name: "buildCpuS", title: "CPU to build" },
  { name: "loadCpuUs", title: "CPU to load" },
  { name: "loadUs", title: "time to load" },
  { name: "bytes", title: "bytes of the index" },
  { name: "processBytes", title: "memory of the process" },
  { name: "fileBytes", title: "files" },
];

/** The row that rivals are compared with: the whole engine, or the index alone where the engine has no such figure. */
const ownOf = (rows: readonly Row[], { name }: Figure): Row | undefined => {
  const known = rows.filter((row) => isOurs(row) && row[name] !== undefined);
  return known.find(isWhole) ?? known[0];
};

/** Runs of one kind, which are told together. */
function searches(where: string, runs: readonly Run[]): Loss[] {
  return inProcess.flatMap((figure) =>
    lossesOf(
      where,
      figure.title,
      runs.map(({ rows }) => better(ownOf(rows, figure), rows.filter(isRival), figure)),
    ),
  );
}

const growth = (name: string): Loss[] =>
  searches(
    `Growth, ${name}`,
    stored("growth").filter(({ key }) => new RegExp(`^${name}-\\d+$`).test(key)),
  );

function filters(run: Run): Loss[] {
  const { title, points = [] } = run;
  const name = title.replace(/^[\d,]+ x .*/, "dense").split(/[ ,]/)[0];
  return ["Quiver, the whole engine", "Quiver, each filter new"].flatMap((engine) =>
    lossesOf(
      `Filters, ${name}${engine.endsWith("new") ? ", each filter new" : ""}`,
      "CPU",
      points
        .filter((point) => point.engine === engine)
        .map((point) => {
          const rival = bestRival(run, String(point.filter), num(point, "share"));
          return better(point, rival === undefined ? [] : [rival], { name: "cpuMs", title: "CPU" });
        }),
    ),
  );
}

/** Shapes of sparse data, each with several lengths of a query, beside the plain loop. */
const shapes = (): Loss[] =>
  ["", "@0.95"].flatMap((at) =>
    lossesOf(
      "Sparse, by shape",
      at === "" ? "CPU, exact" : `CPU at ${at.slice(1)}`,
      stored("sparse-shapes").flatMap(({ rows }) =>
        rows.map((row): Better => {
          const factor = 1 / num(row, `wholeTimes${at}`);
          return factor > 1 ? [["plain loop", factor]] : [];
        }),
      ),
    ),
  );

/** Every figure of which some rival has a better one. */
export const losses = (): Loss[] => [
  ...stored("servers").flatMap(servers),
  ...searches("Dense, index alone", stored("dense")),
  ...searches("Sparse", stored("sparse")),
  ...searches("Text", stored("text")),
  ...shapes(),
  ...stored("filters").flatMap(filters),
  ...["dense", "text", "sparse"].flatMap(growth),
];
