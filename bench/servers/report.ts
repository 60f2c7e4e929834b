// How does docs/benchmarks-servers.md tell what the servers cost?
//
//   node tools/launch.mjs run bench/servers/report.ts     the page and its pictures, from the stored results

import { bars } from "../shared/bars.ts";
import { head, line, ms, whole, writeDocument } from "../shared/report.ts";
import { keptResults } from "../shared/results.ts";
import { shares } from "./data.ts";
import { k, recalls, type Searches, type ServerResult, type ServersResult } from "./measure.ts";

const titleCell = ({ title, isOurs }: ServerResult): string => (isOurs ? `**${title}**` : title);

const mb = (bytes: number): string => (bytes / 1e6).toFixed(1);

const searchesOf = (
  { searches }: ServerResult,
  share: number,
  recall: number,
  clients: number,
): Searches | undefined =>
  searches.find((each) => each.share === share && each.recall === recall && each.clients === clients);

/** Processor time of the server, and how many times that of Quiver. */
function cpuCell(
  result: ServersResult,
  server: ServerResult,
  share: number,
  recall: number,
  clients: number,
): string {
  const own = result.servers.find(({ isOurs }) => isOurs);
  const found = searchesOf(server, share, recall, clients);
  if (found === undefined) return "-";
  const base = own && searchesOf(own, share, recall, clients);
  return `${ms(found.cpuMs)}${base === undefined || own === server ? "" : ` (${(found.cpuMs / base.cpuMs).toFixed(2)})`}`;
}

const times = ({ p50Ms, p99Ms }: Searches): string => `${p50Ms.toFixed(2)}, ${p99Ms.toFixed(2)}`;

function searchTable(result: ServersResult, recall: number): string {
  const titles = ["server", "beam", `recall@${k}`, "1 client: CPU ms", "p50, p99 ms"];
  titles.push("8 clients: CPU ms", "p50, p99 ms", "a second");
  const lines = result.servers.map((server) => {
    const [one, eight] = [1, 8].map((clients) => searchesOf(server, 1, recall, clients));
    if (one === undefined || eight === undefined)
      return line([titleCell(server), "not reached", ...titles.slice(2).map(() => "-")]);
    const { reached } = one;
    return line([
      titleCell(server),
      reached === undefined ? "-" : String(reached.effort),
      reached === undefined ? "-" : reached.recall.toFixed(3),
      cpuCell(result, server, 1, recall, 1),
      times(one),
      cpuCell(result, server, 1, recall, 8),
      times(eight),
      whole(eight.perSecond),
    ]);
  });
  return `${head(titles)}\n${lines.join("\n")}`;
}

function filterTable(result: ServersResult): string {
  const columns = shares
    .filter((share) => share < 1)
    .flatMap((share) => recalls.map((recall) => ({ share, recall })));
  const titles = columns.map(({ share, recall }) => `${100 * share} % match, at ${recall}`);
  const lines = result.servers
    .filter(({ isBare }) => !isBare)
    .map((server) => {
      const cells = columns.map(({ share, recall }) => {
        const found = searchesOf(server, share, recall, 1);
        if (found?.reached === undefined) return "not reached";
        return `${cpuCell(result, server, share, recall, 1)}<br>${times(found)}`;
      });
      return line([titleCell(server), ...cells]);
    });
  return `${head(["server", ...titles])}\n${lines.join("\n")}`;
}

function loadTable({ rowCount, servers }: ServersResult): string {
  const titles = ["server", "records a second", "CPU s", "files, MB", "memory, MB", "mapped files, MB"];
  const lines = servers.map((server) => {
    const { load, diskBytes, ownBytes, fileBytes, isBare } = server;
    const loaded = isBare
      ? ["-", "-", "-"]
      : [whole(rowCount / load.seconds), load.cpuS.toFixed(1), mb(diskBytes)];
    return line([titleCell(server), ...loaded, mb(ownBytes), mb(fileBytes)]);
  });
  return `${head(titles)}\n${lines.join("\n")}`;
}

