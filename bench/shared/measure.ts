// How is one set measured with all engines?
//
//   build     one engine after the other, each in its own process
//   rounds    each engine gets the same queries at each effort, in turns (turns.ts); the first round warms up
//   deep      one more round with more results, if the subject wants it, and the memory of the process at the end
//
// An engine that fails is left out, with the reason; the others continue.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EngineKind, kindNamed } from "../engines/engine.ts";
import { type Subject, subjectNamed, truthOf } from "../subjects.ts";
import { EngineProcess } from "./child.ts";
import { atExit } from "./exit.ts";
import { median, overRounds, type Point, quantile, rowOf } from "./figures.ts";
import type { Measured, Row } from "./results.ts";
import { inTurns } from "./turns.ts";
import type { Built } from "./worker.ts";

/** With fewer, the size of a process is mostly that of its program. */
const rowsToWeigh = 50_000;
const wholeTitle = "Quiver, the whole engine";

export type Plan = {
  /** In subjects.ts. */
  readonly subject: string;
  readonly set: string;
  /** Names; undefined: all of the subject. */
  readonly engines?: readonly string[];
  /** By ascending recall; undefined: those of the subject. */
  readonly efforts?: readonly number[];
  readonly rounds: number;
  readonly queryCount: number;
  /** The first rows only, or more than the set has where they can be made. */
  readonly rowsMax?: number;
  /** Multiples are of the whole engine; default: of the best of Quiver's. */
  readonly isOfWhole?: boolean;
};

type Taken = { recall: number; cpuMs: number[]; p50: number[]; p99: number[] };

type Player = {
  readonly kind: EngineKind;
  readonly efforts: readonly number[];
  readonly process: EngineProcess;
  readonly taken: Map<number, Taken>;
  built?: Built;
  grownBytes: number;
  deepRecall?: number;
};

/** In the order of the efforts, which is that of ascending recall. */
const pointsOf = ({ efforts, taken }: Player): Point[] =>
  efforts.flatMap((effort) => {
    const all = taken.get(effort);
    if (all === undefined) return [];
    const { recall, cpuMs, p50, p99 } = all;
    return [{ effort, recall, ...overRounds("cpuMs", cpuMs), p50Ms: median(p50), p99Ms: median(p99) }];
  });

function rowOfPlayer(player: Player, { recalls, deep }: Subject, rowCount: number): Row {
  const { kind, built, grownBytes, deepRecall } = player;
  const isWeighed = !kind.isMappedOften && rowCount >= rowsToWeigh;
  return {
    engine: kind.title,
    ...(kind.isOurs && { ours: true }),
    ...(recalls !== undefined && rowOf(pointsOf(player), recalls)),
    ...(deep && { [`recall@${deep.k}`]: deepRecall }),
    buildCpuS: built?.cpuS,
    buildS: built?.seconds,
    bytes: built?.bytesEach,
    processBytes: isWeighed ? grownBytes / rowCount : undefined,
    fileBytes: built?.fileBytesEach || undefined,
    note: kind.note,
  };
}

/** With `times` beside each `cpuMs`: how many times that of the row, or of the best of the rows, that multiples are of. */
function withTimes(rows: readonly Row[], isBase: (row: Row) => boolean): Row[] {
  const costs = new Set(rows.flatMap((row) => Object.keys(row).filter((name) => /^cpuMs(@|$)/.test(name))));
  const bases = [...costs].map((name) => {
    const known = rows.filter(isBase).flatMap((row) => (row[name] === undefined ? [] : [Number(row[name])]));
    return [name, Math.min(...known)] as const;
  });
  return rows.map((row) => {
    const times = bases
      .filter(([name, base]) => row[name] !== undefined && Number.isFinite(base))
      .map(([name, base]) => [name.replace("cpuMs", "times"), Number(row[name]) / base]);
    return { ...row, ...Object.fromEntries(times) };
  });
}

/** Where the subject's efforts are filters, its points have those in place of the efforts, and multiples. */
function pointRows(players: readonly Player[], { columnsOf }: Subject): Row[] {
  const points = players.flatMap((player) =>
    pointsOf(player).map((point) => ({ engine: player.kind.title, ...point })),
  );
  if (columnsOf === undefined) return points;
  const efforts = [...new Set(points.map(({ effort }) => effort))].sort((a, b) => a - b);
  return efforts.flatMap((each) =>
    withTimes(
      points
        .filter(({ effort }) => effort === each)
        .map(({ engine, effort, ...figures }) => ({ engine, ...columnsOf(effort), ...figures })),
      ({ engine }) => engine === wholeTitle,
    ),
  );
}

