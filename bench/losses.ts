// Where is a rival better, and by what factor?

import { bestRival, isOurs, isRival, isWhole, num, span } from "./figures.ts";
import { type Row, type Run, stored } from "./shared/results.ts";
import { whole } from "./shared/table.ts";

export type Loss = { readonly where: string; readonly figure: string; readonly rivals: string };

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

/** The rivals that are better, best first, with their factors. @param own the row that they are compared with */
function better(own: Row | undefined, rivals: readonly Row[], { name, isMore }: Figure): [string, number][] {
  if (own?.[name] === undefined) return [];
  return rivals
    .filter((row) => row[name] !== undefined)
    .map((row): [string, number] => {
      const ratio = num(own, name) / num(row, name);
      return [shortName(row), isMore ? 1 / ratio : ratio];
    })
    .filter(([, factor]) => factor > 1)
    .sort(([, a], [, b]) => b - a);
}

/** A cost that rounds to zero has no factor. */
const factorText = (factor: number): string => (Number.isFinite(factor) ? factor.toFixed(2) : "(0 measured)");

/** The best rival, and how many others are better than Quiver. */
const told = ([first, ...others]: readonly [string, number][]): string =>
  `${first[0]} ${factorText(first[1])}${others.length === 0 ? "" : ` (+${others.length})`}`;

/** One line for what was compared under several conditions. */
function lossesOf(
  where: string,
  figure: string,
  conditions: readonly { readonly title: string; readonly better: readonly [string, number][] }[],
): Loss[] {
  const lost = conditions.filter((each) => each.better.length > 0);
  if (lost.length === 0) return [];
  const names = new Set(lost.flatMap((each) => each.better.map(([name]) => name)));
  if (lost.length > 2 && names.size === 1) {
    const factors = lost.flatMap((each) => each.better.map(([, factor]) => factor));
    const [first, last] = [lost[0].title, lost[lost.length - 1].title];
    return [{ where, figure, rivals: `${[...names][0]} ${span(factors)} (${first} to ${last})` }];
  }
  const rivals = lost.map(({ title, better: all }) => (title === "" ? told(all) : `${title}: ${told(all)}`));
  return [{ where, figure, rivals: rivals.join("; ") }];
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
          const filter = share < 1 ? `${100 * share} %, ` : "";
          return { title: `${filter}${wanted}`, better: better(mine, rivals, figure) };
        }),
      ),
    );
  const load = (name: string, figureTitle: string, isMore?: boolean): Loss[] =>
    lossesOf(where, figureTitle, [
      { title: "", better: better(own, rows.filter(isRival), { name, title: figureTitle, isMore }) },
    ]);
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

/** Runs of one kind, which are told together: their conditions are their titles. */
function searches(where: string, runs: readonly { title: string; rows: readonly Row[] }[]): Loss[] {
  return inProcess.flatMap((figure) =>
    lossesOf(
      where,
      figure.title,
      runs.map(({ title, rows }) => ({
        title,
        better: better(ownOf(rows, figure), rows.filter(isRival), figure),
      })),
    ),
  );
}

const growth = (name: string): Loss[] =>
  searches(
    `Growth, ${name}`,
    stored("growth")
      .filter(({ key }) => new RegExp(`^${name}-\\d+$`).test(key))
      .map(({ options, rows }) => ({ title: whole(num(options, "rows")), rows })),
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
          const what =
            point.filter === "none" ? "no filter" : `${100 * num(point, "share")} % ${point.filter}`;
          const rivals = rival === undefined ? [] : [rival];
          return { title: what, better: better(point, rivals, { name: "cpuMs", title: "CPU" }) };
        }),
    ),
  );
}

/** The shapes on which the plain loop is faster than the whole engine, and with how many lengths of a query. */
function shapes(): Loss[] {
  const runs = stored("sparse-shapes");
  return ["", "@0.95"].flatMap((at): Loss[] => {
    const lost = runs
      .map(({ key, rows }) => ({
        key,
        factors: rows.map((row) => 1 / num(row, `wholeTimes${at}`)).filter((factor) => factor > 1),
      }))
      .filter(({ factors }) => factors.length > 0);
    if (lost.length === 0) return [];
    const rivals = `plain loop ${lost.map(({ key, factors }) => `${span(factors)} (${key})`).join(", ")}`;
    return [
      { where: "Sparse, by shape", figure: at === "" ? "CPU, exact" : `CPU at ${at.slice(1)}`, rivals },
    ];
  });
}

/** Every figure of which some rival has a better one. */
export const losses = (): Loss[] => [
  ...stored("servers").flatMap(servers),
  ...searches(
    "Dense, index alone",
    stored("dense").map(({ key, rows }) => ({ title: key, rows })),
  ),
  ...searches(
    "Sparse",
    stored("sparse").map(({ key, rows }) => ({ title: key, rows })),
  ),
  ...searches(
    "Text",
    stored("text").map(({ key, rows }) => ({ title: key, rows })),
  ),
  ...shapes(),
  ...stored("filters").flatMap(filters),
  ...["dense", "text", "sparse"].flatMap(growth),
];