const pathOf = ({ set }: ServersResult): string => `images/servers-${set}.svg`;

/** Processor time at the first of the recalls, one client, of the servers that search. */
const pictureOf = (result: ServersResult): string =>
  bars(
    `${result.title}: ${whole(result.rowCount)} records`,
    `server CPU ms a query at a recall of ${recalls[0]}, one client`,
    result.servers.flatMap((server) => {
      const found = searchesOf(server, 1, recalls[0], 1);
      return found?.reached === undefined
        ? []
        : [{ title: server.title, isOurs: server.isOurs, value: found.cpuMs }];
    }),
  );

const footer = ({ queryCount, rounds, turnMs, day, processor, leftOut }: ServersResult): string => {
  const reasons = leftOut.map((reason) => `- Left out: ${reason}\n`).join("");
  return `${rounds} rounds of ${whole(turnMs)} ms, ${queryCount} queries, ${day}, ${processor}.\n${reasons === "" ? "" : `\n${reasons}`}`;
};

const searchTables = (result: ServersResult): string =>
  recalls
    .map((recall) => `Searches at a recall of ${recall}:\n\n${searchTable(result, recall)}\n`)
    .join("\n");

const filtersAndLoad = (result: ServersResult): string =>
  `With a filter on a number that is independent of the vectors, one client: CPU ms, and p50, p99 in milliseconds:

${filterTable(result)}

Loading, files and memory:

${loadTable(result)}
`;

const headingOf = ({ title, rowCount }: ServersResult): string => `## ${title}: ${whole(rowCount)} records`;

/** What was measured of one set and size, without its picture. */
export const shortSection = (result: ServersResult): string =>
  `#${headingOf(result)}\n\n${searchTables(result)}\n${filtersAndLoad(result)}\n${footer(result)}`;

/** What was measured of one set and size. */
export const sectionOf = (result: ServersResult): string => `${headingOf(result)}

${searchTables(result)}
![server CPU ms a query](${pathOf(result)})

${filtersAndLoad(result)}
${footer(result)}`;

/** Notes and versions of the servers, each once. */
export const notes = (results: readonly ServersResult[]): string =>
  [
    ...new Map(
      results.flatMap(({ servers }) =>
        servers.map(({ title, note, version }) => [title, `- **${title}** (${version}). ${note}`]),
      ),
    ).values(),
  ].join("\n");

/** The Markdown of the page. */
export const pageOf = (results: readonly ServersResult[]): string => `# The server beside other servers

Written by \`npm run bench servers -- --write\` ([bench/servers/main.ts](../bench/servers/main.ts)); do not edit. Servers on this machine, asked the same queries in turns over the loopback interface, each by its own public client, which runs on the same cores. CPU time is that of all processes of a server, per query, without the client; in brackets how many times that of Quiver. Latency is what the client sees, its own work included. For each server the least beam that reaches the recall was searched first, against the exact answer; all graphs have M = 16 and ef_construction = 200, \`top_k\` is ${k}. Figures are medians of the rounds after one that warms up. Other work may share the machine: ratios are worth more than milliseconds.

Records are loaded by one client, 1,000 at a time, each with a number for the filters, until all are indexed. Files are those of the data directory then; memory is that of all processes after the searches, pages of mapped files apart.

${results.map(sectionOf).join("\n")}
## How the servers were run

PostgreSQL, Redis and the C library that Chroma's binding needs are those of Debian 13, in a directory of their own: Debian 12 has no pgvector, its Redis no vector sets.

${notes(results)}
`;

/** Writes the page and its pictures from the stored results. */
export function writeReport(): void {
  const results = keptResults<ServersResult>("servers");
  for (const result of results) writeDocument(pathOf(result), pictureOf(result));
  writeDocument("benchmarks-servers.md", pageOf(results));
}

if (import.meta.main) writeReport();
