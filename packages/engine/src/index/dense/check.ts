// Does the graph satisfy its invariants?

import { none } from "@quiverdb/kernels/hnsw";
import { compareBytes } from "../../base/bytes.ts";
import { invariant } from "../../base/invariant.ts";
import type { Encoding } from "./encoding.ts";
import { kinds } from "./graph-layout.ts";
import type { Partition } from "./partition.ts";

/**
 * Verifies invariants 3 to 6 of hnsw-index.ts for a partition; throws an error with the violation.
 * @param vectorOf returns the vector of each live node, and throws if the node does not belong to its ordinal
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
  const code = new Uint8Array(codeBytes);
  for (const node of living) {
    const meta = graph.metaAt(node);
    invariant(node < graph.slots, `node ${node} is beyond the slots`);
    encoding.encode(vectorOf(graph.ordinalOf(node), node), code);
    invariant(graph.floats[meta] === encoding.lastFactor, `the factor of node ${node} is not its vector's`);
    invariant(graph.floats[meta + 1] === encoding.lastBias, `the bias of node ${node} is not its vector's`);
    const kept = graph.bytes.subarray(graph.at(node), graph.at(node) + codeBytes);
    invariant(compareBytes(code, kept) === 0, `the code of node ${node} is not its vector's`);
    const level = graph.levelOf(node);
    invariant(level <= top, `node ${node} has level ${level} above the entry point's ${top}`);
    for (let l = 0; l <= level; l++) {
      const links = graph.linksOf(node, l);
      invariant(links.length <= (l === 0 ? m0 : m), `node ${node} has ${links.length} links at level ${l}`);
      invariant(new Set(links).size === links.length, `node ${node} has a link twice at level ${l}`);
      for (const link of links) {
        const isLink = link !== node && partition.isNode(link) && graph.levelOf(link) >= l;
        invariant(isLink, `node ${node} has a link to ${link} at level ${l}, which does not exist`);
      }
    }
  }
  checkBackbone(partition);
}

/**
 * Proves that every node can be reached from the entry point at level 0: by the backbone, and by following all links.
 */
function checkBackbone(partition: Partition): void {
  const { graph } = partition;
  const isReached = new Uint8Array(graph.slots);
  const stack = [graph.entry];
  isReached[graph.entry] = 1;
  for (let node = stack.pop(); node !== undefined; node = stack.pop())
    for (const link of graph.linksOf(node, 0)) {
      if (isReached[link] === 1) continue;
      isReached[link] = 1;
      stack.push(link);
    }
  const isRooted = new Uint8Array(graph.slots);
  isRooted[graph.root] = 1;
  invariant(graph.parentOf(graph.root) === graph.root, "the root of the backbone has a parent");
  invariant(
    graph.entry === graph.root || graph.linksOf(graph.entry, 0).includes(graph.root),
    "the entry point has no link to the root of the backbone",
  );
  for (let slot = 0; slot < graph.slots; slot++) {
    if (!partition.isNode(slot)) continue;
    // The tree of ways does without nodes that are to be unlinked; in a restored graph they are dead again, until the next sweep.
    const isLeftOut = graph.parentOf(slot) === none;
    invariant(isReached[slot] === 1 || isLeftOut, `no way leads to node ${slot}`);
    invariant(!isLeftOut || partition.kinds.values[slot] !== kinds.node, `node ${slot} has no parent`);
    if (isLeftOut) continue;
    const chain: number[] = [];
    for (let node = slot; isRooted[node] === 0; node = graph.parentOf(node)) {
      const parent = graph.parentOf(node);
      invariant(
        graph.linksOf(parent, 0).includes(node),
        `the parent ${parent} has no link to its child ${node}`,
      );
      chain.push(node);
      invariant(chain.length <= graph.slots, `the parents of node ${slot} do not end at the root`);
    }
    for (const node of chain) isRooted[node] = 1;
  }
}
