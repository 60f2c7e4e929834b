// Where is an HNSW graph stored, and which of its slots are free?
//
// One shared WebAssembly memory, drawn in kernels/assembly/hnsw/layout.ts: whatever a search needs is in it, so a thread searches by
// instantiating the kernels on it with scratch memory of its own. This class lays it out, grows it, and allocates slots; it does not use
// vectors. It is one view of one memory, so it is one class.
//
// The thread that creates a graph owns it: only this thread takes and frees slots. Other threads `attach` to the shared memory.

import { type HnswKernels, header, instantiateHnsw, none, scratch } from "@quiverdb/kernels/hnsw";
import { pageBytes, pagesMax } from "@quiverdb/kernels/loader";
import { invariant } from "../../base/invariant.ts";
import { attachOnce, nextMemoryId } from "../../base/shared-memory.ts";
import type { AllowedNodes } from "./allowed-nodes.ts";
import type { Encoding } from "./encoding.ts";
import { arrays, bytesInUse, type GraphShape, layOutGraph, scratchAt } from "./graph-layout.ts";

/** What a thread needs to work on the graph of another. Can be posted to it. */
export type SharedGraph = {
  readonly id: number;
  readonly shape: GraphShape;
  readonly memory: WebAssembly.Memory;
};

export class Graph {
  readonly shape: GraphShape;
  /** No other graph of the process has it. */
  readonly id = nextMemoryId();
  readonly kernels: HnswKernels;
  /** Where the scratch memory of this thread lies. */
  readonly scratch: number;
  readonly slotBytes: number;
  readonly levelsPerSlot: number;
  readonly nodesAt: number;
  readonly slotsMax: number;
  /** The whole memory; replaced when it grows. */
  bytes: Uint8Array;
  words: Uint32Array;
  floats: Float32Array;
  readonly #memory: WebAssembly.Memory;
  /** Whether another thread owns the graph, and lets it grow. */
  readonly #isAttached: boolean;
  readonly #scratchBytes: number;
  #free: number[] = [];

