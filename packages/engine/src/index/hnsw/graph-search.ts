// Which names are nearest to a query by the codes of all graphs?
//
// The part of a set of graphs that searches use. It changes only the scratch memory of its thread.

import { none } from "@quiver/kernels/hnsw";
import type { Growable } from "../../base/growable.ts";
import { absent } from "../ordinal-map.ts";
import type { Encoding } from "./encoding.ts";
import type { Graph } from "./graph.ts";
import type { LinkQueue } from "./link-queue.ts";
import { type NodeMap, nodeOf, partitionNumberOf } from "./node-map.ts";

export class GraphSearch {
  readonly #encoding: Encoding;
  readonly #nodes: NodeMap;
  readonly #queue: LinkQueue;

  constructor(encoding: Encoding, nodes: NodeMap, queue: LinkQueue) {
    this.#encoding = encoding;
    this.#nodes = nodes;
    this.#queue = queue;
  }

  /**
   * Searches all graphs with a beam, and adds the first `wanted` accepted names of each, best by code first. The query is borrowed.
   * @returns whether a wider beam would find no more
   */
  search(
    query: Float32Array,
    beam: number,
    wanted: number,
    accepts: ((name: number) => boolean) | null,
    without: number,
    names: Growable<Uint32Array>,
  ): boolean {
    const banned = without === absent ? absent : this.#nodes.get(without);
    const { partitions } = this.#nodes;
    let isExhausted = true;
    for (let number = 0; number < partitions.length; number++) {
      const partition = partitions[number];
      if (partition === undefined) continue;
      const isHere = banned !== absent && partitionNumberOf(banned) === number;
      const node = isHere ? nodeOf(banned) : none;
      if (this.#searchGraph(partition.graph, query, beam, wanted, accepts, node, names) === beam)
        isExhausted = false;
    }
    return isExhausted;
  }

  #searchGraph(
    graph: Graph,
    query: Float32Array,
    beam: number,
    wanted: number,
    accepts: ((name: number) => boolean) | null,
    without: number,
    names: Growable<Uint32Array>,
  ): number {
    graph.setQuery(this.#encoding, query);
    graph.ban(without);
    graph.kernels.hnswEnter(graph.scratch);
    const found = graph.kernels.hnswSearch(graph.scratch, beam);
    const { words } = graph;
    const at = graph.placeOf("beam") / 4;
    const isChanging = this.#queue.isLinking || this.#nodes.hasKilledLater;
    const end = names.length + wanted;
    for (let i = 0; i < found && names.length < end; i++) {
      const name = graph.ordinalOf(words[at + 2 * i] >>> 1);
      if (name === none) continue;
      // Names that are being linked are found in the tail; names that are to be killed no longer exist.
      if (isChanging && this.#nodes.get(name) === absent) continue;
      if (accepts !== null && !accepts(name)) continue;
      names.push(name);
    }
    graph.kernels.hnswLeave(graph.scratch);
    return found;
  }

  /**
   * Whether the code of a linked name is no nearer to the query of the last search than the last of the best `depth` of the names
   * that it found: then no way to it would have been enough.
   */
  isBeyond(name: number, found: Growable<Uint32Array>, depth: number): boolean {
    if (found.length < depth) return false;
    const key = this.#keyOf(name);
    return key !== undefined && key >= (this.#keyOf(found.values[depth - 1]) ?? Number.POSITIVE_INFINITY);
  }

  #keyOf(name: number): number | undefined {
    const place = this.#nodes.get(name);
    if (place === absent) return undefined;
    const { graph } = this.#nodes.partitionOf(place);
    const [ids, keys] = [graph.placeOf("batch"), graph.placeOf("keys")];
    for (let i = 0; i < 4; i++) graph.words[ids / 4 + i] = nodeOf(place);
    graph.kernels.keysOf(graph.placeOf("query"), ids, 1, keys);
    return graph.floats[keys / 4];
  }

  /** Whether the code of a linked name is that of this vector. */
  hasCode(name: number, vector: Float32Array): boolean {
    const place = this.#nodes.get(name);
    if (place === absent) return false;
    const { graph } = this.#nodes.partitionOf(place);
    const node = nodeOf(place);
    const code = Buffer.alloc(graph.shape.codeBytes);
    this.#encoding.encode(vector, code);
    const meta = graph.metaAt(node);
    return (
      graph.floats[meta] === this.#encoding.lastFactor &&
      graph.floats[meta + 1] === this.#encoding.lastBias &&
      code.equals(graph.bytes.subarray(graph.at(node), graph.at(node) + code.length))
    );
  }
}
