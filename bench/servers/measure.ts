// How is one set measured with all servers?
//
//   load      one server after the other is started and filled by one client; all of them stay
//   sweep     each server's least beam for each recall and filter (sweep.ts)
//   warm up   each server is asked for some time with each filter, because the compiler of Node.js works for some ten thousand requests
//   rounds    for each recall, filter and number of clients, each server is asked for some time, in turns; the order rotates with each round;
//             the first round warms up
//
// A server that fails is left out, with the reason; the others continue. The processes of a server and nothing else count as its own; the
// client is this process, on the same cores.

import { m } from "../engines/engine.ts";
import { median, overRounds, quantile, recallOf } from "../shared/figures.ts";
import { untilQuiet } from "../shared/quiet.ts";
import type { Measured, Row } from "../shared/results.ts";
import { inTurns } from "../shared/turns.ts";
import { readSet, type ServerSet, shares, titleOf } from "./data.ts";
import { cpuMsOf, memoryOf } from "./processes.ts";
import { type Case, efConstruction, type Server, type ServerKind } from "./server.ts";
import { ladder, type Reached, sweepOf } from "./sweep.ts";

const k = 10;
const recalls = [0.95, 0.99] as const;
/** Clients at the same time; filters are searched by one. */
const clientCounts = [1, 8] as const;
const connections = Math.max(...clientCounts);
/** Records of a request. */
const batch = 1_000;
/** A turn lasts longer than asked for where it has fewer searches, whose processor time the ticks of Linux would blur. */
const searchesMin = 200;
/** Searches of each connection before a turn is measured: some servers have only just been started again. */
const firstSearches = 5;

export type Plan = {
  readonly set: string;
  readonly rowCount: number;
  readonly kinds: readonly ServerKind[];
  readonly rounds: number;
  readonly turnMs: number;
  /** Before the rounds, for each server and filter. */
  readonly warmMs: number;
  readonly queryCount: number;
};

/** What a server is asked for in a turn. */
type Wanted = { readonly share: number; readonly recall: number; readonly clients: number };

type Load = { readonly seconds: number; readonly cpuS: number };

/** Of one turn; the processor time is that of the server, a query. */
type Turn = {
  readonly cpuMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly perSecond: number;
};

type Player = {
  readonly kind: ServerKind;
  readonly server: Server;
  /** From the first record on until all are indexed; processor time until it has nothing to do any more. */
  readonly load: Load;
  readonly diskBytes: number;
  /** By share and recall. */
  readonly reached: Map<string, Reached | undefined>;
  readonly turns: Map<string, Turn[]>;
};

const keyOf = (...parts: readonly number[]): string => parts.join(" ");

async function load(server: Server, { rows }: ServerSet): Promise<Load> {
  const [cpuBefore, start] = [cpuMsOf(server.pid), performance.now()];
  for (let at = 0; at < rows.length; at += batch) await server.add(rows.slice(at, at + batch), at);
  await server.finish();
  const seconds = (performance.now() - start) / 1_000;
  await untilQuiet(() => cpuMsOf(server.pid));
  return { seconds, cpuS: (cpuMsOf(server.pid) - cpuBefore) / 1_000 };
}

/** The share of the ground truth that is found with this effort. */
async function recallAt(server: Server, set: ServerSet, asked: Case): Promise<number> {
  const { queries } = set;
  await server.prepare?.(asked);
  const found = new Int32Array(queries.length * k).fill(-1);
  let next = 0;
  const connection = async (_: unknown, which: number) => {
    for (let i = next++; i < queries.length; i = next++) {
      const ids = await server.search(which, queries[i], k, asked);
      for (let j = 0; j < Math.min(k, ids.length); j++) found[i * k + j] = Number(ids[j]);
    }
  };
  await Promise.all(Array.from({ length: connections }, connection));
  return recallOf(found, set.truthOf(asked.share), k);
}

/** Searches over so many connections for at least so long. */
async function turn(
  server: Server,
  queries: readonly Float32Array[],
  asked: Case,
  clients: number,
  turnMs: number,
): Promise<Turn> {
  await server.prepare?.(asked);
  let next = 0;
  const search = (which: number) => server.search(which, queries[next++ % queries.length], k, asked);
  const all = (connection: (_: unknown, which: number) => Promise<void>) =>
    Promise.all(Array.from({ length: clients }, connection));
  await all(async (_, which) => {
    for (let i = 0; i < firstSearches; i++) await search(which);
  });
  const times: number[] = [];
  const [cpuBefore, start] = [cpuMsOf(server.pid), performance.now()];
  await all(async (_, which) => {
    for (let sent = performance.now(); sent - start < turnMs || times.length < searchesMin; ) {
      await search(which);
      const answered = performance.now();
      times.push(answered - sent);
      sent = answered;
    }
  });
  const seconds = (performance.now() - start) / 1_000;
  const all64 = Float64Array.from(times);
  return {
    perSecond: times.length / seconds,
    p50Ms: quantile(all64, 0.5),
    p99Ms: quantile(all64, 0.99),
    cpuMs: (cpuMsOf(server.pid) - cpuBefore) / times.length,
  };
}

const megabyte = 1e6;

function rowOf({ kind, server, load: { seconds, cpuS }, diskBytes }: Player, rowCount: number): Row {
  const { ownBytes, fileBytes } = memoryOf(server.pid);
  return {
    server: kind.title,
    ...(kind.isOurs && { ours: true }),
    ...(kind.isBare
      ? { bare: true }
      : { recordsPerSecond: rowCount / seconds, loadCpuS: cpuS, filesMB: diskBytes / megabyte }),
    memoryMB: ownBytes / megabyte,
    mappedMB: fileBytes / megabyte,
    note: kind.note,
    version: kind.version(),
  };
}

