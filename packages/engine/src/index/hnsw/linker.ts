// How does a builder change a graph?
//
// One object for each thread and graph. It works in its own area of the graph's memory and keeps to the protocol in
// kernels/assembly/hnsw/layout.ts, so others may search and build meanwhile; `settle` alone wants no other builder beside it.

import { none } from "@quiver/kernels/hnsw";
import { invariant } from "../../base/invariant.ts";
import type { Encoding } from "./encoding.ts";
import type { Graph } from "./graph.ts";

/** Candidates for the links of a node that loses some. */
const candidatesMax = 512;

/** Beam of the search for a node that can lead to one that no way leads to. */
const adoptionBeam = 64;

export class Linker {
  readonly #graph: Graph;
  readonly #encoding: Encoding;

  constructor(graph: Graph, encoding: Encoding) {
    this.#graph = graph;
    this.#encoding = encoding;
  }

  /** Encodes and links nodes that the owner has made. `vectors` holds theirs, one after the other. */
  insert(nodes: Uint32Array, vectors: Float32Array): void {
    const graph = this.#graph;
    const { dimension } = this.#encoding;
    graph.refresh();
    nodes.forEach((node, i) => {
      graph.encode(node, this.#encoding, vectors.subarray(i * dimension, (i + 1) * dimension));
      graph.kernels.hnswInsert(graph.area, node, graph.levelOf(node));
    });
  }

  repair(nodes: Uint32Array): void {
    const graph = this.#graph;
    graph.refresh();
    for (const node of nodes) graph.kernels.hnswRepair(graph.area, node, candidatesMax);
  }

  /**
   * A node can lose its last link from others when their lists are chosen anew: gives each such node of `living` a link.
   * Returns how many there were.
   */
  settle(living: Uint32Array): number {
    const graph = this.#graph;
    graph.refresh();
    if (living.length === 0) return 0;
    if (graph.ordinalOf(graph.entry) === none) graph.entry = this.#highest(living);
    const { parents, orphans } = reach(graph, living);
    for (const orphan of orphans) this.#adopt(orphan, parents, living);
    return orphans.length;
  }

  #highest(living: Uint32Array): number {
    let highest = living[0];
    for (const node of living) if (this.#graph.levelOf(node) > this.#graph.levelOf(highest)) highest = node;
    return highest;
  }

  /**
   * Gives an unreached node a link from a reached one, a near one where that can be. A link that is no branch of the tree
   * of ways may be given up for it; so what was reached remains so.
   */
  #adopt(orphan: number, parents: Uint32Array, living: Uint32Array): void {
    const graph = this.#graph;
    const { kernels } = graph;
    kernels.queryOfNode(orphan, graph.placeOf("query"));
    kernels.hnswEnter(graph.area);
    const found = kernels.hnswSearch(graph.area, adoptionBeam);
    kernels.hnswLeave(graph.area);
    const beam = graph.placeOf("beam") / 4;
    for (let i = 0; i < found; i++) {
      if (this.#isAdopted(orphan, graph.words[beam + 2 * i] >>> 1, parents)) return;
    }
    // A tree has fewer branches than the nodes have links, two at least each: there is one that can give one up.
    for (const node of living) if (this.#isAdopted(orphan, node, parents)) return;
    invariant(false, `no node has room for a link to ${orphan}`);
  }

  #isAdopted(orphan: number, near: number, parents: Uint32Array): boolean {
    const graph = this.#graph;
    if (near === orphan || parents[near] === none || graph.ordinalOf(near) === none) return false;
    const list = graph.listAt(near, 0);
    const count = graph.words[list];
    parents[orphan] = near;
    // One that was unreached itself a moment ago may have the link already.
    if (graph.linksOf(near, 0).includes(orphan)) return true;
    let place = count;
    if (count === graph.shape.m0) {
      do place--;
      while (place >= 0 && parents[graph.words[list + 1 + place]] === near);
      if (place < 0) {
        parents[orphan] = none;
        return false;
      }
    }
    graph.words[list + 1 + place] = orphan;
    Atomics.store(graph.words, list, Math.max(count, place + 1));
    return true;
  }
}

/**
 * A tree of ways from the entry point at level 0, as the parent of each unit (`none`: not reached; the entry point is its
 * own), and the living nodes that are not in it. Takes time in proportion to all links.
 */
export function reach(graph: Graph, living: Iterable<number>): { parents: Uint32Array; orphans: number[] } {
  const parents = new Uint32Array(graph.units).fill(none);
  const stack = [graph.entry];
  parents[graph.entry] = graph.entry;
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    const list = graph.listAt(node, 0);
    const end = list + graph.words[list];
    for (let at = list + 1; at <= end; at++) {
      const link = graph.words[at];
      if (parents[link] !== none) continue;
      parents[link] = node;
      stack.push(link);
    }
  }
  const orphans: number[] = [];
  for (const node of living) if (parents[node] === none) orphans.push(node);
  return { parents, orphans };
}
