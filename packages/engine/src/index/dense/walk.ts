// Which way does a search take through a graph?
//
// The searches of the kernels once more in TypeScript (kernels/assembly/hnsw/search-layer.ts, search-allowed.ts): over the same links, with
// keys that the kernel computes, and with the same decisions, so its beam is theirs, entry by entry (walk.test.ts). It keeps what they do not:
// which nodes were compared, in which order, and from which node each was reached. So searches pay nothing for it. A replay takes about ten
// times as long as its search: 1 ms with a beam of 128, 9 ms with the longest of 4,096 (15,000 vectors of 64 dimensions).

import { none, scratch } from "@quiverdb/kernels/hnsw";
import type { AllowedNodes } from "./allowed-nodes.ts";
import { type Beam, type CutBeam, lengthOf } from "./beam.ts";
import { dataTypeNumbers } from "./code-types.ts";
import type { Graph } from "./graph.ts";

export type GraphWalk = {
  /** Nodes of the bottom level in the order in which they were compared with the query. */
  readonly nodes: readonly number[];
  /** Of each, the position of the node whose links led to it; -1: the search began there. */
  readonly from: readonly number[];
  /** Comparisons on all levels. */
  readonly distances: number;
  /** The nodes of the beam, nearest first. */
  readonly beam: readonly number[];
};

type Entry = {
  readonly key: number;
  readonly node: number;
  /** Position among the nodes of the pass. */
  readonly at: number;
  isFollowed: boolean;
};

/** Entries are ordered by key, then by node. */
const isBefore = (a: Pick<Entry, "key" | "node">, b: Pick<Entry, "key" | "node">): boolean =>
  a.key < b.key || (a.key === b.key && a.node < b.node);

/**
 * Replays a search for the query in the scratch memory of this thread, which is entered.
 * @param among the search is one among these nodes alone, see GraphSearch.searchAmong
 */
export function walkOf(graph: Graph, beam: Beam, among: AllowedNodes | null = null): GraphWalk {
  const keys = new Keys(graph);
  const entry = graph.entry;
  if (entry === none) return { nodes: [], from: [], distances: 0, beam: [] };
  let [key] = keys.of([entry]);
  let start = entry;
  for (let level = graph.levelOf(entry); level > 0; level--) {
    const pass = new Pass(graph, keys, start, key, 1);
    pass.follow((node) => pass.unmet(graph.linksOf(node, level)));
    ({ key, node: start } = pass.beam[0]);
  }
  const cut = typeof beam === "number" ? null : beam;
  const pass = new Pass(graph, keys, start, key, lengthOf(beam), cut);
  if (among === null) pass.follow((node) => pass.unmet(graph.linksOf(node, 0)));
  else {
    for (const seeds of groupsOf(among.seeds, pass, graph.shape.m0)) pass.offer(seeds, -1);
    pass.follow((node) => allowedAround(graph, pass, among.bits, node));
  }
  const { nodes, from } = pass;
  return { nodes, from, distances: keys.count, beam: pass.beam.map(({ node }) => node) };
}

/** Keys of nodes for the query, in the batch of the scratch memory. */
class Keys {
  readonly #graph: Graph;
  /** What makes half of the squared distance of a key. */
  readonly offset: number;
  /** Keys that were computed. */
  count = 0;

  constructor(graph: Graph) {
    this.#graph = graph;
    const isWhole = graph.shape.dataType === dataTypeNumbers.f32;
    this.offset = isWhole ? 0 : graph.floats[graph.placeOf("query") / 4 + 3];
  }

