// Is the graph what it must be?

import { header, none } from "@quiver/kernels/hnsw";
import { invariant } from "../../base/invariant.ts";
import type { OrdinalMap } from "../ordinal-map.ts";
import type { Encoding } from "./encoding.ts";
import type { Graph } from "./graph.ts";

/**
 * A tree of ways from the entry point at level 0, as the parent of each unit (`none`: not reached; the entry point is its
 * own), and the living nodes that are not in it. Takes time in proportion to all links.
 */
export function reach(graph: Graph, nodes: OrdinalMap): { parents: Uint32Array; orphans: number[] } {
  const parents = new Uint32Array(graph.units).fill(none);
  const stack = [graph.entry];
  parents[graph.entry] = graph.entry;
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    for (const link of graph.linksOf(node, 0)) {
      if (parents[link] !== none) continue;
      parents[link] = node;
      stack.push(link);
    }
  }
  const orphans: number[] = [];
  for (const [, node] of nodes.entries()) if (parents[node] === none) orphans.push(node);
  return { parents, orphans };
}

/** Proves the invariants of hnsw-index.ts; throws with what is wrong. `isNode` tells nodes, dead ones too, from other units. */
export function checkGraph(
  graph: Graph,
  nodes: OrdinalMap,
  encoding: Encoding,
  isNode: (unit: number) => boolean,
  vectorOf: (ordinal: number) => Float32Array,
): void {
  const { m, m0, codeBytes } = graph.shape;
  if (graph.entry === none) {
    invariant(nodes.size === 0, "there are nodes but no entry point");
    return;
  }
  const top = graph.levelOf(graph.entry);
  invariant(isNode(graph.entry), "the entry point is no node");
  const code = Buffer.alloc(codeBytes);
  for (const [ordinal, node] of nodes.entries()) {
    const meta = graph.metaAt(node);
    invariant(
      isNode(node) && graph.ordinalOf(node) === ordinal,
      `ordinal ${ordinal} has node ${node}, which names ${graph.ordinalOf(node)}`,
    );
    invariant(node < graph.words[header.units / 4], `node ${node} is beyond the units`);
    encoding.encode(vectorOf(ordinal), code);
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
        const isLink = link !== node && isNode(link) && graph.levelOf(link) >= l;
        invariant(isLink, `node ${node} has a link to ${link} at level ${l}, which is not there`);
      }
    }
  }
  const { orphans } = reach(graph, nodes);
  invariant(orphans.length === 0, `no way leads to node ${orphans[0]} and ${orphans.length - 1} more`);
}
