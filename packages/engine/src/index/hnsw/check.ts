// Is the graph what it must be?

import { none } from "@quiver/kernels/hnsw";
import { invariant } from "../../base/invariant.ts";
import type { Encoding } from "./encoding.ts";
import { reach } from "./linker.ts";
import type { Partition } from "./partition.ts";

/**
 * Proves invariants 3 to 6 of hnsw-index.ts for a partition; throws with what is wrong.
 * @param vectorOf answers for each living node, and throws where the node is not that of its ordinal
 */
export function checkGraph(
  partition: Partition,
  encoding: Encoding,
  vectorOf: (ordinal: number, node: number) => Float32Array,
): void {
  const { graph } = partition;
  const { m, m0, codeBytes } = graph.shape;
  const living = partition.living();
  if (graph.entry === none) {
    invariant(living.length === 0, "there are nodes but no entry point");
    return;
  }
  const top = graph.levelOf(graph.entry);
  invariant(partition.isNode(graph.entry), "the entry point is no node");
  const code = Buffer.alloc(codeBytes);
  for (const node of living) {
    const meta = graph.metaAt(node);
    invariant(node < graph.units, `node ${node} is beyond the units`);
    encoding.encode(vectorOf(graph.ordinalOf(node), node), code);
    invariant(graph.floats[meta] === encoding.lastFactor, `the factor of node ${node} is not its vector's`);
    invariant(graph.floats[meta + 1] === encoding.lastBias, `the bias of node ${node} is not its vector's`);
    const kept = graph.bytes.subarray(graph.at(node), graph.at(node) + codeBytes);
    invariant(code.equals(kept), `the code of node ${node} is not its vector's`);
    const level = graph.levelOf(node);
    invariant(level <= top, `node ${node} has level ${level} above the entry point's ${top}`);
    for (let l = 0; l <= level; l++) {
      const links = graph.linksOf(node, l);
      invariant(links.length <= (l === 0 ? m0 : m), `node ${node} has ${links.length} links at level ${l}`);
      invariant(new Set(links).size === links.length, `node ${node} has a link twice at level ${l}`);
      for (const link of links) {
        const isLink = link !== node && partition.isNode(link) && graph.levelOf(link) >= l;
        invariant(isLink, `node ${node} has a link to ${link} at level ${l}, which is not there`);
      }
    }
  }
  const { orphans } = reach(graph, living);
  invariant(orphans.length === 0, `no way leads to node ${orphans[0]} and ${orphans.length - 1} more`);
}
