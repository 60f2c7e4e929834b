// In which order do the nodes of a graph lie in its memory?
//
// New nodes take the next free slot, so those that a search meets together lie anywhere, each on a page of its own. When nothing else is to
// be done, a graph is copied in another order (replacement.ts): the children of a node in the backbone, which are near each other, lie side by
// side, and so do, family by family, those of the children. The copy has the same nodes and the same links, so it finds the same.
// Measured in docs/decisions/hnsw-speed.md.

import { none } from "@quiverdb/kernels/hnsw";
import { invariant } from "../../base/invariant.ts";
import type { Graph } from "./graph.ts";
import { kinds } from "./graph-layout.ts";

/** New slots of a graph's slots, in memory that threads share; `none`: it is not copied. */
export type NewSlots = Uint32Array<SharedArrayBuffer>;

/** Room for the new slots of a graph. */
export const newSlotsFor = (slots: number): NewSlots =>
  new Uint32Array(new SharedArrayBuffer(4 * slots)).fill(none);

const isNodeKind = (kind: number): boolean => kind === kinds.node || kind === kinds.dead;

/**
 * Copies the nodes of a graph, which must not change meanwhile, into an empty one of the same shape that has room for them.
 * @param kindOf the states of its slots; no sweep may be running
 * @param newSlots receives the new slot of each slot
 */
export function copyInOrder(graph: Graph, kindOf: Uint8Array, copy: Graph, newSlots: NewSlots): void {
  const nodes = inFamilies(graph, kindOf);
  let next = 0;
  for (const node of nodes) newSlots[node] = next++;
  for (const node of nodes) for (const slot of graph.upperOf(node)) newSlots[slot] = next++;
  const moved = (slot: number): number => (slot === none ? none : newSlots[slot]);
  for (const node of nodes) {
    copySlot(graph, node, copy, newSlots[node]);
    const { words } = copy;
    const meta = copy.metaAt(newSlots[node]);
    words[meta + 3] = moved(words[meta + 3]);
    words[meta + 4] = moved(words[meta + 4]);
    for (const slot of graph.upperOf(node)) {
      copySlot(graph, slot, copy, newSlots[slot]);
      const at = copy.at(newSlots[slot]) / 4;
      words[at] = moved(words[at]);
    }
    for (let level = graph.levelOf(node); level >= 0; level--) {
      const list = copy.listAt(newSlots[node], level);
      for (let at = list + 1; at <= list + words[list]; at++) words[at] = moved(words[at]);
    }
  }
}

function copySlot(graph: Graph, from: number, copy: Graph, to: number): void {
  copy.bytes.set(graph.bytes.subarray(graph.at(from), graph.at(from + 1)), copy.at(to));
}

/** All nodes, the children of each side by side, and close to their own children. */
function inFamilies(graph: Graph, kindOf: Uint8Array): Uint32Array {
  const { slots, root } = graph;
  // The children of node n are children[first[n] .. first[n + 1]].
  const first = new Uint32Array(slots + 2);
  let count = 0;
  const eachChild = (visit: (node: number, parent: number) => void): void => {
    for (let node = 0; node < slots; node++) {
      if (!isNodeKind(kindOf[node])) continue;
      const parent = graph.parentOf(node);
      if (parent !== none && node !== root) visit(node, parent);
    }
  };
  eachChild((_node, parent) => void first[parent + 2]++);
  for (let node = 0; node < slots; node++) {
    first[node + 2] += first[node + 1];
    if (isNodeKind(kindOf[node])) count++;
  }
  const children = new Uint32Array(first[slots + 1]);
  eachChild((node, parent) => {
    children[first[parent + 1]++] = node;
  });
  const ordered = new Uint32Array(count);
  if (count === 0) return ordered;
  const waiting = [root];
  ordered[0] = root;
  let placed = 1;
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    for (let at = first[node]; at < first[node + 1]; at++) ordered[placed++] = children[at];
    for (let at = first[node + 1] - 1; at >= first[node]; at--) waiting.push(children[at]);
  }
  // Dead nodes that a sweep had begun to unlink when the graph was stored are not in the backbone.
  for (let node = 0; node < slots; node++)
    if (isNodeKind(kindOf[node]) && graph.parentOf(node) === none) ordered[placed++] = node;
  invariant(placed === count, `the backbone has ${placed} of ${count} nodes`);
  return ordered;
}
