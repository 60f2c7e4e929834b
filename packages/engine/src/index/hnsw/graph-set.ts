// Which graphs hold the vectors of an index by one encoding, and what is to be done to them next?
//
// A graph lies in one WebAssembly memory, which ends at 4 GiB: when it is full the next *partition* begins. Searches go through
// all of them. What waits to be linked is queued, by names (copies.ts), in ascending order.
//
// `start` begins the next job. Jobs run beside each other and beside searches, but for two that want no other builder: drawing the
// backbone before a sweep, and a checkpoint. Those wait until none is at work, and what is queued waits for them.
//
//   enqueue -> queue -> handed out to a builder -> linked (place)
//                \____________ remove _____________/  the node is killed, and swept later
//
// Invariants (see check):
//   1. `places` has each linked name, with its partition and node; every living node is one of them.
//   2. A queued name is not linked. A name that was handed out is linked when the job is done, unless it was removed meanwhile.

import { none } from "@quiver/kernels/hnsw";
import type { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { absent, OrdinalMap } from "../ordinal-map.ts";
import { checkGraph } from "./check.ts";
import { buildModes, dataTypeNumbers, Encoding, type EncodingState } from "./encoding.ts";
import type { Graph, GraphShape } from "./graph.ts";
import type { GraphJob, Target } from "./jobs.ts";
import { levelOf } from "./level.ts";
import { Partition, type PartitionState } from "./partition.ts";

/** What an index's options say of its graphs. */
export type GraphSetOptions = {
  readonly m: number;
  readonly m0: number;
  readonly efConstruction: number;
  readonly levelsMax: number;
  readonly seed: number;
  readonly memoryBytesMax: number;
  /** Threads that search or build at a time. */
  readonly areas: number;
};

/** The index that the graphs are of. */
export type GraphHost = {
  /** Has a job done; `done` is called when it was, not when it failed. */
  run(target: Target, job: GraphJob, done: () => void): void;
  /** No job about a graph will come any more. */
  forget(id: number): void;
  /** The vector of a name that is to be linked, until the next call; undefined where it is not wanted any more. */
  vectorOf(name: number): Float32Array | undefined;
  /** A name has been linked. */
  onLinked(name: number): void;
};

/** What of the graphs a checkpoint keeps besides their images. */
export type GraphSetState = {
  readonly encoding: EncodingState;
  readonly partitions: readonly PartitionState[];
};

/** Beams are not longer than this: a search that needs more reads all records. */
export const efMax = 4_096;

/** Values of one insertion job, and bounds of its names: some ten milliseconds of work. Handing a job out and back costs as much as ten insertions. */
const insertValues = 25_600;
const insertMin = 64;
const insertMax = 256;
/** Nodes of one repair job. */
const repairMax = 256;
/** Jobs of a sweep for `insertMin` insertions. */
const repairsPerInsertion = 3;

/** Smaller graphs are not worth being built anew for the memory that this gives back. */
const rebuiltMin = 1_000;

const partitionsMax = 255;
/** A place is a partition's number times this, plus a node. */
const placeUnit = 2 ** 24;
const nodeMask = placeUnit - 1;

export class GraphSet {
  readonly encoding: Encoding;
  readonly #options: GraphSetOptions;
  readonly #host: GraphHost;
  /** Name -> place. */
  readonly #places = new OrdinalMap();
  /** By number; undefined where one was given up. */
  readonly #partitions: (Partition | undefined)[] = [];
  /** Names that wait for a builder, ascending from `#queueHead` on. */
  #queue: number[] = [];
  #queueHead = 0;
  /** First names of the insertions that are being done. */
  readonly #inserting = new Set<number>();
  readonly #handedOut = new Set<number>();
  /** Names that were removed while a builder links them. */
  readonly #cancelled = new Set<number>();
  #running = 0;
  #isExclusive = false;
  #turn = 0;
  #holds: (() => void)[] = [];
  #isHeld = false;
  /** Nodes whose names were removed while the graphs are held: what is written must not change meanwhile. */
  #killedLater: { partition: Partition; node: number }[] = [];
  /** Graphs whose lonely vectors are to be reconnected, and the beam that is to find them. */
  #reconnecting: Partition[] = [];
  #reconnectEf = 0;
  #isReconnecting = false;
  /** Graphs that are to be swept before they have to be. */
  readonly #sweeps = new Set<Partition>();

  constructor(encoding: Encoding, options: GraphSetOptions, host: GraphHost) {
    this.encoding = encoding;
    this.#options = options;
    this.#host = host;
  }

  /** The graphs as they were kept. @param load writes the image of each graph, see Graph.image */
  static async restored(
    state: GraphSetState,
    options: GraphSetOptions,
    host: GraphHost,
    load: (graphs: readonly Graph[]) => Promise<void>,
  ): Promise<GraphSet> {
    const set = new GraphSet(Encoding.fromState(state.encoding), options, host);
    for (const kept of state.partitions)
      set.#partitions.push(Partition.restored(set.#shape, set.encoding, kept));
    await load(set.graphs);
    for (const [number, partition] of set.#partitions.entries()) {
      if (partition === undefined) continue;
      partition.graph.refresh();
      for (const node of partition.living()) {
        const name = partition.graph.ordinalOf(node);
        invariant(name < none, `the kept node ${node} is said to live, and is marked as removed`);
        set.#places.set(name, number * placeUnit + node);
      }
    }
    return set;
  }

  /** Linked names. */
  get count(): number {
    return this.#places.size;
  }

  has(name: number): boolean {
    return this.#places.get(name) !== absent;
  }

  /** Names that are linked, ascending. */
  names(): number[] {
    return Array.from(this.#places.entries(), ([name]) => name);
  }

  /** Every wanted name below is linked; infinity where none waits. */
  get linkedEnd(): number {
    let end = this.#queueHead < this.#queue.length ? this.#queue[this.#queueHead] : Number.POSITIVE_INFINITY;
    for (const first of this.#inserting) end = Math.min(end, first);
    return end;
  }

  /** Names of one insertion job. */
  get #insertCount(): number {
    return Math.max(insertMin, Math.min(insertMax, Math.floor(insertValues / this.encoding.dimension)));
  }

  /** Whether nothing is queued or being done. */
  get isIdle(): boolean {
    return (
      this.#running === 0 &&
      this.#queueHead >= this.#queue.length &&
      this.#holds.length === 0 &&
      this.#reconnecting.length === 0
    );
  }

  /** Whether no builder is at work, and none may begin to be. */
  get isQuiet(): boolean {
    return this.#running === 0 && !this.#isExclusive;
  }

  /** Whether removed vectors are being swept out of a graph, or have to be. */
  get isSweeping(): boolean {
    return this.#partitions.some((partition) => partition?.isSweeping || partition?.wantsSweep);
  }

  get graphs(): readonly Graph[] {
    return this.#living().map(({ graph }) => graph);
  }

  get targets(): readonly Target[] {
    return this.#living().map(({ target }) => target);
  }

  /** Bytes of codes and links. */
  get graphBytes(): number {
    return this.#living().reduce((sum, partition) => sum + partition.memoryBytes, 0);
  }

  /** Whether more of the memory is free, after removals, than is used: it never shrinks. */
  get isMostlyFree(): boolean {
    const [units, free] = this.#living().reduce(
      ([all, unused], { graph }) => [all + graph.units, unused + graph.freeUnits.length],
      [0, 0],
    );
    return units >= rebuiltMin && 2 * free > units;
  }

  get memoryBytes(): number {
    return this.graphBytes + this.#places.memoryBytes + 8 * this.#queue.length;
  }

  #living(): Partition[] {
    return this.#partitions.filter((partition) => partition !== undefined);
  }

  // ---- Changing

  /** A name waits to be linked. Names come in ascending order. */
  enqueue(name: number): void {
    this.#queue.push(name);
  }

  /** A name has no record any more. One that waits is passed over, for the host does not want it. */
  remove(name: number): void {
    const place = this.#places.get(name);
    if (place === absent) {
      if (this.#handedOut.has(name)) this.#cancelled.add(name);
      return;
    }
    this.#places.delete(name);
    this.#kill(this.#partitionOf(place), place & nodeMask);
  }

  /** Marks a node as removed, now or when the graphs are not held any more. */
  #kill(partition: Partition, node: number): void {
    if (this.#isHeld) this.#killedLater.push({ partition, node });
    else partition.kill(node);
  }

  /**
   * Calls when no builder is at work; the graphs do not change until `release`.
   * The call is lost when `drop` comes before.
   */
  hold(then: () => void): void {
    this.#holds.push(() => {
      this.#running++;
      this.#isExclusive = true;
      this.#isHeld = true;
      then();
    });
  }

  release(): void {
    this.#running--;
    this.#isExclusive = false;
    this.#isHeld = false;
    for (const { partition, node } of this.#killedLater.splice(0)) partition.kill(node);
  }

  state(): GraphSetState {
    return {
      encoding: this.encoding.toState(),
      partitions: this.#living().map((partition) => partition.state()),
    };
  }

  /** Vectors that few links lead to are to be found by a beam of `ef`. */
  reconnect(ef: number): void {
    this.#reconnectEf = ef;
    this.#reconnecting = this.#living();
  }

  /** Graphs with some removed nodes are swept before they have to be: those take places in every beam. */
  tidy(): void {
    for (const partition of this.#living()) if (partition.isWorthSweeping) this.#sweeps.add(partition);
  }

  close(): void {
    for (const partition of this.#living()) this.#host.forget(partition.target.id);
    this.#partitions.length = 0;
    this.#places.clear();
    this.#queue = [];
    this.#queueHead = 0;
    this.#holds = [];
    this.#reconnecting = [];
  }

  // ---- Searching

  /**
   * Searches all graphs with a beam, and adds the first `wanted` names of each that are accepted, best by code first. The query is
   * borrowed. @returns whether a longer beam would meet no more
   */
  search(
    query: Float32Array,
    beam: number,
    wanted: number,
    accepts: ((name: number) => boolean) | null,
    without: number,
    names: Growable<Uint32Array>,
  ): boolean {
    const banned = without === absent ? absent : this.#places.get(without);
    let isExhausted = true;
    for (let number = 0; number < this.#partitions.length; number++) {
      const partition = this.#partitions[number];
      if (partition === undefined) continue;
      const isHere = banned !== absent && Math.floor(banned / placeUnit) === number;
      const node = isHere ? banned & nodeMask : none;
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
    graph.setQuery(this.encoding, query);
    graph.ban(without);
    graph.kernels.hnswEnter(graph.area);
    const found = graph.kernels.hnswSearch(graph.area, beam);
    const { words } = graph;
    const at = graph.placeOf("beam") / 4;
    const isChanging = this.#handedOut.size > 0 || this.#killedLater.length > 0;
    const end = names.length + wanted;
    for (let i = 0; i < found && names.length < end; i++) {
      const name = graph.ordinalOf(words[at + 2 * i] >>> 1);
      if (name === none) continue;
      // What is being linked is found elsewhere; what is to be killed is gone.
      if (isChanging && this.#places.get(name) === absent) continue;
      if (accepts !== null && !accepts(name)) continue;
      names.push(name);
    }
    graph.kernels.hnswLeave(graph.area);
    return found;
  }

  /**
   * Whether the code of a linked name is no nearer to the query of the last search than the last of the best `depth` of the names that it
   * found: then no way to it would have been enough.
   */
  isBeyond(name: number, found: Growable<Uint32Array>, depth: number): boolean {
    if (found.length < depth) return false;
    const key = this.#keyOf(name);
    return key !== undefined && key >= (this.#keyOf(found.values[depth - 1]) ?? Number.POSITIVE_INFINITY);
  }

  #keyOf(name: number): number | undefined {
    const place = this.#places.get(name);
    if (place === absent) return undefined;
    const { graph } = this.#partitionOf(place);
    const [ids, keys] = [graph.placeOf("batch"), graph.placeOf("keys")];
    for (let i = 0; i < 4; i++) graph.words[ids / 4 + i] = place & nodeMask;
    graph.kernels.keysOf(graph.placeOf("query"), ids, 1, keys);
    return graph.floats[keys / 4];
  }

  /** Whether the code of a linked name is that of this vector. */
  hasCode(name: number, vector: Float32Array): boolean {
    const place = this.#places.get(name);
    if (place === absent) return false;
    const { graph } = this.#partitionOf(place);
    const node = place & nodeMask;
    const code = Buffer.alloc(graph.shape.codeBytes);
    this.encoding.encode(vector, code);
    const meta = graph.metaAt(node);
    return (
      graph.floats[meta] === this.encoding.lastFactor &&
      graph.floats[meta + 1] === this.encoding.lastBias &&
      code.equals(graph.bytes.subarray(graph.at(node), graph.at(node) + code.length))
    );
  }

  // ---- Building

  /** Starts the next job, or does what takes no time; returns whether there was any. */
  start(): boolean {
    if (this.#isExclusive) return false;
    const wish = this.#exclusiveWish();
    if (wish !== undefined) {
      if (this.#running > 0) return false;
      wish();
      return true;
    }
    const lonely = this.#isReconnecting ? undefined : this.#reconnecting.shift();
    if (lonely !== undefined && this.#partitions.includes(lonely)) {
      this.#isReconnecting = true;
      this.#run(lonely, { kind: "reconnect", living: lonely.living(), ef: this.#reconnectEf }, () => {
        this.#isReconnecting = false;
      });
      return true;
    }
    const sweeping = this.#partitions.find((partition) => partition?.isSweeping && !partition.isSweptOut);
    const isQueued = this.#skipUnwanted();
    const repairs = repairsPerInsertion * Math.round(this.#insertCount / insertMin);
    if (sweeping !== undefined && (!isQueued || this.#turn++ % (1 + repairs) !== 0)) {
      this.#run(sweeping, { kind: "repair", nodes: sweeping.nextToRepair(repairMax) });
      return true;
    }
    return isQueued && this.#insert();
  }

  /**
   * Where a graph's memory has to grow before a job is handed out: builders look at its size when a job begins, and copy within
   * what they saw, so it must not grow while they are at work.
   */
  #growth(): (() => void) | undefined {
    if (!this.#skipUnwanted()) return undefined;
    const graph = this.#partitions.find((partition) => this.#hasRoom(partition))?.graph;
    if (graph === undefined) return undefined;
    const units = this.#unitsOfJob(graph);
    return graph.isReserved(units) ? undefined : () => graph.reserve(units);
  }

  #hasRoom(partition: Partition | undefined): boolean {
    return partition?.graph.hasRoom(this.#options.levelsMax - 1) === true;
  }

  /** Units that an insertion job takes, at most. */
  #unitsOfJob(graph: Graph): number {
    return this.#insertCount * graph.unitsFor(this.#options.levelsMax - 1);
  }

  /** The next thing that wants no builder beside it. */
  #exclusiveWish(): (() => void) | undefined {
    for (const [number, partition] of this.#partitions.entries()) {
      if (partition === undefined) continue;
      partition.reclaim();
      if (partition.count === 0 && this.#running === 0) return () => this.#giveUp(number, partition);
      if (partition.isSweptOut) return () => partition.endSweep();
      if (partition.wantsSweep || (this.#sweeps.has(partition) && partition.isWorthSweeping))
        return () => this.#beginSweep(partition);
    }
    const growth = this.#growth();
    if (growth !== undefined || this.#holds.length === 0) return growth;
    // It stays in its place until its time has come.
    return () => this.#holds.shift()?.();
  }

  #giveUp(number: number, partition: Partition): void {
    this.#partitions[number] = undefined;
    this.#sweeps.delete(partition);
    this.#host.forget(partition.target.id);
  }

  #beginSweep(partition: Partition): void {
    this.#sweeps.delete(partition);
    this.#isExclusive = true;
    const unlinked = partition.beginSweep();
    this.#run(partition, { kind: "redraw", living: partition.living(), unlinked }, () => {
      this.#isExclusive = false;
    });
  }

  /** Passes over queued names that are not wanted any more; returns whether any is left. */
  #skipUnwanted(): boolean {
    while (
      this.#queueHead < this.#queue.length &&
      this.#host.vectorOf(this.#queue[this.#queueHead]) === undefined
    )
      this.#queueHead++;
    if (this.#queueHead < this.#queue.length) return true;
    this.#queue.length = 0;
    this.#queueHead = 0;
    return false;
  }

  /** Hands the first queued names to a builder, as many as fit one partition. */
  #insert(): boolean {
    const { seed, m, levelsMax } = this.#options;
    const [number, partition] = this.#withRoom();
    const names: number[] = [];
    const nodes: number[] = [];
    const { dimension } = this.encoding;
    const count = Math.min(this.#insertCount, this.#queue.length - this.#queueHead);
    const vectors = new Float32Array(count * dimension);
    for (; this.#queueHead < this.#queue.length && names.length < count; this.#queueHead++) {
      if (!this.#hasRoom(partition)) break;
      const name = this.#queue[this.#queueHead];
      const vector = this.#host.vectorOf(name);
      if (vector === undefined) continue;
      vectors.set(vector, names.length * dimension);
      nodes.push(partition.take(name, levelOf(name, seed, m, levelsMax)));
      names.push(name);
      this.#handedOut.add(name);
    }
    if (this.#queueHead > 65_536) {
      this.#queue = this.#queue.slice(this.#queueHead);
      this.#queueHead = 0;
    }
    const first = names[0];
    this.#inserting.add(first);
    const job = {
      kind: "insert",
      nodes: Uint32Array.from(nodes),
      vectors: names.length === count ? vectors : vectors.slice(0, names.length * dimension),
    } as const;
    this.#run(partition, job, () => {
      this.#inserting.delete(first);
      names.forEach((name, i) => {
        this.#linked(name, number, partition, nodes[i]);
      });
    });
    return true;
  }

  #linked(name: number, number: number, partition: Partition, node: number): void {
    this.#handedOut.delete(name);
    if (this.#cancelled.delete(name)) {
      this.#kill(partition, node);
      return;
    }
    this.#places.set(name, number * placeUnit + node);
    this.#host.onLinked(name);
  }

  /** The first partition with room for a node, made where there is none. */
  #withRoom(): [number: number, partition: Partition] {
    const number = this.#partitions.findIndex((partition) => this.#hasRoom(partition));
    if (number >= 0) return [number, this.#partitions[number] as Partition];
    const free = this.#partitions.indexOf(undefined);
    const added = free >= 0 ? free : this.#partitions.length;
    invariant(added < partitionsMax, `an index has at most ${partitionsMax} partitions`);
    const partition = new Partition(this.#shape, this.encoding);
    invariant(this.#hasRoom(partition), "a partition has no room for a single node");
    partition.graph.reserve(this.#unitsOfJob(partition.graph));
    this.#partitions[added] = partition;
    return [added, partition];
  }

  #run(partition: Partition, job: GraphJob, then: () => void = () => {}): void {
    this.#running++;
    this.#host.run(partition.target, job, () => {
      this.#running--;
      then();
    });
  }

  get #shape(): GraphShape {
    const { m, m0, efConstruction, memoryBytesMax, areas } = this.#options;
    const { codeBytes, queryBytes, dataType, metric } = this.encoding;
    return {
      codeBytes,
      queryBytes,
      dataType: dataTypeNumbers[dataType],
      m,
      m0,
      efConstruction,
      efMax,
      buildMode: buildModes[metric],
      memoryBytesMax,
      areas,
    };
  }

  #partitionOf(place: number): Partition {
    const partition = this.#partitions[Math.floor(place / placeUnit)];
    invariant(partition !== undefined, `the partition of place ${place} was given up`);
    return partition;
  }

  // ---- Proving

  /** Proves the invariants. No builder may be at work. @param vectorOf the vector of a linked name */
  check(vectorOf: (name: number) => Float32Array): void {
    invariant(this.#running === 0, "graphs are checked while builders are at work");
    this.#places.check();
    let living = 0;
    for (const [number, partition] of this.#partitions.entries()) {
      if (partition === undefined) continue;
      partition.check();
      living += partition.count;
      checkGraph(partition, this.encoding, (name, node) => {
        const place = this.#places.get(name);
        invariant(
          place === number * placeUnit + node,
          `the name ${name} has node ${node}, the map says ${place}`,
        );
        return vectorOf(name);
      });
    }
    invariant(living === this.#places.size, `${living} living nodes for ${this.#places.size} names`);
    for (let i = this.#queueHead; i < this.#queue.length; i++)
      invariant(this.#places.get(this.#queue[i]) === absent, `the queued name ${this.#queue[i]} is linked`);
  }
}