  /** @param nodes at least one, and no more than a list has links. @returns a copy */
  of(nodes: readonly number[]): Float32Array {
    const { words, floats, kernels } = this.#graph;
    const [ids, keys] = [this.#graph.placeOf("batch"), this.#graph.placeOf("keys")];
    // Whole fours are read.
    for (let i = 0; i < 4 * Math.ceil(nodes.length / 4); i++)
      words[ids / 4 + i] = nodes[Math.min(i, nodes.length - 1)];
    kernels.keysOf(this.#graph.placeOf("query"), ids, nodes.length, keys);
    this.count += nodes.length;
    return floats.slice(keys / 4, keys / 4 + nodes.length);
  }
}

/** The search of one level. */
class Pass {
  readonly nodes: number[];
  readonly from: number[] = [-1];
  readonly beam: Entry[];
  readonly met: Set<number>;
  readonly #keys: Keys;
  readonly #ef: number;
  readonly #cut: CutBeam | null;
  /** Entries behind it do not enter the beam. */
  #worst: Pick<Entry, "key" | "node"> | undefined;

  constructor(graph: Graph, keys: Keys, start: number, key: number, ef: number, cut: CutBeam | null = null) {
    this.#keys = keys;
    this.#ef = ef;
    this.#cut = cut;
    this.nodes = [start];
    this.beam = [{ key, node: start, at: 0, isFollowed: false }];
    const banned = graph.words[(graph.scratch + scratch.banned) / 4];
    this.met = new Set(banned === 0 ? [start] : [start, banned - 1]);
  }

  /** Follows the nearest entry that was not followed, until there is none. @param reached nodes that an entry leads to, not met before */
  follow(reached: (node: number) => readonly number[]): void {
    for (let cursor = 0; cursor < this.beam.length; ) {
      const entry = this.beam[cursor];
      if (entry.isFollowed) cursor++;
      else {
        entry.isFollowed = true;
        cursor = Math.min(cursor, this.offer(reached(entry.node), entry.at));
      }
    }
  }

  /** Those of some nodes that were not met; from now on they are. */
  unmet(nodes: Iterable<number>): number[] {
    const unmet: number[] = [];
    for (const node of nodes) {
      if (this.met.has(node)) continue;
      this.met.add(node);
      unmet.push(node);
    }
    return unmet;
  }

  /** Compares nodes, and takes those into the beam that are near enough. @returns the place of the nearest of them, or a greater one */
  offer(nodes: readonly number[], from: number): number {
    if (nodes.length === 0) return Number.POSITIVE_INFINITY;
    const { beam } = this;
    const worst = beam.length < this.#ef ? this.#worst : beam[beam.length - 1];
    let first = Number.POSITIVE_INFINITY;
    for (const [i, key] of this.#keys.of(nodes).entries()) {
      const entry = { key, node: nodes[i], at: this.nodes.length, isFollowed: false };
      this.nodes.push(entry.node);
      this.from.push(from);
      if (worst !== undefined && !isBefore(entry, worst)) continue;
      const place = placeIn(beam, entry);
      beam.splice(place, 0, entry);
      first = Math.min(first, place);
    }
    if (beam.length > this.#ef) beam.length = this.#ef;
    if (Number.isFinite(first)) this.#shorten();
    return first;
  }

  /** Drops what is beyond the cutoff. */
  #shorten(): void {
    const { beam } = this;
    const cut = this.#cut;
    if (cut === null || beam.length < cut.least) return;
    const { key } = beam[9];
    const { fround } = Math;
    const farther = fround(Math.max(0, fround(key + this.#keys.offset)) * fround(cut.spread));
    const limit = { key: fround(key + farther), node: Number.POSITIVE_INFINITY };
    const last = beam[cut.least - 1];
    this.#worst = isBefore(limit, last) ? last : limit;
    while (isBefore(this.#worst, beam[beam.length - 1])) beam.pop();
  }
}

function placeIn(beam: readonly Entry[], entry: Entry): number {
  let low = 0;
  for (let end = beam.length; low < end; ) {
    const middle = (low + end) >> 1;
    if (isBefore(beam[middle], entry)) low = middle + 1;
    else end = middle;
  }
  return low;
}

/** The seeds that were not met, in groups of this size: each is compared with the beam that the one before has left. */
function* groupsOf(seeds: Iterable<number>, pass: Pass, size: number): Generator<number[]> {
  const unmet = pass.unmet(seeds);
  for (let from = 0; from < unmet.length; from += size) yield unmet.slice(from, from + size);
}

/** The allowed nodes that a node leads to: by its links, and, where too few of them are allowed, by the links of the others. */
function allowedAround(graph: Graph, pass: Pass, bits: Uint8Array, node: number): number[] {
  const isAllowed = (other: number) => ((bits[other >> 3] >> (other & 7)) & 1) === 1;
  const { m0 } = graph.shape;
  const enough = (m0 * 3) >> 2;
  const links = graph.linksOf(node, 0);
  const reached: number[] = [];
  const passed: number[] = [];
  let allowed = links.filter(isAllowed).length;
  for (const link of pass.unmet(links)) (isAllowed(link) ? reached : passed).push(link);
  for (const way of passed) {
    if (allowed >= enough) break;
    for (const link of graph.linksOf(way, 0)) {
      if (reached.length === m0) break;
      if (!isAllowed(link)) continue;
      allowed++;
      reached.push(...pass.unmet([link]));
    }
  }
  return reached;
}
