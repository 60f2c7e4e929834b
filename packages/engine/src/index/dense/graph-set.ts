// Which graphs hold the vectors of an index in one encoding?
//
// The owner's side of a set of graphs: it adds and removes vector keys (node-map.ts, link-queue.ts), assigns jobs to builders (graph-jobs.ts),
// and makes checkpoints. Searches use its `reader` (graph-search.ts).
//
// Invariants (see check):
//   1. The node map has each linked vector key, with its partition and node; every live node belongs to a linked vector key.
//   2. A queued vector key is not linked. A vector key that was handed out is linked when the job is done, unless it was removed meanwhile.

import { invariant } from "../../base/invariant.ts";
import { nextMemoryId } from "../../base/shared-memory.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { absent } from "../ordinal-map.ts";
import { checkGraph } from "./check.ts";
import { Encoding, type EncodingState } from "./encoding.ts";
import type { Graph } from "./graph.ts";
import { type GraphHost, GraphJobs } from "./graph-jobs.ts";
import { GraphSearch, type SharedGraphs } from "./graph-search.ts";
import { LinkQueue } from "./link-queue.ts";
import { NodeMap } from "./node-map.ts";
import { type NewSlots, newSlotsFor } from "./node-order.ts";
import { Partition, type PartitionState, stateOfCopy } from "./partition.ts";
import { type GraphSetOptions, shapeOf } from "./set-shape.ts";
import type { Target } from "./tasks.ts";

/** What a checkpoint stores of the graphs besides their images. */
export type GraphSetState = {
  readonly encoding: EncodingState;
  readonly partitions: readonly PartitionState[];
};

/** A copy that is complete after these steps, or the reason why there is none. */
type GraphCopy = { readonly steps: Steps<GraphSet> } | { readonly error: unknown };

/** A partition that is copied: what it was, and what is made of it. */
type PartitionCopy = {
  readonly target: Target;
  readonly state: PartitionState;
  readonly copy: Partition;
  readonly newSlots: NewSlots;
};

/** Rebuilding smaller graphs frees too little memory to be worthwhile. */
const rebuiltMin = 1_000;

export class GraphSet {
  readonly encoding: Encoding;
  /** What searches of this thread go through. */
  readonly reader: GraphSearch;
  readonly #host: GraphHost;
  readonly #id = nextMemoryId();
  readonly #nodes: NodeMap;
  readonly #queue = new LinkQueue();
  readonly #jobs: GraphJobs;

