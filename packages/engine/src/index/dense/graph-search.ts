// Which vector keys are nearest to a query by the codes of all graphs?
//
// What a search needs of a set of graphs: the owner's thread searches them as they are, other threads as they were described to them. It
// changes nothing but the scratch memory of its thread.
//
// Two epochs keep a search from memory that is used for something else. That of a graph (Graph.beginEpoch) is for slots: a search that
// follows links (`hnswEnter` to `hnswLeave`, some hundred microseconds) may stand on any slot, and when it has left, it has vector keys and knows
// no slot any more. So slots are used again after some milliseconds, while searches in steps go on, and views stay pinned for long. The
// epoch of the view (views/view.ts) is for all else: vector keys, and what they lead to.

import { none, scratch } from "@quiverdb/kernels/hnsw";
import { compareBytes } from "../../base/bytes.ts";
import type { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { attachOnce } from "../../base/shared-memory.ts";
import type { OrdinalBitmap } from "../ordinal-bitmap.ts";
import { absent, OrdinalMapReader, type SharedOrdinalMap } from "../ordinal-map.ts";
import { AllowedNodes } from "./allowed-nodes.ts";
import { type Beam, lengthOf } from "./beam.ts";
import type { DuplicateVectorsReader } from "./duplicate-vectors.ts";
import { Encoding, type EncodingState } from "./encoding.ts";
import { Graph, type SharedGraph } from "./graph.ts";
import { efMax } from "./graph-layout.ts";
import { nodeOf, nodesOf, partitionNumberOf } from "./node-map.ts";
import { walkOf } from "./walk.ts";

/** The graphs of a set, as a thread knows them. */
type GraphParts = {
  /** By number; undefined where one was given up. */
  readonly partitions: readonly ({ readonly graph: Graph } | undefined)[];
  /** Vector key -> place. */
  readonly places: OrdinalMapReader;
  /** Vector keys that are linked. */
  readonly count: number;
  /** Whether another thread owns them. Vector keys that it links later are found, too, although they are not counted; the rows have them still. */
  readonly isAttached: boolean;
  /** Whether a node may be met whose vector key is not linked yet, or any more. */
  readonly isChanging: boolean;
};

/** What a thread needs to search a set of graphs as it was at a time. Can be posted to it. */
export type SharedGraphs = {
  readonly id: number;
  readonly encoding: EncodingState;
  /** By number; undefined where one was given up. */
  readonly partitions: readonly (SharedGraph | undefined)[];
  readonly places: SharedOrdinalMap;
  readonly count: number;
};

/** The way of a search through all graphs. */
export type Walk = {
  /** What was compared at the bottom level, in order; `absent`: a node without a linked vector key, such as a removed one. */
  readonly vectorKeys: readonly number[];
  /** Of each, the position of the one whose links led to it; -1: the search of a graph began there. */
  readonly from: readonly number[];
  /** Comparisons on all levels. */
  readonly distances: number;
};

/** Asserts that a beam fits into the scratch memory. */
function assertBeam(beam: Beam): void {
  const most = lengthOf(beam);
  invariant(
    most >= 1 && most <= efMax,
    () => `a graph is searched with a beam of ${most}, up to ${efMax} fit`,
  );
}

export class GraphSearch {
  readonly encoding: Encoding;
  readonly #graphs: GraphParts;
  /** Nodes of the bottom level that the last `search` has compared. */
  compared = 0;

  constructor(encoding: Encoding, graphs: GraphParts) {
    this.encoding = encoding;
    this.#graphs = graphs;
  }

  /** The reader of graphs that another thread owns. @param slot of this one: the number of its scratch memory */
  static attach({ id, encoding, partitions, places, count }: SharedGraphs, slot: number): GraphSearch {
    // It has buffers, which are this thread's own.
    const known = attachOnce(id, slot, () => Encoding.fromState(encoding));
    return new GraphSearch(known, {
      partitions: partitions.map((graph) => graph && { graph: Graph.attach(graph, slot) }),
      places: new OrdinalMapReader(places),
      count,
      isAttached: true,
      // A vector key that is linked later may be met without a place. It is in the tail that was described with the graphs.
      isChanging: true,
    });
  }

  /** Vector keys that are linked. */
  get count(): number {
    return this.#graphs.count;
  }

  /** Whether another thread owns the graphs: what it links later is found, although it is not counted. */
  get isAttached(): boolean {
    return this.#graphs.isAttached;
  }

  /** Whether there is one graph, and not several. */
  get isOne(): boolean {
    return this.#onlyGraph !== undefined;
  }

  has(vectorKey: number): boolean {
    return this.#graphs.places.get(vectorKey) !== absent;
  }

  /**
   * Searches all graphs with a beam, and adds the first `wanted` accepted vector keys of each, best by code first. The query is borrowed.
   * @returns whether a wider beam would find no more
   */
  search(
    query: Float32Array,
    beam: Beam,
    wanted: number,
    accepts: ((vectorKey: number) => boolean) | null,
    without: number,
    vectorKeys: Growable<Uint32Array>,
  ): boolean {
    assertBeam(beam);
    this.compared = 0;
    const full = typeof beam === "number" ? beam : beam.least;
    const banned = without === absent ? absent : this.#graphs.places.get(without);
    const { partitions } = this.#graphs;
    let isExhausted = true;
    for (let number = 0; number < partitions.length; number++) {
      const partition = partitions[number];
      if (partition === undefined) continue;
      const isHere = banned !== absent && partitionNumberOf(banned) === number;
      const node = isHere ? nodeOf(banned) : none;
      if (this.#searchGraph(partition.graph, query, beam, wanted, accepts, node, vectorKeys) >= full)
        isExhausted = false;
    }
    return isExhausted;
  }

  /** The nodes of allowed records in the only graph; null if there are several. */
  nodesOf(allowed: OrdinalBitmap, duplicates: DuplicateVectorsReader): AllowedNodes | null {
    const graph = this.#onlyGraph;
    if (graph === undefined) return null;
    const vectorKeyOf = duplicates.isEmpty ? null : (ordinal: number) => duplicates.vectorKeyOf(ordinal);
    return new AllowedNodes(nodesOf(() => graph.slots, allowed, this.#graphs.places, vectorKeyOf));
  }

  get #onlyGraph(): Graph | undefined {
    const [partition, ...others] = this.#graphs.partitions.filter((each) => each !== undefined);
    return others.length > 0 ? undefined : partition?.graph;
  }

  /**
   * Searches the only graph among some nodes alone, and adds the first `wanted` accepted vector keys, best by code first.
   * @returns whether the beam is full: otherwise nodes that it did not reach may be nearer
   */
  searchAmong(
    query: Float32Array,
    beam: number,
    wanted: number,
    accepts: ((vectorKey: number) => boolean) | null,
    nodes: AllowedNodes,
    vectorKeys: Growable<Uint32Array>,
  ): boolean {
    assertBeam(beam);
    const graph = this.#onlyGraph;
    if (graph === undefined) return false;
    graph.refreshIfGrown();
    graph.allow(nodes);
    const search = () => graph.kernels.hnswSearchAllowed(graph.scratch, beam, nodes.seeds.length);
    return this.#collect(graph, query, search, wanted, accepts, none, vectorKeys) === beam;
  }

  #searchGraph(
    graph: Graph,
    query: Float32Array,
    beam: Beam,
    wanted: number,
    accepts: ((vectorKey: number) => boolean) | null,
    without: number,
    vectorKeys: Growable<Uint32Array>,
  ): number {
    const { kernels, scratch: at } = graph;
    const search = () =>
      typeof beam === "number"
        ? kernels.hnswSearch(at, beam)
        : kernels.hnswSearchWithin(at, beam.most, beam.least, beam.spread);
    const found = this.#collect(graph, query, search, wanted, accepts, without, vectorKeys);
    this.compared += graph.words[(at + scratch.compared) / 4];
    return found;
  }

  /** Adds the first accepted vector keys of a search's beam. @returns its length */
  #collect(
    graph: Graph,
    query: Float32Array,
    search: () => number,
    wanted: number,
    accepts: ((vectorKey: number) => boolean) | null,
    without: number,
    vectorKeys: Growable<Uint32Array>,
  ): number {
    graph.refreshIfGrown();
    graph.setQuery(this.encoding, query);
    graph.ban(without);
    graph.kernels.hnswEnter(graph.scratch);
    const found = search();
    // It may have met nodes that were made meanwhile.
    graph.refreshIfGrown();
    const { words } = graph;
    const at = graph.placeOf("beam") / 4;
    const { isChanging } = this.#graphs;
    const end = vectorKeys.length + wanted;
    for (let i = 0; i < found && vectorKeys.length < end; i++) {
      const vectorKey = graph.ordinalOf(words[at + 2 * i] >>> 1);
      if (vectorKey === none) continue;
      // What is being linked is found elsewhere; what is to be killed is gone.
      if (isChanging && this.#graphs.places.get(vectorKey) === absent) continue;
      if (accepts !== null && !accepts(vectorKey)) continue;
      vectorKeys.push(vectorKey);
    }
    graph.kernels.hnswLeave(graph.scratch);
    return found;
  }

  /**
   * Replays `search`, or with nodes `searchAmong`, with a beam of the same length. It is the way of that search, as long as the graphs have
   * not changed since.
   */
  walk(query: Float32Array, beam: Beam, nodes: AllowedNodes | null): Walk {
    assertBeam(beam);
    const vectorKeys: number[] = [];
    const from: number[] = [];
    let distances = 0;
    for (const partition of this.#graphs.partitions) {
      if (partition === undefined) continue;
      const { graph } = partition;
      graph.refreshIfGrown();
      graph.setQuery(this.encoding, query);
      graph.ban(none);
      graph.kernels.hnswEnter(graph.scratch);
      try {
        const walk = walkOf(graph, beam, nodes);
        const first = vectorKeys.length;
        for (const [i, node] of walk.nodes.entries()) {
          const vectorKey = graph.ordinalOf(node);
          const isLinked = vectorKey !== none && this.#graphs.places.get(vectorKey) !== absent;
          vectorKeys.push(isLinked ? vectorKey : absent);
          from.push(walk.from[i] < 0 ? -1 : first + walk.from[i]);
        }
        distances += walk.distances;
      } finally {
        graph.kernels.hnswLeave(graph.scratch);
      }
    }
    return { vectorKeys, from, distances };
  }

  /**
   * Whether the code of a linked vector key is no nearer to the query of the last search than the last of the best `depth` of the vector keys
   * that it found: then no way to it would have been enough.
   */
  isBeyond(vectorKey: number, found: Growable<Uint32Array>, depth: number): boolean {
    if (found.length < depth) return false;
    const key = this.#keyOf(vectorKey);
    return key !== undefined && key >= (this.#keyOf(found.values[depth - 1]) ?? Number.POSITIVE_INFINITY);
  }

  #graphOf(place: number): Graph {
    const partition = this.#graphs.partitions[partitionNumberOf(place)];
    invariant(partition !== undefined, `the partition of place ${place} was given up`);
    return partition.graph;
  }

  #keyOf(vectorKey: number): number | undefined {
    const place = this.#graphs.places.get(vectorKey);
    if (place === absent) return undefined;
    const graph = this.#graphOf(place);
    const [ids, keys] = [graph.placeOf("batch"), graph.placeOf("keys")];
    for (let i = 0; i < 4; i++) graph.words[ids / 4 + i] = nodeOf(place);
    graph.kernels.keysOf(graph.placeOf("query"), ids, 1, keys);
    return graph.floats[keys / 4];
  }

  /** Whether the code of a linked vector key is that of this vector. */
  hasCode(vectorKey: number, vector: Float32Array): boolean {
    const place = this.#graphs.places.get(vectorKey);
    if (place === absent) return false;
    const graph = this.#graphOf(place);
    const node = nodeOf(place);
    const code = new Uint8Array(graph.shape.codeBytes);
    this.encoding.encode(vector, code);
    const meta = graph.metaAt(node);
    return (
      graph.floats[meta] === this.encoding.lastFactor &&
      graph.floats[meta + 1] === this.encoding.lastBias &&
      compareBytes(code, graph.bytes.subarray(graph.at(node), graph.at(node) + code.length)) === 0
    );
  }
}
