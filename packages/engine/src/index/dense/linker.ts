// How does a builder change a graph?
//
// One object for each thread and graph. It works in its own scratch memory inside the graph's memory and follows the protocol in
// kernels/assembly/hnsw/layout.ts, so other threads may search and build meanwhile; only `redraw` needs all other builders idle.

import { none } from "@quiverdb/kernels/hnsw";
import { invariant } from "../../base/invariant.ts";
import type { Encoding } from "./encoding.ts";
import { Graph, type SharedGraph } from "./graph.ts";
import { copyInOrder, type NewSlots } from "./node-order.ts";

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
    graph.refreshIfGrown();
    nodes.forEach((node, i) => {
      graph.encode(node, this.#encoding, vectors.subarray(i * dimension, (i + 1) * dimension));
      graph.kernels.hnswInsert(graph.scratch, node, graph.levelOf(node));
    });
  }

  repair(nodes: Uint32Array): void {
    const graph = this.#graph;
    graph.refreshIfGrown();
    for (const node of nodes) graph.kernels.hnswRepair(graph.scratch, node, candidatesMax);
  }

  /** Adds links so that a beam of `ef` finds those nodes of `living` that only one list, or only the backbone, leads to. */
  reconnect(living: Uint32Array, ef: number): void {
    const graph = this.#graph;
    graph.refreshIfGrown();
    const { words, kernels } = graph;
    const leading = new Uint8Array(graph.slots);
    for (const node of living) {
      const list = graph.listAt(node, 0);
      for (let at = list + 1; at <= list + words[list]; at++)
        if (leading[words[at]] < 2) leading[words[at]]++;
    }
    for (const node of living) if (leading[node] < 2) kernels.hnswReconnect(graph.scratch, node, ef);
  }

  /** See copyInOrder. */
  copy(kinds: Uint8Array, to: SharedGraph, newSlots: NewSlots): void {
    this.#graph.refreshIfGrown();
    const copy = Graph.attach(to, 0);
    copy.refresh();
    copyInOrder(this.#graph, kinds, copy, newSlots);
  }

  /**
   * Rebuilds the backbone without the removed nodes in `unlinked`: afterwards every living node can be reached without them, and
   * their links may be dropped. No other builder may run at the same time. Takes time in proportion to all links.
   */
  redraw(living: Uint32Array, unlinked: Uint32Array): void {
    this.#graph.refreshIfGrown();
    if (living.length > 0) new Backbone(this.#graph, unlinked).draw(living);
  }
}

/** The backbone of a graph (kernels/assembly/hnsw/layout.ts) while it is rebuilt. */
class Backbone {
  readonly #graph: Graph;
  /** Of each slot; `none`: not in the tree yet. */
  readonly #parents: Uint32Array;
  readonly #children: Uint16Array;
  /** 1 where a node slot is to be left out. */
  readonly #isOut: Uint8Array;
  /** Nodes of the tree, in the order of insertion. */
  readonly #reached: number[] = [];

  constructor(graph: Graph, unlinked: Uint32Array) {
    this.#graph = graph;
    this.#parents = new Uint32Array(graph.slots).fill(none);
    this.#children = new Uint16Array(graph.slots);
    this.#isOut = new Uint8Array(graph.slots);
    for (const node of unlinked) this.#isOut[node] = 1;
  }

  draw(living: Uint32Array): void {
    const graph = this.#graph;
    const { m0 } = graph.shape;
    if (this.#isOut[graph.entry] === 1) graph.entry = highestOf(graph, living);
    const root = graph.entry;
    this.#parents[root] = root;
    this.#reached.push(root);
    // Half of a list at most is tied, as long as that reaches all; then all of it but one, where the entry point's way to the root
    // goes.
    this.#spread(0, Math.max(1, m0 >>> 1));
    this.#spread(0, m0 - 1);
    for (const orphan of living) {
      if (this.#parents[orphan] !== none) continue;
      this.#adopt(orphan);
      this.#spread(this.#reached.length - 1, m0 - 1);
    }
    for (let slot = 0; slot < this.#isOut.length; slot++)
      if (this.#isOut[slot] === 1) graph.setParent(slot, none);
    for (const node of this.#reached) graph.setParent(node, this.#parents[node]);
    graph.root = root;
  }

  /** Adds the link targets of the nodes from the given position on, up to `most` children each. */
  #spread(from: number, most: number): void {
    const { words } = this.#graph;
    for (let i = from; i < this.#reached.length; i++) {
      const node = this.#reached[i];
      const list = this.#graph.listAt(node, 0);
      const end = list + words[list];
      for (let at = list + 1; at <= end && this.#children[node] < most; at++) {
        const link = words[at];
        if (this.#parents[link] === none && this.#isOut[link] === 0) this.#take(link, node);
      }
    }
  }

  #take(node: number, parent: number): void {
    this.#parents[node] = parent;
    this.#children[parent]++;
    this.#reached.push(node);
  }

  /** Links an unreachable node from a near node or, if none has room, from any node of the tree. */
  #adopt(orphan: number): void {
    const graph = this.#graph;
    const { kernels } = graph;
    kernels.queryOfNode(orphan, graph.placeOf("query"));
    kernels.hnswEnter(graph.scratch);
    const found = kernels.hnswSearch(graph.scratch, adoptionBeam);
    kernels.hnswLeave(graph.scratch);
    const beam = graph.placeOf("beam") / 4;
    for (let i = 0; i < found; i++) if (this.#link(graph.words[beam + 2 * i] >>> 1, orphan)) return;
    // A tree has fewer edges than its nodes have child slots, so some node has room.
    for (const node of this.#reached) if (this.#link(node, orphan)) return;
    invariant(false, `no node has room for a link to ${orphan}`);
  }

  #link(parent: number, orphan: number): boolean {
    const graph = this.#graph;
    const { m0 } = graph.shape;
    if (this.#parents[parent] === none || this.#children[parent] >= m0 - 1) return false;
    const list = graph.listAt(parent, 0);
    let place = graph.words[list];
    if (place === m0) {
      // The last link that is no branch goes.
      do place--;
      while (this.#parents[graph.words[list + 1 + place]] === parent);
    }
    graph.words[list + 1 + place] = orphan;
    Atomics.store(graph.words, list, Math.max(graph.words[list], place + 1));
    this.#take(orphan, parent);
    return true;
  }
}

function highestOf(graph: Graph, living: Uint32Array): number {
  let highest = living[0];
  for (const node of living) if (graph.levelOf(node) > graph.levelOf(highest)) highest = node;
  return highest;
}
