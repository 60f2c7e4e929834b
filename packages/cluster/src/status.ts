// What does a node tell operators of its cluster?

import type { Member } from "./members.ts";

export type ClusterStatus = {
  readonly cluster: string;
  /** The node that answers. */
  readonly node: string;
  readonly nodes: readonly {
    readonly node: string;
    readonly url: string;
    readonly alive: boolean;
    readonly version?: string;
    readonly catalog?: number;
    readonly logs?: readonly number[];
    /** Collections, or shards of them, that the catalog gives it. */
    readonly holds: number;
    readonly not_served?: readonly {
      readonly collection: string;
      readonly why: string;
      /** Where it is being copied. `bytes_expected` is about the whole. */
      readonly copying?: { readonly from: string; readonly bytes: number; readonly bytes_expected: number };
    }[];
  }[];
  readonly collections: readonly {
    readonly name: string;
    readonly log: number;
    readonly replicas: readonly string[];
    readonly position: number | null;
    readonly diverged?: string;
  }[];
  readonly diverged?: string | undefined;
  /** Of the latest acknowledgements by the log. */
  readonly publish_ms: { readonly p50: number | null; readonly p99: number | null };
};

/** All nodes of the catalog, with what the living ones told last. @param nameOf name of a collection */
export function nodesOf(
  nodes: ReadonlyMap<string, string>,
  living: readonly Member[],
  nameOf: (internalId: string) => string,
  holds: (node: string) => number,
): ClusterStatus["nodes"] {
  return [...nodes].map(([node, url]) => {
    const member = living.find((each) => each.node === node);
    if (member === undefined) return { node, url, alive: false, holds: holds(node) };
    const { version, catalog, logs, broken, copying = {} } = member;
    const notServed = Object.entries(broken).map(([id, why]) => {
      if (copying[id] === undefined) return { collection: nameOf(id), why };
      const { from, bytes, expected } = copying[id];
      return { collection: nameOf(id), why, copying: { from, bytes, bytes_expected: expected } };
    });
    return {
      ...{ node, url, alive: true, version, catalog: catalog[0], logs },
      ...{ holds: holds(node), not_served: notServed },
    };
  });
}

/** Nearest-rank percentiles; null of nothing. */
export function percentilesOf(values: readonly number[]): { p50: number | null; p99: number | null } {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? null;
  return { p50: at(0.5), p99: at(0.99) };
}
