// What does a thread know of graphs that another one owns?

import { attachOnce } from "../attached.ts";
import { absent, OrdinalMapReader, type SharedOrdinalMap } from "../ordinal-map.ts";
import { Encoding, type EncodingState } from "./encoding.ts";
import { Graph, type SharedGraph } from "./graph.ts";
import { GraphSearch } from "./graph-search.ts";
import { NodeBlocks } from "./node-blocks.ts";

/** What a thread needs to search a set of graphs as it was at a time. Can be posted to it. */
export type SharedGraphs = {
  readonly id: number;
  readonly encoding: EncodingState;
  /** By number; undefined where one was given up. */
  readonly partitions: readonly (SharedGraph | undefined)[];
  /** Name -> place. */
  readonly places: SharedOrdinalMap;
  readonly count: number;
};

export class AttachedGraphs {
  readonly encoding: Encoding;
  readonly reader: GraphSearch;
  /** Names that were linked. */
  readonly count: number;
  readonly isAttached = true;
  readonly graphs: readonly Graph[];
  readonly #places: OrdinalMapReader;

  /** @param slot of this thread: the number of its scratch memory */
  constructor({ id, encoding, partitions, places, count }: SharedGraphs, slot: number) {
    // It has buffers, which are this thread's own.
    this.encoding = attachOnce(id, slot, () => Encoding.fromState(encoding));
    this.#places = new OrdinalMapReader(places);
    this.count = count;
    const attached = partitions.map((graph) => graph && { graph: Graph.attach(graph, slot) });
    this.graphs = attached.flatMap((partition) => partition?.graph ?? []);
    this.reader = new GraphSearch(this.encoding, {
      partitions: attached,
      placeOf: (name) => this.#places.get(name),
      // A name that is linked later may be met without a place. It is in the tail that was described with the graphs.
      isChanging: true,
      blocks: new NodeBlocks(),
    });
  }

  has(name: number): boolean {
    return this.#places.get(name) !== absent;
  }
}
