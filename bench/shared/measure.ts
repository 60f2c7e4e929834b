// How is one set measured with all engines?
//
//   build     one engine after the other, each in its own process
//   rounds    for each effort (a setting that trades time for recall), each engine gets the same queries; the order rotates with each round; the first round warms up
//   deep      one more round with more results, if the plan wants it, and the memory of the process at the end
//
// An engine that fails is left out, with the reason; the others continue.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { EngineProcess } from "./child.ts";
import type { EngineKind } from "./engine.ts";
import { atExit } from "./exit.ts";
import { type EngineResult, median, type Point, quantile, type SetResult } from "./results.ts";
import type { Built } from "./worker.ts";

/** With fewer, the size of a process is mostly that of its program. */
const rowsToWeigh = 50_000;

export type Plan = {
  /** A module that calls `serve` (worker.ts). */
  readonly worker: string;
  readonly engines: readonly EngineKind<never, never>[];
  readonly set: string;
  readonly title: string;
  readonly rowCount: number;
  /** For a trial: the first rows only. */
  readonly rowsMax?: number;
  /** Number of queries, and how often each one runs in a turn. */
  readonly queryCount: number;
  readonly passes: number;
  readonly rounds: number;
  readonly k: number;
  /** By ascending recall; used for engines without their own efforts. */
  readonly efforts: readonly number[];
  /** Runs once, after the rounds. */
  readonly deep?: { readonly k: number; readonly effort: number };
  /** Further properties of the set for the page. */
  readonly facts?: string;
  /** Mean number of postings of a query's terms: what a loop without skipping has to score. */
  readonly postingsPerQuery?: number;
  /** The fraction of the ground truth that was found; `found` has k ids per query, -1 for none. */
  recall(found: Int32Array, k: number, effort: number): number;
};

type Taken = { recall: number; cpuMs: number[]; p50: number[]; p99: number[] };

type Player = {
  kind: EngineKind<never, never>;
  efforts: readonly number[];
  process: EngineProcess;
  built: Built;
  taken: Map<number, Taken>;
  grownBytes: number;
  deepRecall?: number;
};

const playerOf = (kind: EngineKind<never, never>, { worker, efforts }: Plan): Player => ({
  kind,
  efforts: kind.efforts ?? efforts,
  process: new EngineProcess(worker),
  built: { cpuS: Number.NaN, seconds: Number.NaN, fileBytesEach: Number.NaN },
  taken: new Map(),
  grownBytes: 0,
});

async function ask(plan: Plan, { process, taken }: Player, effort: number, isWarmUp: boolean): Promise<void> {
  const { k, queryCount: count, passes } = plan;
  const found = await process.search({ k, effort, count, passes });
  if (isWarmUp) return;
  const all = taken.get(effort) ?? { recall: 0, cpuMs: [], p50: [], p99: [] };
  all.recall = plan.recall(found.ids, k, effort);
  all.cpuMs.push(found.cpuMs);
  all.p50.push(quantile(found.wallMs, 0.5));
  all.p99.push(quantile(found.wallMs, 0.99));
  taken.set(effort, all);
}

function resultOf({ kind, built, grownBytes, taken, deepRecall }: Player, { rowCount }: Plan): EngineResult {
  return {
    name: kind.name,
    title: kind.title,
    isOurs: kind.isOurs ?? false,
    note: kind.note,
    buildCpuS: built.cpuS,
    buildS: built.seconds,
    bytesEach: built.bytesEach,
    fileBytesEach: built.fileBytesEach,
    grownEach: kind.isMappedOften || rowCount < rowsToWeigh ? undefined : grownBytes / rowCount,
    points: [...taken].map(([effort, { recall, cpuMs, p50, p99 }]): Point => {
      return { effort, recall, cpuMs: median(cpuMs), wallP50Ms: median(p50), wallP99Ms: median(p99) };
    }),
    deepRecall,
  };
}

export async function measure(plan: Plan): Promise<SetResult> {
  const { set, title, rowCount, queryCount, rounds, facts, postingsPerQuery } = plan;
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

  try {
    for (const kind of plan.engines) {
      const own = join(directory, kind.name);
      mkdirSync(own);
      const player = playerOf(kind, plan);
      players.push(player);
      await turn(player, async () => {
        const request = { engine: kind.name, set, rows: plan.rowsMax, directory: own };
        const built = await player.process.build(request);
        if ("refused" in built) throw new Error(built.refused);
        player.built = built;
        console.log(`${set}: ${kind.title}, built in ${built.cpuS.toFixed(1)} CPU s`);
      });
    }
    for (let round = 0; round <= rounds; round++) {
      const steps = Math.max(0, ...players.map(({ efforts }) => efforts.length));
      for (let step = 0; step < steps; step++) {
        const order = round % 2 === 0 ? players : players.toReversed();
        for (const player of order) {
          if (step >= player.efforts.length) continue;
          await turn(player, () => ask(plan, player, player.efforts[step], round === 0));
        }
      }
    }
    for (const player of players) {
      await turn(player, async () => {
        if (plan.deep !== undefined) {
          const { ids } = await player.process.search({ ...plan.deep, count: queryCount, passes: 1 });
          player.deepRecall = plan.recall(ids, plan.deep.k, plan.deep.effort);
        }
        player.grownBytes = await player.process.weigh();
      });
    }
  } finally {
    for (const { process } of players) process.end();
    forget();
    remove();
  }

  return {
    set,
    title,
    rowCount,
    queryCount,
    rounds,
    day: new Date().toISOString().slice(0, 10),
    processor: cpus()[0]?.model ?? "unknown",
    facts,
    postingsPerQuery,
    engines: players.map((player) => resultOf(player, plan)),
    leftOut,
  };
}
