// Which node of which graph has a vector key?
//
// A graph is stored in one WebAssembly memory of at most 4 GiB; when it is full, the next *partition* is started. A *place* is the number
// of a partition and a node in it, in one u32. Searches read the map (graph-search.ts); only the owner of the graphs writes it
// (graph-set.ts, graph-jobs.ts).

import { none } from "@quiverdb/kernels/hnsw";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import { absent, OrdinalMap } from "../ordinal-map.ts";
import { NodeBlocks } from "./allowed-nodes.ts";
import type { Graph } from "./graph.ts";
import type { Partition } from "./partition.ts";

const partitionsMax = 255;
/** Slots that are looked at in a step. */
const slotsPerStep = 4_096;
/** A place is a partition's number times this, plus a node. */
const slotsPerPartition = 2 ** 24;
const nodeMask = slotsPerPartition - 1;

/** The node of a place. */
export const nodeOf = (place: number): number => place & nodeMask;

/** The number of the partition of a place. */
export const partitionNumberOf = (place: number): number => Math.floor(place / slotsPerPartition);

export class NodeMap {
  /** Name -> place. */
  readonly places: OrdinalMap;
  /** By number; undefined where one was given up. */
  readonly partitions: (Partition | undefined)[] = [];
  /** Where adjacent vector keys have adjacent nodes. */
  readonly blocks = new NodeBlocks();
  #isHeld = false;
  /** Nodes whose vector keys were removed while a checkpoint of the graphs is written, which must not change meanwhile. */
  #killedLater: { partition: Partition; node: number }[] = [];

  /** @param retire see OrdinalMap */
  constructor(retire?: (free: () => void) => void) {
    this.places = new OrdinalMap(retire);
  }

  /** Partitions that are there. */
  living(): Partition[] {
    return this.partitions.filter((partition) => partition !== undefined);
  }

  get graphs(): Graph[] {
    return this.living().map(({ graph }) => graph);
  }

  /** The place of a vector key, or `absent`. */
  get(vectorKey: number): number {
    return this.places.get(vectorKey);
  }

  /** A vector key is linked. */
  set(vectorKey: number, number: number, node: number): void {
    invariant(this.places.get(vectorKey) === absent, () => `the vector key ${vectorKey} is linked twice`);
    invariant(
      number < partitionsMax && node < slotsPerPartition,
      () => `there is no place for node ${node} of partition ${number}`,
    );
    this.places.set(vectorKey, number * slotsPerPartition + node);
  }

  partitionOf(place: number): Partition {
    const partition = this.partitions[partitionNumberOf(place)];
    invariant(partition !== undefined, `the partition of place ${place} was given up`);
    return partition;
  }

  /** The number that a further partition gets. */
  freeNumber(): number {
    const free = this.partitions.indexOf(undefined);
    const number = free >= 0 ? free : this.partitions.length;
    invariant(number < partitionsMax, `an index has at most ${partitionsMax} partitions`);
    return number;
  }

  /** Takes the living nodes of a partition, whose image was restored, over, in steps. */
  *restore(number: number, partition: Partition): Steps<void> {
    const { graph } = partition;
    graph.refresh();
    let restored = 0;
    for (let node = 0; node < graph.slots; node++) {
      if (node % slotsPerStep === 0) yield;
      if (!partition.isLiving(node)) continue;
      const vectorKey = graph.ordinalOf(node);
      invariant(
        vectorKey < none,
        `node ${node} of the checkpoint is listed as living, but marked as removed`,
      );
      this.set(vectorKey, number, node);
      restored++;
    }
    invariant(
      restored === partition.count,
      `${restored} living nodes are marked, ${partition.count} counted`,
    );
  }

  /** Takes a linked vector key out. */
  remove(vectorKey: number, place: number): void {
    invariant(
      this.places.get(vectorKey) === place,
      () => `the vector key ${vectorKey} is not at ${place}, where it is removed`,
    );
    this.places.delete(vectorKey);
    this.blocks.forget(vectorKey);
    this.kill(this.partitionOf(place), nodeOf(place));
  }

  /** Marks a node as removed, now or when the graphs are not held any more. */
  kill(partition: Partition, node: number): void {
    if (this.#isHeld) this.#killedLater.push({ partition, node });
    else partition.kill(node);
  }

  /** Whether nodes that are marked as living have no vector key any more. */
  get hasKilledLater(): boolean {
    return this.#killedLater.length > 0;
  }

  /** The bytes of the graphs do not change until `release`. */
  hold(): void {
    invariant(!this.#isHeld, "nodes are held twice");
    this.#isHeld = true;
  }

  release(): void {
    invariant(this.#isHeld, "nodes are released that nobody holds");
    this.#isHeld = false;
    for (const { partition, node } of this.#killedLater.splice(0)) partition.kill(node);
  }

  /** Proves that a vector key has the node that says so. */
  checkPlace(vectorKey: number, number: number, node: number): void {
    const place = this.places.get(vectorKey);
    invariant(
      place === number * slotsPerPartition + node,
      `the vector key ${vectorKey} has node ${node}, the map says ${place}`,
    );
  }

  /** Proves that a vector key is not linked. */
  checkAbsent(vectorKey: number): void {
    invariant(this.places.get(vectorKey) === absent, `the queued name ${vectorKey} is linked`);
  }
}