export async function measure(plan: Plan): Promise<Measured> {
  const { set: name, rounds, rowsMax } = plan;
  const subject = subjectNamed(plan.subject);
  const { k, recalls, deep } = subject;
  const set = subject.read(name, rowsMax);
  const count = Math.min(plan.queryCount, set.queries.length);
  // If a set has fewer queries, they are repeated more often, because a few milliseconds cannot be distinguished from noise.
  const passes = subject.passes ?? Math.ceil(plan.queryCount / count);
  const { recall, facts } = truthOf(subject, set, count);
  const kinds = plan.engines?.map((each) => kindNamed(subject.engines, each)) ?? subject.engines;
  const directory = mkdtempSync(join(tmpdir(), "quiver-bench-"));
  const remove = () => rmSync(directory, { recursive: true, force: true });
  const forget = atExit(remove);
  const leftOut: string[] = [];
  let players: Player[] = [];

  /** Runs an engine; one that fails is removed. */
  const turn = async (player: Player, act: () => Promise<void>): Promise<void> => {
    try {
      await act();
    } catch (error) {
      leftOut.push(`${player.kind.title}: ${(error as Error).message}`);
      console.log(`left out: ${leftOut.at(-1)}`);
      player.process.end();
      players = players.filter((other) => other !== player);
    }
  };

  async function build(kind: EngineKind): Promise<void> {
    const own = join(directory, kind.name);
    mkdirSync(own);
    const process = new EngineProcess(subject.name);
    const efforts = kind.efforts ?? plan.efforts ?? subject.efforts;
    const player: Player = { kind, efforts, process, taken: new Map(), grownBytes: 0 };
    players.push(player);
    await turn(player, async () => {
      const request = { act: "build", engine: kind.name, set: name, rows: rowsMax, directory: own } as const;
      player.built = (await process.ask(request)).built;
      console.log(`${name}: ${kind.title}, built in ${player.built?.cpuS.toFixed(1)} CPU s`);
    });
  }

  async function search({ process, taken }: Player, effort: number, isWarmUp: boolean): Promise<void> {
    const { asked } = await process.ask({ act: "search", k, effort, count, passes });
    if (isWarmUp || asked === undefined) return;
    const all = taken.get(effort) ?? { recall: 0, cpuMs: [], p50: [], p99: [] };
    all.recall = recall(asked.ids, k, effort);
    all.cpuMs.push(asked.cpuMs);
    all.p50.push(quantile(asked.wallMs, 0.5));
    all.p99.push(quantile(asked.wallMs, 0.99));
    taken.set(effort, all);
  }

  try {
    for (const kind of kinds) await build(kind);
    const steps = Math.max(0, ...players.map(({ efforts }) => efforts.length));
    // In a round, one effort of all engines after the other.
    const turns = () =>
      Array.from({ length: steps }, (_, step) =>
        players.flatMap((player) => (step < player.efforts.length ? [{ player, step }] : [])),
      ).flat();
    await inTurns(turns, { rounds }, async ({ player, step }, isWarmUp) => {
      if (players.includes(player)) await turn(player, () => search(player, player.efforts[step], isWarmUp));
    });
    for (const player of players)
      await turn(player, async () => {
        if (deep !== undefined) {
          const { asked } = await player.process.ask({ act: "search", ...deep, count, passes: 1 });
          if (asked !== undefined) player.deepRecall = recall(asked.ids, deep.k, deep.effort);
        }
        player.grownBytes = (await player.process.ask({ act: "weigh" })).grownBytes ?? 0;
      });
  } finally {
    for (const { process } of players) process.end();
    forget();
    remove();
  }

  const isBase = (row: Row): boolean => (plan.isOfWhole ? row.engine === wholeTitle : row.ours === true);
  const rows = players.map((player) => rowOfPlayer(player, subject, set.rows.length));
  return {
    key: name,
    title: set.title,
    options: {
      rows: set.rows.length,
      queries: count,
      rounds,
      k,
      ...subject.settings,
      timesOf: plan.isOfWhole || recalls === undefined ? wholeTitle : "Quiver's best",
    },
    facts: { ...facts, ...(set.shape.dimension > 0 && { vectorBytes: 4 * set.shape.dimension }) },
    rows: withTimes(rows, isBase),
    points: pointRows(players, subject),
    ...(leftOut.length > 0 && { leftOut }),
  };
}
