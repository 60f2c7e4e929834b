// How are things measured against each other?
//
// In turns: in each round each of them acts once, and the order is reversed in every second round, so that what else runs on the machine slows
// all of them down. The first rounds warm up.

import type { Ids } from "../engines/engine.ts";
import { median } from "./figures.ts";
import { ownCpuMs } from "./quiet.ts";

type Rounds = { readonly rounds: number; readonly warmUps?: number };

/** @param players are read anew in each round: one that fails can be removed */
export async function inTurns<Player>(
  players: () => readonly Player[],
  { rounds, warmUps = 1 }: Rounds,
  act: (player: Player, isWarmUp: boolean) => Promise<void> | void,
): Promise<void> {
  for (let round = 0; round < warmUps + rounds; round++)
    for (const player of round % 2 === 0 ? players() : players().toReversed())
      await act(player, round < warmUps);
}

/** The search of the query of this number. */
export type Search = (query: number) => Ids | Promise<Ids>;

export type Asked = {
  /** Processor milliseconds of the process for a query. */
  readonly cpuMs: number;
  /** Wall milliseconds of each query, pass by pass. */
  readonly wallMs: Float64Array;
  /** k ids for each query, -1 where there are fewer. */
  readonly ids: Int32Array;
};

/** Asks the first `count` queries, one after the other. */
export async function ask(search: Search, count: number, k: number, passes = 1): Promise<Asked> {
  const found: Ids[] = new Array(count);
  const wallMs = new Float64Array(count * passes);
  const before = ownCpuMs();
  for (let i = 0; i < wallMs.length; i++) {
    const start = performance.now();
    const ids = search(i % count);
    found[i % count] = ids instanceof Promise ? await ids : ids;
    wallMs[i] = performance.now() - start;
  }
  const cpuMs = (ownCpuMs() - before) / wallMs.length;
  const ids = new Int32Array(count * k).fill(-1);
  for (const [i, each] of found.entries())
    for (let j = 0; j < Math.min(k, each.length); j++) ids[i * k + j] = Number(each[j]);
  return { cpuMs, wallMs, ids };
}

/** A search in this process: microseconds of each turn that counts, and what was found in the last. */
export type InProcess = { readonly search: Search; readonly us: number[]; ids: Int32Array };

export const inProcess = (search: Search): InProcess => ({ search, us: [], ids: new Int32Array(0) });
export const usOf = ({ us }: InProcess): number => median(us);

/** Lets searches in this process take turns, each with all queries. */
export const compare = (
  players: readonly InProcess[],
  { queries, k, ...rounds }: Rounds & { readonly queries: number; readonly k: number },
): Promise<void> =>
  inTurns(
    () => players,
    rounds,
    async (player, isWarmUp) => {
      const { cpuMs, ids } = await ask(player.search, queries, k);
      player.ids = ids;
      if (!isWarmUp) player.us.push(1_000 * cpuMs);
    },
  );
