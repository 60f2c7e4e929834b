// Which job comes next for the graphs of a set?
//
// `start` begins the next job. Jobs run in parallel with each other and with searches. Two of them need every builder idle:
// rebuilding the backbone before a sweep, and a checkpoint. These wait for the running jobs, and the queue waits for them.

import { invariant } from "../../base/invariant.ts";
import type { Encoding } from "./encoding.ts";
import type { Graph } from "./graph.ts";
import type { LinkQueue } from "./link-queue.ts";
import type { NodeMap } from "./node-map.ts";
import { Partition } from "./partition.ts";
import { type GraphSetOptions, shapeOf } from "./set-shape.ts";
import type { GraphJob, Target } from "./tasks.ts";

/** The index that owns the graphs. */
export type GraphHost = {
  /** Runs a job; calls `done` only if it succeeds. */
  run(target: Target, job: GraphJob, done: () => void): void;
  /** Runs a job that may fail, and without which all goes on as it was; calls `done` with its outcome, null if it succeeds. */
  attempt(target: Target, job: GraphJob, done: (error: unknown) => void): void;
  /** There will be no more jobs on a graph. */
  forget(id: number): void;
  /** The vector of a vector key to link, valid until the next call; undefined if the vector key is no longer needed. */
  vectorOf(vectorKey: number): Float32Array | undefined;
  /** A vector key has been linked. */
  onLinked(vectorKey: number): void;
  /** Calls when no search goes on that has begun before; absent: that is at once. */
  readonly retire?: ((free: () => void) => void) | undefined;
};

/**
 * Values of one insertion job, and bounds of its vector keys: some ten milliseconds of work. Handing a job out and back costs as much as
 * ten insertions.
 */
const insertValues = 25_600;
const insertMin = 64;
const insertMax = 256;
/** Nodes of one repair job. */
const repairMax = 256;
/** Jobs of a sweep for `insertMin` insertions. */
const repairsPerInsertion = 3;

export class GraphJobs {
  readonly #encoding: Encoding;
  readonly #options: GraphSetOptions;
  readonly #host: GraphHost;
  readonly #nodes: NodeMap;
  readonly #queue: LinkQueue;
  #running = 0;
  #isExclusive = false;
  #turn = 0;
  #holds: (() => void)[] = [];
  /** Graphs whose lonely vectors are to be reconnected, and the beam that is to find them. */
  #reconnecting: Partition[] = [];
  #reconnectEf = 0;
  #isReconnecting = false;
  /** Graphs to sweep before it is necessary. */
  readonly #sweeps = new Set<Partition>();

  constructor(
    encoding: Encoding,
    options: GraphSetOptions,
    host: GraphHost,
    nodes: NodeMap,
    queue: LinkQueue,
  ) {
    this.#encoding = encoding;
    this.#options = options;
    this.#host = host;
    this.#nodes = nodes;
    this.#queue = queue;
  }

  /** Whether no job is running or requested, apart from waiting vector keys. */
  get isIdle(): boolean {
    return this.#running === 0 && this.#holds.length === 0 && this.#reconnecting.length === 0;
  }

  /** Whether no builder is at work. */
  get isResting(): boolean {
    return this.#running === 0;
  }

  /** Whether no builder is at work, and none may begin to be. */
  get isQuiet(): boolean {
    return this.#running === 0 && !this.#isExclusive;
  }

