// What does the owner of a graph know about its node slots?
//
//              take                        beginSweep                  endSweep, epoch over
//   (free) ----------> node --kill--> dead  --------------> unlinked ---------------------> (free)
//
// Searches still traverse a removed node, but never return it, and it gets no new links. When there is one dead node for six live ones, a
// *sweep* rebuilds the backbone without them (linker.ts) and repairs every node that links to them. Then no list leads to them, and a new
// epoch begins; when every thread has left the older epochs, their slots are free. Sweeps precede insertions (graph-jobs.ts), so that
// during a sweep at most a twelfth of the nodes is added: if all vectors are continuously replaced, a quarter of the slots is dead.

import { none } from "@quiverdb/kernels/hnsw";
import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import type { Encoding } from "./encoding.ts";
import { Graph } from "./graph.ts";
import { type GraphShape, kinds } from "./graph-layout.ts";
import type { NewSlots } from "./node-order.ts";
import type { Target } from "./tasks.ts";

/** What a checkpoint stores of a partition besides the graph's slots. */
export type PartitionState = {
  readonly slots: number;
  readonly entry: number;
  readonly root: number;
  readonly count: number;
  readonly kinds: Uint8Array;
};

/** Slots that are looked at in a step. */
const slotsPerStep = 16_384;

export class Partition {
  readonly graph: Graph;
  readonly target: Target;
  readonly kinds = new Growable(Uint8Array);
  /** Living nodes. */
  count = 0;
  #dead: number[] = [];
  /** The next slot of the sweep; -1 if none is running. */
  #sweepAt = -1;
  /** How many of the dead were dead when the sweep began: the first ones. */
  #sweptDead = 0;
  readonly #unlinked: { epoch: number; nodes: number[] }[] = [];

  constructor(shape: GraphShape, encoding: Encoding) {
    this.graph = new Graph(shape);
    this.target = { id: this.graph.id, graph: this.graph, encoding };
  }

  /** Allocates slots for a node of this ordinal; no search can reach it yet. */
  take(ordinal: number, level: number): number {
    const node = this.graph.make(ordinal, level);
    while (this.kinds.length < this.graph.slots) this.kinds.push(kinds.free);
    invariant(this.kinds.values[node] === kinds.free, () => `the slot ${node} is taken, and is not free`);
    this.kinds.values[node] = kinds.node;
    for (const slot of this.graph.upperOf(node)) this.kinds.values[slot] = kinds.upper;
    this.count++;
    return node;
  }

  /** The record of a node was removed. */
  kill(node: number): void {
    invariant(this.kinds.values[node] === kinds.node, `the slot ${node}, which is no living node, is killed`);
    this.graph.kill(node);
    this.kinds.values[node] = kinds.dead;
    this.#dead.push(node);
    this.count--;
    invariant(this.count >= 0, () => `a partition has ${this.count} living nodes`);
  }

  get isSweeping(): boolean {
    return this.#sweepAt >= 0;
  }

  /** Whether a sweep is needed; it may begin when no builder is at work. */
  get wantsSweep(): boolean {
    return this.#sweepAt < 0 && 6 * this.#dead.length > this.count;
  }

  /** Whether a sweep is worth the time of builders that have nothing else to do: some tenth of what building takes. */
  get isWorthSweeping(): boolean {
    return this.#sweepAt < 0 && 20 * this.#dead.length > this.count;
  }

