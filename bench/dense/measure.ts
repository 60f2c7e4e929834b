// How is one set measured with all engines?
//
//   build     one engine after the other, each in its own process
//   rounds    for each beam, each engine is asked the same queries; the order turns round with each round; the first warms up
//   deep      the 100 nearest, once, and what the process weighs
//
// An engine that fails on the way is left out, with its reason; the others go on.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { EngineProcess } from "./child.ts";
import { readSet, titleOf, truthOf } from "./data.ts";
import type { EngineKind } from "./engine.ts";
import { deepEf, deepK, k, median, type Point, quantile, recallOf, type SetResult } from "./results.ts";
import type { Built } from "./worker.ts";

/** With fewer, the size of a process is mostly that of its program. */
const rowsToWeigh = 50_000;

export type Plan = {
  readonly set: string;
  readonly engines: readonly EngineKind[];
  /** Beams, ascending, from k on. */
  readonly beams: readonly number[];
  readonly rounds: number;
  /** Asked for in each turn. */
  readonly queryCount: number;
  /** For a trial: the first rows only. */
  readonly rowsMax?: number;
};

type Taken = { recall: number; cpuMs: number[]; p50: number[]; p99: number[] };

type Player = {
  kind: EngineKind;
  process: EngineProcess;
  built: Built;
  taken: Map<number, Taken>;
  grownBytes: number;
  deepRecall: number;
};

export async function measure(plan: Plan): Promise<SetResult> {
  const set = readSet(plan.set, plan.rowsMax);
  const queryCount = Math.min(plan.queryCount, set.queries.length);
  const truth = truthOf(set, queryCount);
  // Where a set has fewer queries they are asked more often, for a few milliseconds cannot be told from noise.
  const passes = Math.ceil(plan.queryCount / queryCount);
  const directory = mkdtempSync(join(tmpdir(), "quiver-bench-"));
  const leftOut: string[] = [];
  let players: Player[] = [];

  /** Lets a player act; one that fails leaves the game. */
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

  const ask = async (player: Player, ef: number, isWarmUp: boolean): Promise<void> => {
    const found = await player.process.search({ k, ef, count: queryCount, passes });
    if (isWarmUp) return;
    const taken = player.taken.get(ef) ?? { recall: 0, cpuMs: [], p50: [], p99: [] };
    taken.recall = recallOf(found.ids, truth, k);
    taken.cpuMs.push(found.cpuMs);
    taken.p50.push(quantile(found.wallMs, 0.5));
    taken.p99.push(quantile(found.wallMs, 0.99));
    player.taken.set(ef, taken);
  };

  try {
    for (const kind of plan.engines) {
      const own = join(directory, kind.name);
      mkdirSync(own);
      const player: Player = {
        kind,
        process: new EngineProcess(),
        built: { cpuS: Number.NaN },
        taken: new Map(),
        grownBytes: 0,
        deepRecall: Number.NaN,
      };
      players.push(player);
      await turn(player, async () => {
        const request = { engine: kind.name, set: plan.set, rows: plan.rowsMax, directory: own };
        const built = await player.process.build(request);
        if ("refused" in built) throw new Error(built.refused);
        player.built = built;
        console.log(`${plan.set}: ${kind.title}, built in ${built.cpuS.toFixed(1)} CPU s`);
      });
    }
    for (let round = 0; round <= plan.rounds; round++) {
      for (const ef of plan.beams) {
        const order = round % 2 === 0 ? players : players.toReversed();
        for (const player of order) await turn(player, () => ask(player, ef, round === 0));
      }
    }
    for (const player of players) {
      await turn(player, async () => {
        const { ids } = await player.process.search({ k: deepK, ef: deepEf, count: queryCount, passes: 1 });
        player.deepRecall = recallOf(ids, truth, deepK);
        player.grownBytes = await player.process.weigh();
      });
    }
  } finally {
    for (const { process } of players) process.end();
    rmSync(directory, { recursive: true, force: true });
  }

  return {
    set: plan.set,
    title: titleOf(plan.set),
    rowCount: set.rows.length,
    queryCount,
    rounds: plan.rounds,
    day: new Date().toISOString().slice(0, 10),
    processor: cpus()[0]?.model ?? "unknown",
    engines: players.map(({ kind, built, grownBytes, taken, deepRecall }) => ({
      name: kind.name,
      title: kind.title,
      isOurs: kind.isOurs ?? false,
      note: kind.note,
      buildCpuS: built.cpuS,
      bytesPerVector: built.bytesPerVector,
      grownPerVector:
        kind.isMappedOften || set.rows.length < rowsToWeigh ? undefined : grownBytes / set.rows.length,
      points: [...taken].map(([ef, { recall, cpuMs, p50, p99 }]): Point => {
        return { ef, recall, cpuMs: median(cpuMs), wallP50Ms: median(p50), wallP99Ms: median(p99) };
      }),
      deepRecall,
    })),
    leftOut,
  };
}
