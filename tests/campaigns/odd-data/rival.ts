// What does hnswlib find in the same data, with the same settings?
//
// hnswlib-node from the benchmarks' dependencies, compiled when they are installed. If that is not possible, it is left out.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { rival } from "../../../bench/engines/engine.ts";
import { installRivals } from "../../../bench/shared/install.ts";
import type { Settings } from "./marks.ts";
import type { Answering } from "./truth.ts";

const spaces = { cosine: "cosine", euclidean: "l2", dot_product: "ip" } as const;

/** Installs it if necessary; returns the reason why it cannot be used, or undefined. */
export function rivalRefusal(): string | undefined {
  const failure = installRivals();
  if (failure !== undefined) return failure;
  try {
    rival("hnswlib-node");
    return undefined;
  } catch (error) {
    return `hnswlib-node cannot be loaded: ${(error as Error).message.split("\n")[0]}`;
  }
}

/** Rows in hnswlib, in the order of arrival. */
export function openRival(
  metric: MetricName,
  rows: readonly Float32Array[],
  { m, efConstruction, efSearch }: Settings,
): Answering {
  const { HierarchicalNSW } = rival("hnswlib-node");
  const index = new HierarchicalNSW(spaces[metric], rows[0].length);
  index.initIndex(rows.length, m, efConstruction, 100);
  rows.forEach((row, label) => {
    index.addPoint([...row], label);
  });
  index.setEf(efSearch);
  return {
    metric,
    living: new Map(rows.map((row, label) => [label, row])),
    search: (query, k) => index.searchKnn([...query], Math.min(k, rows.length)).neighbors as number[],
  };
}