  /** Makes a graph, or, with `memory`, attaches to one of this shape. @param number of this thread's scratch memory */
  constructor(shape: GraphShape, number = 0, memory?: WebAssembly.Memory) {
    invariant(
      number >= 0 && number < shape.scratchCount,
      `scratch memory ${number} of a graph that has ${shape.scratchCount}`,
    );
    this.shape = shape;
    const { codeBytes, queryBytes, m, m0 } = shape;
    const { places, pages, ...layout } = layOutGraph(shape);
    const { scratchBytes: at, locksAt: locks } = layout;
    this.slotBytes = layout.slotBytes;
    this.levelsPerSlot = layout.levelsPerSlot;
    this.slotsMax = layout.slotsMax;
    invariant(this.slotsMax >= 1, `a graph of ${shape.memoryBytesMax} bytes holds no node`);
    this.#scratchBytes = at;
    this.scratch = scratchAt + number * at;
    this.nodesAt = layout.nodesAt;
    this.#memory =
      memory ??
      new WebAssembly.Memory({ initial: Math.ceil(this.nodesAt / pageBytes), maximum: pages, shared: true });
    this.kernels = instantiateHnsw(this.#memory);
    this.bytes = new Uint8Array(this.#memory.buffer);
    this.words = new Uint32Array(this.#memory.buffer);
    this.floats = new Float32Array(this.#memory.buffer);
    this.#isAttached = memory !== undefined;
    if (this.#isAttached) return;
    this.#set("codeBytes", codeBytes);
    this.#set("dataType", shape.dataType);
    this.#set("queryBytes", queryBytes);
    this.#set("m", m);
    this.#set("m0", m0);
    this.#set("efConstruction", shape.efConstruction);
    this.#set("slotBytes", this.slotBytes);
    this.#set("levelsPerSlot", this.levelsPerSlot);
    this.#set("nodesAt", this.nodesAt);
    this.#set("entry", none);
    this.#set("root", none);
    this.#set("buildMode", shape.buildMode);
    this.#set("epoch", 1);
    this.#set("locksAt", locks);
    for (let i = 0; i < shape.scratchCount; i++) {
      const begin = scratchAt + i * at;
      for (const vectorKey of arrays)
        this.words[(begin + scratch[vectorKey]) / 4] = begin + places[vectorKey];
    }
  }

  /** A graph that another thread owns, in which this one works in the scratch memory of the given number. */
  static attach({ id, shape, memory }: SharedGraph, number: number): Graph {
    return attachOnce(id, number, () => new Graph(shape, number, memory));
  }

  get shared(): SharedGraph {
    return { id: this.id, shape: this.shape, memory: this.#memory };
  }

  #set(field: keyof typeof header, value: number): void {
    this.words[header[field] / 4] = value;
  }

  /**
   * Refreshes the view of the memory, which another thread may have grown. Not for each job: V8 interrupts all threads that have the memory,
   * and each makes the buffers of all shared memories anew that it was ever posted and has not collected.
   */
  refresh(): void {
    // Growing by zero pages makes the growth by other threads visible; only a buffer that is read afterwards has the current size.
    if (this.#isAttached) this.#memory.grow(0);
    const { buffer } = this.#memory;
    if (buffer.byteLength === this.bytes.byteLength) return;
    this.bytes = new Uint8Array(buffer);
    this.words = new Uint32Array(buffer);
    this.floats = new Float32Array(buffer);
  }

  /** Looks at the memory anew where there are nodes beyond what this thread has seen of it. */
  refreshIfGrown(): void {
    // The owner lets it grow before it counts the slots.
    if (!this.#isAttached) return;
    const end = this.at(Atomics.load(this.words, header.slots / 4));
    if (end <= this.bytes.byteLength) return;
    this.refresh();
    invariant(
      end <= this.bytes.byteLength,
      () => `a graph has nodes up to ${end}, of which ${this.bytes.byteLength} bytes are seen`,
    );
  }

  /** Ends the pass of a thread that has died in the scratch memory of this number. */
  abandon(number: number): void {
    Atomics.store(this.words, (scratchAt + number * this.#scratchBytes + scratch.active) / 4, 0);
  }

  /** Begins an epoch and returns its number: some nodes were unlinked. */
  beginEpoch(): number {
    const epoch = (Atomics.add(this.words, header.epoch / 4, 1) + 1) >>> 0;
    if (epoch !== 0) return epoch;
    return this.beginEpoch();
  }

  /** Whether no thread follows links that it can have met before this epoch. */
  isQuietSince(epoch: number): boolean {
    for (let i = 0; i < this.shape.scratchCount; i++) {
      const active = Atomics.load(this.words, (scratchAt + i * this.#scratchBytes + scratch.active) / 4);
      if (active !== 0 && ((active - epoch) | 0) < 0) return false;
    }
    return true;
  }

  get slots(): number {
    return this.words[header.slots / 4];
  }

  get entry(): number {
    return this.words[header.entry / 4];
  }

  set entry(node: number) {
    this.words[header.entry / 4] = node;
  }

  /** The node at which the chains of parents end. */
  get root(): number {
    return this.words[header.root / 4];
  }

  set root(node: number) {
    this.words[header.root / 4] = node;
  }

  /** Bytes in use. Memory beyond them was never written, so the system allocates no pages for it. */
  get memoryBytes(): number {
    return bytesInUse(this, this.shape.scratchCount, this.slots);
  }

  get freeSlots(): readonly number[] {
    return this.#free;
  }

  /** Bytes of a checkpoint's image: the slots in use. Scratch memory is left out, and the header follows from the shape. */
  get image(): Uint8Array {
    return this.bytes.subarray(this.nodesAt, this.at(this.slots));
  }

  /** Whether this many more slots (or as many as the maximum size allows) fit into the memory at its current size. */
  isReserved(slots: number): boolean {
    return this.#endWith(slots) <= this.bytes.byteLength;
  }

  /** Grows the memory so that this many more slots fit, as far as possible. No builder may be working. */
  reserve(slots: number): void {
    this.#grow(this.#endWith(slots));
  }

  #endWith(slots: number): number {
    return this.at(Math.min(this.slotsMax, this.slots + Math.max(0, slots - this.#free.length)));
  }

  /** Allocates room for a checkpoint's image with this many slots; the caller then writes its bytes into `image`. */
  restore(slots: number, entry: number, root: number, free: readonly number[]): void {
    invariant(this.slots === 0 && slots <= this.slotsMax, `${slots} slots do not fit this graph`);
    invariant(
      (entry === none || entry < slots) && (root === none || root < slots) && free.length <= slots,
      `a graph of ${slots} slots begins at ${entry} and ${root}, with ${free.length} free ones`,
    );
    if (this.at(slots) > this.bytes.byteLength) this.#grow(this.at(slots));
    this.#set("slots", slots);
    this.entry = entry;
    this.root = root;
    this.#free = [...free];
  }

  /** Slots that a node of this level takes. */
  slotsFor(level: number): number {
    return 1 + Math.ceil(level / this.levelsPerSlot);
  }

  /** Whether a node of this level still fits. */
  hasRoom(level: number): boolean {
    return this.slots - this.#free.length + this.slotsFor(level) <= this.slotsMax;
  }

  /** Where a field of this thread's scratch memory points at, in bytes. */
  placeOf(field: keyof typeof scratch): number {
    return this.words[(this.scratch + scratch[field]) / 4];
  }

  at(slot: number): number {
    return this.nodesAt + slot * this.slotBytes;
  }

  /** Index in `words` of a node's factor; its bias, ordinal, upper slot, parent and count follow. */
  metaAt(node: number): number {
    return (this.at(node) + this.shape.codeBytes) / 4;
  }

  ordinalOf(node: number): number {
    return this.words[this.metaAt(node) + 2];
  }

  /** The node whose list of level 0 leads to this one whatever else is pruned; `none`: it is being unlinked. */
  parentOf(node: number): number {
    return this.words[this.metaAt(node) + 4];
  }

  setParent(node: number, parent: number): void {
    Atomics.store(this.words, this.metaAt(node) + 4, parent);
  }

  levelOf(node: number): number {
    const upper = this.words[this.metaAt(node) + 3];
    return upper === none ? 0 : this.words[this.at(upper) / 4 + 1];
  }

  /** Index in `words` of the count of a node's links at a level; the links follow. */
  listAt(node: number, level: number): number {
    const meta = this.metaAt(node);
    if (level === 0) return meta + 5;
    let upper = this.words[meta + 3];
    let index = level - 1;
    for (; index >= this.levelsPerSlot; index -= this.levelsPerSlot) upper = this.words[this.at(upper) / 4];
    return this.at(upper) / 4 + 2 + index * (this.shape.m + 1);
  }

  /** The links of a node at a level, as a view. */
  linksOf(node: number, level: number): Uint32Array {
    const list = this.listAt(node, level);
    return this.words.subarray(list + 1, list + 1 + this.words[list]);
  }

  /** The upper slots of a node. */
  upperOf(node: number): number[] {
    const slots: number[] = [];
    for (let slot = this.words[this.metaAt(node) + 3]; slot !== none; slot = this.words[this.at(slot) / 4]) {
      slots.push(slot);
    }
    return slots;
  }

  /** Writes the code of a node that no search can reach yet. */
  encode(node: number, encoding: Encoding, vector: Float32Array): void {
    const at = this.at(node);
    encoding.encode(vector, this.bytes.subarray(at, at + this.shape.codeBytes));
    this.floats[this.metaAt(node)] = encoding.lastFactor;
    this.floats[this.metaAt(node) + 1] = encoding.lastBias;
  }

  /** Makes a vector of finite values the query of this thread's scratch memory. */
  setQuery(encoding: Encoding, query: Float32Array): void {
    this.bytes.set(encoding.encodeQuery(query), this.placeOf("query"));
  }

  /** Makes searches of this thread ignore a node; `none` ends this. */
  ban(node: number): void {
    this.words[(this.scratch + scratch.banned) / 4] = (node + 1) >>> 0;
  }

  /** Makes these nodes the allowed ones, and their seeds the beginnings, of searches of this thread among allowed nodes. */
  allow({ bits, seeds }: AllowedNodes): void {
    this.bytes.set(bits, this.placeOf("allowed"));
    this.words.set(seeds, this.placeOf("seeds") / 4);
    // Nodes that were made since are not allowed.
    const end = Math.ceil(this.slots / 8);
    if (end > bits.length)
      this.bytes.fill(0, this.placeOf("allowed") + bits.length, this.placeOf("allowed") + end);
  }

  /** Marks a node as removed. */
  kill(node: number): void {
    Atomics.store(this.words, this.metaAt(node) + 2, none);
  }

  /** Allocates the zeroed slots of a node, and links its chain of upper slots. The caller has checked that there is room. */
  make(ordinal: number, level: number): number {
    invariant(ordinal < none, () => `a node gets the ordinal ${ordinal}`);
    invariant(this.hasRoom(level), () => `a graph of ${this.slots} slots has no room for level ${level}`);
    const node = this.#take();
    const meta = this.metaAt(node);
    this.words[meta + 2] = ordinal;
    this.words[meta + 3] = none;
    this.words[meta + 4] = none;
    let previous = meta + 3;
    for (let made = 0; made < level; made += this.levelsPerSlot) {
      const slot = this.#take();
      this.words[previous] = slot;
      previous = this.at(slot) / 4;
      this.words[previous] = none;
      this.words[previous + 1] = level;
    }
    return node;
  }

  /** Frees the slots of a node that no link leads to any more. */
  free(node: number): void {
    invariant(
      node < this.slots && this.ordinalOf(node) === none,
      () => `node ${node} of ${this.slots} slots is freed, and was not removed`,
    );
    this.#free.push(...this.upperOf(node), node);
  }

  #take(): number {
    const freed = this.#free.pop();
    const slot = freed ?? this.slots;
    if (freed === undefined) {
      if (!this.isReserved(1)) this.reserve(1);
      invariant(
        this.at(slot + 1) <= this.bytes.byteLength,
        () => `slot ${slot} is behind the ${this.bytes.byteLength} bytes of the memory`,
      );
      // The memory is there before the slot is counted: a search that meets it looks for it there.
      Atomics.store(this.words, header.slots / 4, slot + 1);
    }
    this.bytes.fill(0, this.at(slot), this.at(slot + 1));
    return slot;
  }

  #grow(end: number): void {
    const pages = this.bytes.byteLength / pageBytes;
    const wanted = Math.max(Math.ceil(end / pageBytes), Math.floor(pages * 1.125));
    const most = Math.floor(this.shape.memoryBytesMax / pageBytes);
    this.#memory.grow(Math.min(wanted, most, pagesMax) - pages);
    this.refresh();
  }
}