  /** Calls back when no builder is working; the graphs do not change until `release`. The call is cancelled by `drop`. */
  hold(then: () => void): void {
    this.#holds.push(() => {
      this.#running++;
      this.#isExclusive = true;
      this.#nodes.hold();
      then();
    });
  }

  release(): void {
    invariant(this.#running > 0 && this.#isExclusive, "graphs are released that nobody holds");
    this.#running--;
    this.#isExclusive = false;
    this.#nodes.release();
  }

  /** Vectors that few links lead to are to be found by a beam of `ef`. */
  reconnect(ef: number): void {
    this.#reconnectEf = ef;
    this.#reconnecting = this.#nodes.living();
  }

  /** Graphs with some removed nodes are swept early, because removed nodes take entries in every beam. */
  tidy(): void {
    for (const partition of this.#nodes.living()) if (partition.isWorthSweeping) this.#sweeps.add(partition);
  }

  close(): void {
    this.#holds = [];
    this.#reconnecting = [];
  }

  /** Names of one insertion job. */
  get #insertCount(): number {
    return Math.max(insertMin, Math.min(insertMax, Math.floor(insertValues / this.#encoding.dimension)));
  }

  /** Starts the next job, or does what takes no time; returns whether there was any. */
  start(): boolean {
    if (this.#isExclusive) return false;
    const exclusive = this.#exclusiveJob();
    if (exclusive !== undefined) {
      if (this.#running > 0) return false;
      exclusive();
      return true;
    }
    const lonely = this.#isReconnecting ? undefined : this.#reconnecting.shift();
    if (lonely !== undefined && this.#nodes.partitions.includes(lonely)) {
      this.#isReconnecting = true;
      this.#run(lonely, { kind: "reconnect", living: lonely.living(), ef: this.#reconnectEf }, () => {
        this.#isReconnecting = false;
      });
      return true;
    }
    const sweeping = this.#nodes.partitions.find(
      (partition) => partition?.isSweeping && !partition.isSweptOut,
    );
    const isQueued = this.#skipUnwanted();
    const repairs = repairsPerInsertion * Math.round(this.#insertCount / insertMin);
    if (sweeping !== undefined && (!isQueued || this.#turn++ % (1 + repairs) !== 0)) {
      this.#run(sweeping, { kind: "repair", nodes: sweeping.nextToRepair(repairMax) });
      return true;
    }
    return isQueued && this.#insert();
  }

  /**
   * Grows a graph's memory before a job is handed out. A builder reads the memory's size when its job begins and works within that
   * size, so the memory must not grow while builders are at work.
   */
  #growth(): (() => void) | undefined {
    if (!this.#skipUnwanted()) return undefined;
    const graph = this.#nodes.partitions.find((partition) => this.#hasRoom(partition))?.graph;
    if (graph === undefined) return undefined;
    const slots = this.#slotsOfJob(graph);
    return graph.isReserved(slots) ? undefined : () => graph.reserve(slots);
  }

  #hasRoom(partition: Partition | undefined): boolean {
    return partition?.graph.hasRoom(this.#options.levelsMax - 1) === true;
  }

  /** Slots that an insertion job takes, at most. */
  #slotsOfJob(graph: Graph): number {
    return this.#insertCount * graph.slotsFor(this.#options.levelsMax - 1);
  }

  /** The next job that needs all builders idle. */
  #exclusiveJob(): (() => void) | undefined {
    for (const [number, partition] of this.#nodes.partitions.entries()) {
      if (partition === undefined) continue;
      partition.reclaim();
      if (partition.count === 0 && this.#running === 0) return () => this.#giveUp(number, partition);
      if (partition.isSweptOut) return () => partition.endSweep();
      if (partition.wantsSweep || (this.#sweeps.has(partition) && partition.isWorthSweeping))
        return () => this.#beginSweep(partition);
    }
    const growth = this.#growth();
    if (growth !== undefined || this.#holds.length === 0) return growth;
    // It stays in the queue until it can run.
    return () => this.#holds.shift()?.();
  }

  #giveUp(number: number, partition: Partition): void {
    invariant(
      this.#nodes.partitions[number] === partition && partition.count === 0,
      () => `partition ${number} is given up with ${partition.count} vectors`,
    );
    this.#nodes.partitions[number] = undefined;
    this.#sweeps.delete(partition);
    this.#host.forget(partition.target.id);
  }

  #beginSweep(partition: Partition): void {
    invariant(this.#running === 0, () => `a sweep begins while ${this.#running} jobs are running`);
    this.#sweeps.delete(partition);
    this.#isExclusive = true;
    const unlinked = partition.beginSweep();
    this.#run(partition, { kind: "redraw", living: partition.living(), unlinked }, () => {
      this.#isExclusive = false;
    });
  }

  /** Skips queued vector keys that are no longer needed; returns whether any are left. */
  #skipUnwanted(): boolean {
    return this.#queue.skipUnwanted((vectorKey) => this.#host.vectorOf(vectorKey) !== undefined);
  }

  /** Assigns the first queued vector keys to a builder, as many as fit into one partition. */
  #insert(): boolean {
    const { seed, m, levelsMax } = this.#options;
    const [number, partition] = this.#withRoom();
    const vectorKeys: number[] = [];
    const nodes: number[] = [];
    const { dimension } = this.#encoding;
    const count = Math.min(this.#insertCount, this.#queue.length);
    const vectors = new Float32Array(count * dimension);
    while (!this.#queue.isEmpty && vectorKeys.length < count && this.#hasRoom(partition)) {
      const vectorKey = this.#queue.first;
      const vector = this.#host.vectorOf(vectorKey);
      if (vector === undefined) {
        this.#queue.skip();
        continue;
      }
      vectors.set(vector, vectorKeys.length * dimension);
      nodes.push(partition.take(vectorKey, levelOf(vectorKey, seed, m, levelsMax)));
      vectorKeys.push(vectorKey);
      this.#queue.handOut();
    }
    const first = vectorKeys[0];
    invariant(first !== undefined, "a job has no vector to link");
    this.#queue.begin(first);
    const job = {
      kind: "insert",
      nodes: Uint32Array.from(nodes),
      vectors: vectorKeys.length === count ? vectors : vectors.slice(0, vectorKeys.length * dimension),
    } as const;
    this.#run(partition, job, () => {
      this.#queue.end(first);
      vectorKeys.forEach((vectorKey, i) => {
        this.#linked(vectorKey, number, partition, nodes[i]);
      });
    });
    return true;
  }

  #linked(vectorKey: number, number: number, partition: Partition, node: number): void {
    if (this.#queue.settle(vectorKey)) {
      this.#nodes.set(vectorKey, number, node);
      this.#host.onLinked(vectorKey);
    } else {
      this.#nodes.kill(partition, node);
    }
  }

  /** The first partition with room for a node; a new one if there is none. */
  #withRoom(): [number: number, partition: Partition] {
    const number = this.#nodes.partitions.findIndex((partition) => this.#hasRoom(partition));
    if (number >= 0) return [number, this.#nodes.partitions[number] as Partition];
    const added = this.#nodes.freeNumber();
    const partition = new Partition(shapeOf(this.#encoding, this.#options), this.#encoding);
    invariant(this.#hasRoom(partition), "a partition has no room for a single node");
    partition.graph.reserve(this.#slotsOfJob(partition.graph));
    this.#nodes.partitions[added] = partition;
    return [added, partition];
  }

  #run(partition: Partition, job: GraphJob, then: () => void = () => {}): void {
    this.#running++;
    this.#host.run(partition.target, job, () => {
      this.#running--;
      invariant(this.#running >= 0, "a job of the graphs has ended twice");
      then();
    });
  }
}

// ---- What is the top level of a node?
//
// Level l or more with probability m^-l, by a hash of seed and ordinal: the same record has the same level in every build, independent of
// the order of the others.

/** The level of an ordinal, below `levelsMax`. */
function levelOf(ordinal: number, seed: number, m: number, levelsMax: number): number {
  const uniform = hash(hash(seed ^ 0x9e37_79b9) ^ ordinal) / 2 ** 32;
  let level = 0;
  for (let bound = 1 / m; level < levelsMax - 1 && uniform < bound; bound /= m) level++;
  return level;
}

/** The finalizer of MurmurHash3, a u32: every bit of the value changes every bit of the hash. */
function hash(value: number): number {
  let mixed = value | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85eb_ca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2_ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