  /** Returns the nodes to unlink; the backbone must be rebuilt without them before any repair. */
  beginSweep(): Uint32Array {
    invariant(this.#sweepAt < 0, "a sweep begins while another goes on");
    this.#sweepAt = 0;
    this.#sweptDead = this.#dead.length;
    // The sweep does not repair them.
    for (const node of this.#dead) this.kinds.values[node] = kinds.unlinked;
    return Uint32Array.from(this.#dead);
  }

  /** The next nodes to repair in the sweep, at most `atMost`; none if the sweep is complete. */
  nextToRepair(atMost: number): Uint32Array {
    invariant(this.#sweepAt >= 0, "nodes are repaired while there is no sweep");
    const nodes: number[] = [];
    const { values } = this.kinds;
    while (nodes.length < atMost && this.#sweepAt < this.graph.slots) {
      const kind = values[this.#sweepAt];
      if (kind === kinds.node || kind === kinds.dead) nodes.push(this.#sweepAt);
      this.#sweepAt++;
    }
    return Uint32Array.from(nodes);
  }

  /** Whether the sweep has assigned all nodes; it ends when they are repaired and no builder is working. */
  get isSweptOut(): boolean {
    return this.#sweepAt >= this.graph.slots;
  }

  /** No list leads to the swept nodes any more: begins a new epoch. */
  endSweep(): void {
    invariant(
      this.#sweepAt >= this.graph.slots && this.#sweptDead <= this.#dead.length,
      () => `a sweep of ${this.#sweptDead} nodes ends at slot ${this.#sweepAt} of ${this.graph.slots}`,
    );
    const nodes = this.#dead.splice(0, this.#sweptDead);
    this.#sweepAt = -1;
    invariant(!nodes.includes(this.graph.entry), "the entry point is unlinked");
    this.#unlinked.push({ epoch: this.graph.beginEpoch(), nodes });
    this.reclaim();
  }

  /** Frees the slots of unlinked nodes that no thread can be visiting any more. */
  reclaim(): void {
    while (this.#unlinked.length > 0 && this.graph.isQuietSince(this.#unlinked[0].epoch)) {
      for (const node of this.#unlinked[0].nodes) {
        invariant(
          this.kinds.values[node] === kinds.unlinked,
          () => `the slot ${node} is freed, and is none of an unlinked node`,
        );
        for (const slot of [node, ...this.graph.upperOf(node)]) this.kinds.values[slot] = kinds.free;
        this.graph.free(node);
      }
      this.#unlinked.shift();
    }
  }

  /** Numbers of the living nodes, ascending. */
  living(): Uint32Array {
    const nodes = new Uint32Array(this.count);
    let length = 0;
    for (let slot = 0; slot < this.kinds.length; slot++)
      if (this.kinds.values[slot] === kinds.node) nodes[length++] = slot;
    invariant(length === this.count, `${length} living nodes are marked, ${this.count} counted`);
    return nodes;
  }

  isLiving(slot: number): boolean {
    return this.kinds.values[slot] === kinds.node;
  }

  isNode(slot: number): boolean {
    const kind = this.kinds.values[slot];
    return kind === kinds.node || kind === kinds.dead || kind === kinds.unlinked;
  }

  /** What a checkpoint stores. No builder may run at the same time. */
  state(): PartitionState {
    const { slots, entry, root } = this.graph;
    return { slots, entry, root, count: this.count, kinds: this.kinds.values.slice(0, this.kinds.length) };
  }

  /** Restores a partition from a checkpoint; the caller writes the bytes of its graph's image. */
  static restored(shape: GraphShape, encoding: Encoding, state: PartitionState): Partition {
    const partition = new Partition(shape, encoding);
    finishAtOnce(partition.restore(state));
    return partition;
  }

  /** Takes a state over, in steps, whose image is in the graph's memory or is written there next. The partition must be new. */
  *restore(state: PartitionState): Steps<void> {
    invariant(
      this.kinds.length === 0 && state.kinds.length === state.slots && state.count <= state.slots,
      `a partition of ${state.slots} slots is restored with ${state.kinds.length} kinds`,
    );
    const free: number[] = [];
    for (let slot = state.kinds.length - 1; slot >= 0; slot--) {
      if (state.kinds[slot] === kinds.free) free.push(slot);
      if (slot % slotsPerStep === 0) yield;
    }
    this.graph.restore(state.slots, state.entry, state.root, free);
    for (const [slot, kind] of state.kinds.entries()) {
      // Nodes that were being unlinked are dead again: the sweep starts over.
      this.kinds.push(kind === kinds.unlinked ? kinds.dead : kind);
      if (kind === kinds.dead || kind === kinds.unlinked) this.#dead.push(slot);
      if (slot % slotsPerStep === 0) yield;
    }
    this.count = state.count;
  }

  /** Slots that are not free. */
  get usedSlots(): number {
    return this.graph.slots - this.graph.freeSlots.length;
  }

  get memoryBytes(): number {
    return this.graph.memoryBytes + this.kinds.memoryBytes + 8 * this.#dead.length + 500;
  }

  check(): void {
    const { graph } = this;
    let used = 0;
    for (let slot = 0; slot < graph.slots; slot++) if (this.kinds.values[slot] !== kinds.free) used++;
    const free = graph.freeSlots.length;
    invariant(used + free === graph.slots, `${used} used and ${free} free slots of ${graph.slots}`);
    for (const node of this.#dead)
      invariant(this.isNode(node) && graph.ordinalOf(node) === none, `the dead node ${node} is not marked`);
    this.living();
  }
}

/** What there is to know about the slots of the copy, in steps. */
export function* stateOfCopy(state: PartitionState, newSlots: NewSlots): Steps<PartitionState> {
  const { entry, root, count, kinds: kindOf } = state;
  // A copy has no free slots, so its slots are as many as were copied.
  const ofCopy = new Uint8Array(newSlots.length);
  let slots = 0;
  for (let slot = 0; slot < newSlots.length; slot++) {
    if (slot % slotsPerStep === 0) yield;
    if (newSlots[slot] === none) continue;
    ofCopy[newSlots[slot]] = kindOf[slot];
    slots++;
  }
  const moved = (slot: number): number => (slot === none ? none : newSlots[slot]);
  return { slots, entry: moved(entry), root: moved(root), count, kinds: ofCopy.subarray(0, slots) };
}
