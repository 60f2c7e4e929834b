// Which nodes hold a collection?
//
// Rendezvous hashing: the nodes with the highest hashes of (collection, node). All nodes compute the same, and a further node takes over as
// few collections as possible.

import { createHash } from "node:crypto";

export const replicationFactorDefault = 3;

/** @returns at most `count` of the nodes, by name */
export function replicasAmong(nodes: readonly string[], internalId: string, count: number): string[] {
  const rank = (node: string) => createHash("sha256").update(`${internalId} ${node}`).digest("hex");
  return nodes
    .map((node) => ({ node, rank: rank(node) }))
    .sort((a, b) => (a.rank < b.rank ? 1 : -1))
    .slice(0, count)
    .map(({ node }) => node)
    .sort();
}