  constructor(encoding: Encoding, options: GraphSetOptions, host: GraphHost) {
    this.encoding = encoding;
    this.#host = host;
    this.#nodes = new NodeMap(host.retire);
    const [nodes, queue] = [this.#nodes, this.#queue];
    this.reader = new GraphSearch(encoding, {
      partitions: nodes.partitions,
      places: nodes.places,
      get count() {
        return nodes.places.size;
      },
      isAttached: false,
      get isChanging() {
        return queue.isLinking || nodes.hasKilledLater;
      },
    });
    this.#jobs = new GraphJobs(encoding, options, host, this.#nodes, this.#queue);
  }

  /** Restores the graphs from a checkpoint. @param load writes the image of each graph, see Graph.image */
  static async restored(
    state: GraphSetState,
    options: GraphSetOptions,
    host: GraphHost,
    load: (graphs: readonly Graph[]) => Promise<void>,
  ): Promise<GraphSet> {
    const encoding = Encoding.fromState(state.encoding);
    const shape = shapeOf(encoding, options);
    const restored = state.partitions.map((kept) => Partition.restored(shape, encoding, kept));
    await load(restored.map(({ graph }) => graph));
    return finishAtOnce(GraphSet.#of(restored, encoding, options, host));
  }

  /** In steps. @param partitions with the images of their graphs */
  static *#of(
    partitions: readonly Partition[],
    encoding: Encoding,
    options: GraphSetOptions,
    host: GraphHost,
  ): Steps<GraphSet> {
    const set = new GraphSet(encoding, options, host);
    set.#nodes.partitions.push(...partitions);
    for (const [number, partition] of partitions.entries()) yield* set.#nodes.restore(number, partition);
    return set;
  }

  /**
   * Makes a copy whose nodes lie in a better order (node-order.ts) as soon as no builder is at work. A builder copies, and the owner
   * completes the copy in steps. These graphs do not change from then on, until `release`; vector keys that are removed meanwhile are in the copy.
   * @param then called once: with the steps, with the reason why there is no copy, or with null if a sweep is running, after which the
   * graphs can be copied, or nothing is left to copy
   */
  copyInOrder(options: GraphSetOptions, host: GraphHost, then: (made: GraphCopy | null) => void): void {
    this.hold(() => {
      const partitions = this.#nodes.living();
      if (partitions.length === 0 || partitions.some(({ isSweeping }) => isSweeping)) {
        then(null);
        return;
      }
      let duplicates: PartitionCopy[];
      try {
        duplicates = partitions.map((partition) => this.#emptyCopy(partition));
      } catch (error) {
        then({ error });
        return;
      }
      let left = duplicates.length;
      let failure: { readonly error: unknown } | undefined;
      for (const { target, state, copy, newSlots } of duplicates)
        this.#host.attempt(
          target,
          { kind: "copy", kinds: state.kinds, to: copy.graph.shared, newSlots },
          (error) => {
            if (error !== null) failure ??= { error };
            if (--left === 0) then(failure ?? { steps: this.#completed(duplicates, options, host) });
          },
        );
    });
  }

  /** Room for the copy of a partition. @throws if the system has no memory for it */
  #emptyCopy(partition: Partition): PartitionCopy {
    const { graph, target, usedSlots } = partition;
    const copy = new Partition(graph.shape, this.encoding);
    copy.graph.reserve(usedSlots);
    return { target, state: partition.state(), copy, newSlots: newSlotsFor(graph.slots) };
  }

  *#completed(
    duplicates: readonly PartitionCopy[],
    options: GraphSetOptions,
    host: GraphHost,
  ): Steps<GraphSet> {
    for (const { state, copy, newSlots } of duplicates)
      yield* copy.restore(yield* stateOfCopy(state, newSlots));
    const partitions = duplicates.map(({ copy }) => copy);
    return yield* GraphSet.#of(partitions, this.encoding, options, host);
  }

  /** What another thread needs to search the graphs as they are now. */
  get shared(): SharedGraphs {
    const partitions = this.#nodes.partitions.map((partition) => partition?.graph.shared);
    const encoding = this.encoding.toState();
    return { id: this.#id, encoding, partitions, places: this.#nodes.places.shared, count: this.count };
  }

  /** Ends what a thread that has died was doing in the scratch memory of this number. */
  abandon(number: number): void {
    for (const graph of this.graphs) graph.abandon(number);
  }

  /** Linked vector keys. */
  get count(): number {
    return this.#nodes.places.size;
  }

  has(vectorKey: number): boolean {
    return this.#nodes.get(vectorKey) !== absent;
  }

  /** Names that are linked, ascending. */
  vectorKeys(): number[] {
    return Array.from(this.#nodes.places.entries(), ([vectorKey]) => vectorKey);
  }

  /** Every needed vector key below this one is linked; infinity if none waits. */
  get linkedEnd(): number {
    return this.#queue.linkedEnd;
  }

  /** Whether nothing is queued or being done. */
  get isIdle(): boolean {
    return this.#jobs.isIdle && this.#queue.isEmpty;
  }

  /** Whether no builder is at work, and none may begin to be. */
  get isQuiet(): boolean {
    return this.#jobs.isQuiet;
  }

  /** Whether a sweep of removed vectors is running or due. */
  get isSweeping(): boolean {
    return this.#nodes.living().some(({ isSweeping, wantsSweep }) => isSweeping || wantsSweep);
  }

  get graphs(): readonly Graph[] {
    return this.#nodes.graphs;
  }

  /** Bytes of codes and links. */
  get graphBytes(): number {
    return this.#nodes.living().reduce((sum, partition) => sum + partition.memoryBytes, 0);
  }

  /** Whether more of the memory is free, after removals, than is used: it never shrinks. */
  get isMostlyFree(): boolean {
    const { graphs } = this;
    const slots = graphs.reduce((sum, graph) => sum + graph.slots, 0);
    const free = graphs.reduce((sum, graph) => sum + graph.freeSlots.length, 0);
    return slots >= rebuiltMin && 2 * free > slots;
  }

  get memoryBytes(): number {
    return this.graphBytes + this.#nodes.places.memoryBytes + this.#queue.memoryBytes;
  }

  /** Queues a vector key to be linked. Vector keys must ascend. */
  enqueue(vectorKey: number): void {
    invariant(!this.has(vectorKey), () => `the vector key ${vectorKey} is queued, and linked already`);
    this.#queue.add(vectorKey);
  }

  /** A vector key has no record any more. If it waits, it is skipped, because the host no longer needs it. */
  remove(vectorKey: number): void {
    const place = this.#nodes.get(vectorKey);
    if (place === absent) this.#queue.cancel(vectorKey);
    else this.#nodes.remove(vectorKey, place);
  }

  /** Starts the next job, or does what takes no time; returns whether there was any. */
  start(): boolean {
    return this.#jobs.start();
  }

  /** Calls back when no builder is working; the graphs do not change until `release`. The call is cancelled by `close`. */
  hold(then: () => void): void {
    this.#jobs.hold(then);
  }

  release(): void {
    this.#jobs.release();
  }

  /** Vectors that few links lead to are to be found by a beam of `ef`. */
  reconnect(ef: number): void {
    this.#jobs.reconnect(ef);
  }

  /** Graphs with some removed nodes are swept early, because removed nodes take entries in every beam. */
  tidy(): void {
    this.#jobs.tidy();
  }

  state(): GraphSetState {
    return {
      encoding: this.encoding.toState(),
      partitions: this.#nodes.living().map((partition) => partition.state()),
    };
  }

  /** Nothing is built any more. Searches that have begun go on with what there is. */
  close(): void {
    for (const { target } of this.#nodes.living()) this.#host.forget(target.id);
    this.#queue.clear();
    this.#jobs.close();
  }

  /** Verifies the invariants. No builder may be working. @param vectorOf the vector of a linked vector key */
  check(vectorOf: (vectorKey: number) => Float32Array): void {
    invariant(this.#jobs.isResting, "graphs are checked while builders are at work");
    this.#nodes.places.check();
    let living = 0;
    for (const [number, partition] of this.#nodes.partitions.entries()) {
      if (partition === undefined) continue;
      partition.check();
      living += partition.count;
      checkGraph(partition, this.encoding, (vectorKey, node) => {
        this.#nodes.checkPlace(vectorKey, number, node);
        return vectorOf(vectorKey);
      });
    }
    invariant(living === this.count, `${living} living nodes for ${this.count} names`);
    for (const vectorKey of this.#queue.waiting()) this.#nodes.checkAbsent(vectorKey);
  }
}
