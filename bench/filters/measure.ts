// How are the filters of all engines measured?

import { join } from "node:path";
import type { EngineKind } from "../shared/engine.ts";
import { measure as measureAll } from "../shared/measure.ts";
import type { SetResult } from "../shared/results.ts";
import { cases, dimension, type Row, readSet, truthsOf } from "./data.ts";
import { ef, type Shape } from "./engines.ts";

export const k = 10;
export const rowsDefault = 40_000;
export const queriesMax = 100;

export type Plan = {
  readonly engines: readonly EngineKind<Shape, Row>[];
  readonly rounds: number;
  readonly queryCount: number;
  readonly rowCount: number;
};

export function measure({ engines, rounds, queryCount, rowCount }: Plan): Promise<SetResult> {
  const { rows, queries } = readSet(rowCount, queriesMax);
  const truths = truthsOf(rows, queries.slice(0, queryCount), k);
  return measureAll({
    worker: join(import.meta.dirname, "worker.ts"),
    engines,
    set: "clusters",
    title: `${rowCount.toLocaleString("en")} x ${dimension} in clusters, cosine`,
    rowCount,
    rowsMax: rowCount,
    queryCount,
    // The code of an engine in JavaScript is compiled while it is asked: once is too seldom.
    passes: 3,
    rounds,
    k,
    efforts: cases.map((_, i) => i),
    facts: `ef ${ef}`,
    recall: (found, wanted, effort) => recallOf(found, truths[effort], wanted),
  });
}

/** The share of the ground truth that was found, which can have fewer than k rows, or none. */
function recallOf(found: Int32Array, truth: readonly Int32Array[], count: number): number {
  let [met, wanted] = [0, 0];
  for (const [i, row] of truth.entries()) {
    const ids = new Set(found.subarray(i * count, (i + 1) * count));
    wanted += row.length;
    for (const id of row) if (ids.has(id)) met++;
  }
  return wanted === 0 ? 1 : met / wanted;
}
