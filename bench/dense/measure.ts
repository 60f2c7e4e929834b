// How is one dense set measured?

import { join } from "node:path";
import { measure as measureAll } from "../shared/measure.ts";
import { recallOf, type SetResult } from "../shared/results.ts";
import { readSet, titleOf, truthOf } from "./data.ts";
import type { EngineKind } from "./engine.ts";

/** Number of neighbours, and that of the second recall with its beam width. */
export const k = 10;
export const deepK = 100;
export const deepEf = 128;

export type Plan = {
  readonly set: string;
  readonly engines: readonly EngineKind[];
  /** Beam widths, ascending, from k on. */
  readonly beams: readonly number[];
  readonly rounds: number;
  /** Asked for in each turn. */
  readonly queryCount: number;
  /** For a trial: the first rows only. */
  readonly rowsMax?: number;
};

export function measure({
  set: name,
  engines,
  beams,
  rounds,
  queryCount,
  rowsMax,
}: Plan): Promise<SetResult> {
  const set = readSet(name, rowsMax);
  const count = Math.min(queryCount, set.queries.length);
  const truth = truthOf(set, count);
  return measureAll({
    worker: join(import.meta.dirname, "worker.ts"),
    engines,
    set: name,
    title: titleOf(name),
    rowCount: set.rows.length,
    rowsMax,
    queryCount: count,
    // If a set has fewer queries, they are repeated more often, because a few milliseconds cannot be distinguished from noise.
    passes: Math.ceil(queryCount / count),
    rounds,
    k,
    efforts: beams,
    deep: { k: deepK, effort: deepEf },
    recall: (found, wanted) => recallOf(found, truth, wanted),
  });
}
