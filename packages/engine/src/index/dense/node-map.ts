// Which node of which graph has a vector key?
//
// A graph is stored in one WebAssembly memory of at most 4 GiB; when it is full, the next *partition* is started. A *place* is the number
// of a partition and a node in it, in one u32. Searches read the map (graph-search.ts); only the owner of the graphs writes it
// (graph-set.ts, graph-jobs.ts).

import { none } from "@quiverdb/kernels/hnsw";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { OrdinalBitmap } from "../ordinal-bitmap.ts";
import { absent, OrdinalMap, type OrdinalMapReader, pageLength } from "../ordinal-map.ts";
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

// ---- Which nodes do the records of a set have?
//
// A loop without calls, page by page: a look-up for each record takes ten times as long. That records which are neighbours have nodes which are
// does not help: an idle graph is copied in an order of its own (node-order.ts).

const noPage: Uint32Array = new Uint32Array(pageLength);

/**
 * The nodes of allowed records: a bit for each slot.
 * @param slotsNow of the graph: other threads link more meanwhile
 * @param places of vector keys
 * @param vectorKeyOf the vector key of a duplicate, `absent` for others; null: there are no duplicates
 */
export function nodesOf(
  slotsNow: () => number,
  { words, firstWord }: OrdinalBitmap,
  places: OrdinalMapReader,
  vectorKeyOf: ((ordinal: number) => number) | null,
): Uint32Array<ArrayBuffer> {
  let slots = slotsNow();
  let bits: Uint32Array<ArrayBuffer> = new Uint32Array(Math.ceil(slots / 32));
  let page: Uint32Array = noPage;
  for (let at = 0; at < words.length; at++) {
    const first = 32 * (firstWord + at);
    if (at === 0 || first % pageLength === 0) page = places.pageOf(first) ?? noPage;
    const inPage = first % pageLength;
    // As i32: a u32 may be a double, and this takes twice as long.
    for (let left = words[at] | 0; left !== 0; left &= left - 1) {
      const bit = 31 - Math.clz32(left & -left);
      let place1 = page[inPage + bit] | 0;
      if (place1 === 0) {
        const vectorKey = vectorKeyOf === null ? absent : vectorKeyOf(first + bit);
        const place = vectorKey === absent ? absent : places.get(vectorKey);
        if (place === absent) continue;
        place1 = (place + 1) | 0;
      }
      const node = nodeOf(place1 - 1);
      if (node >= slots) {
        slots = slotsNow();
        bits = grownFor(bits, slots, node);
      }
      bits[node >>> 5] |= 1 << (node & 31);
    }
  }
  return bits;
}

/** Apart, because a closure in the loop, such as that of an invariant's message, would allocate in each of its turns. */
function grownFor(bits: Uint32Array<ArrayBuffer>, slots: number, node: number): Uint32Array<ArrayBuffer> {
  invariant(node < slots, () => `a record has node ${node} of ${slots}`);
  const more = new Uint32Array(Math.ceil(slots / 32));
  more.set(bits);
  return more;
}