/** What each server took of what was wanted. Those that do not reach a recall are missing. */
function pointsOf(players: readonly Player[], wanted: readonly Wanted[]): Row[] {
  return wanted.flatMap(({ share, recall, clients }) => {
    const points = players.flatMap(({ kind, reached, turns }) => {
      const taken = turns.get(keyOf(share, recall, clients));
      if (taken === undefined) return [];
      const of = (name: keyof Turn) => taken.map((each) => each[name]);
      const found = reached.get(keyOf(share, recall));
      const asked = { share, wanted: recall, clients, beam: found?.effort, recall: found?.recall };
      const figures = {
        ...overRounds("cpuMs", of("cpuMs")),
        p50Ms: median(of("p50Ms")),
        ...overRounds("p99Ms", of("p99Ms")),
        perSecond: median(of("perSecond")),
      };
      return [{ server: kind.title, isOurs: kind.isOurs ?? false, ...asked, ...figures }];
    });
    const own = points.find(({ isOurs }) => isOurs);
    return points.map(({ isOurs, ...point }) => ({
      ...point,
      ...(!isOurs && own && { times: point.cpuMs / own.cpuMs }),
    }));
  });
}

export async function measure(plan: Plan): Promise<Measured> {
  const { rowCount, kinds, rounds, turnMs, warmMs, queryCount } = plan;
  const set = readSet(plan.set, rowCount, queryCount);
  const { metric, dimension, queries } = set;
  const shape = { metric, dimension, connections };
  const leftOut: string[] = [];
  let players: Player[] = [];

  const leaveOut = ({ title }: ServerKind, reason: string): void => {
    leftOut.push(`${title}: ${reason}`);
    console.log(`left out: ${leftOut.at(-1)}`);
  };

  /** Runs a server; one that fails is ended. */
  const attempt = async (player: Player, act: () => Promise<void>): Promise<void> => {
    try {
      await act();
    } catch (error) {
      leaveOut(player.kind, (error as Error).message);
      players = players.filter((other) => other !== player);
      await player.server.end();
    }
  };

  async function start(kind: ServerKind): Promise<void> {
    const reason = kind.missing(shape);
    if (reason !== undefined) return leaveOut(kind, reason);
    let server: Server | undefined;
    try {
      server = await kind.start(shape);
      const loaded = await load(server, set);
      console.log(`${plan.set}: ${kind.title}, ${rowCount} records in ${loaded.seconds.toFixed(1)} s`);
      const diskBytes = server.diskBytes();
      players.push({ kind, server, load: loaded, diskBytes, reached: new Map(), turns: new Map() });
    } catch (error) {
      leaveOut(kind, (error as Error).message);
      await server?.end();
    }
  }

  async function sweep({ kind, server, reached }: Player): Promise<void> {
    if (kind.isBare) return;
    for (const share of shares) {
      const find = sweepOf(ladder, (effort) => recallAt(server, set, { effort, share }));
      for (const recall of recalls) {
        const found = await find(recall);
        reached.set(keyOf(share, recall), found);
        const told = found === undefined ? "not reached" : `beam ${found.effort}`;
        console.log(`${plan.set}: ${kind.title}, share ${share}, recall ${recall}: ${told}`);
      }
    }
  }

  const effortOf = ({ kind, reached }: Player, share: number, recall: number): number | undefined =>
    kind.isBare ? k : reached.get(keyOf(share, recall))?.effort;

  async function warmUp(player: Player): Promise<void> {
    for (const share of shares) {
      const effort = effortOf(player, share, recalls[0]);
      if (effort !== undefined) await turn(player.server, queries, { effort, share }, connections, warmMs);
    }
  }

  async function take(player: Player, wanted: Wanted, isWarmUp: boolean): Promise<void> {
    const { share, recall, clients } = wanted;
    const effort = effortOf(player, share, recall);
    if (effort === undefined || (player.kind.isBare && share < 1)) return;
    const taken = await turn(player.server, queries, { effort, share }, clients, turnMs);
    if (isWarmUp) return;
    const key = keyOf(share, recall, clients);
    player.turns.set(key, [...(player.turns.get(key) ?? []), taken]);
  }

  const wanted = shares.flatMap((share) =>
    recalls.flatMap((recall) =>
      clientCounts
        .filter((clients) => share === 1 || clients === 1)
        .map((clients) => ({ share, recall, clients })),
    ),
  );
  try {
    for (const kind of kinds) await start(kind);
    for (const player of players) await attempt(player, () => sweep(player));
    for (const player of players) await attempt(player, () => warmUp(player));
    for (const each of wanted)
      await inTurns(
        () => players,
        { rounds },
        (player, isWarmUp) => attempt(player, () => take(player, each, isWarmUp)),
      );
    const options = { rows: set.rows.length, queries: queries.length, rounds, turnMs, k, m, efConstruction };
    return {
      key: `${plan.set}-${set.rows.length}`,
      title: titleOf(plan.set),
      options: { ...options, timesOf: "Quiver" },
      rows: players.map((player) => rowOf(player, set.rows.length)),
      points: pointsOf(players, wanted),
      ...(leftOut.length > 0 && { leftOut }),
    };
  } finally {
    for (const { server } of players) await server.end();
  }
}
