// Which vectors are nearly nearest to a query, without reading them all?
//
// The hierarchical graph of Malkov and Yashunin (arXiv:1603.09320), searched on codes; the best of what it finds are scored
// exactly, from the full-precision vectors. Insertion and search run in WebAssembly (kernels/assembly/hnsw).
//
//        add            enough to calibrate by         job done
//   ----------> tail -----------------------> tail, queued ------> graph (and cache)
//                 \______________________________/                   |
//                          remove: gone                    remove: dead, swept later
//
// The *tail* holds the vectors that no graph has yet, and every search scans it exactly: a record is found from the moment
// it is added. Builders (jobs.ts) link what is queued, in the order of ordinals; with builders in place that happens within
// `add`. The *cache* holds full-precision vectors of records in graphs, as many as may stay; of others the caller reads them.
//
// A graph lies in one WebAssembly memory, which ends at 4 GiB: when it is full the next *partition* begins. Searches go
// through all of them.
//
// Jobs run beside each other and beside searches, but for a few that want no other builder: those wait until none is at work,
// and what was queued waits for them.
//
// Invariants (see check):
//   1. Each record is in the tail or in one partition; the map has those in partitions, with partition and node.
//   2. Queued and handed-out records are in the tail, until their job is done or they are removed.
//   3. A list has at most m0 links at level 0 and m above, to distinct other nodes of at least that level.
//   4. The entry point is a node of the greatest level, dead or living.
//   5. Links lead only to nodes, and after `settle` to every living one from the entry point.
//   6. A node's code, factor and bias are the encoding of its vector.

import { none } from "@quiver/kernels/hnsw";
import type { MetricName } from "@quiver/protocol/shapes/index-definition";
import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { keepBest } from "../../base/top-k.ts";
import { squaredNorm } from "../../vector/exact.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import type { ExactDistance, Metric } from "../../vector/metric.ts";
import { metrics } from "../../vector/metrics.ts";
import { assertAscending, type Candidates, type Index, nothing, type Visible } from "../contract.ts";
import { FlatIndex } from "../flat/flat-index.ts";
import { absent, OrdinalMap } from "../ordinal-map.ts";
import type { CalibrationRequest } from "./calibrate.ts";
import { checkGraph } from "./check.ts";
import {
  buildModes,
  dataTypeNumbers,
  Encoding,
  type EncodingState,
  type HnswDataType,
  rescoreDepth,
} from "./encoding.ts";
import {
  bestOf,
  ExactSearch,
  type Places,
  readVector,
  type SteppedSearch,
  type VectorReader,
  vectorIn,
} from "./exact-search.ts";
import type { Graph, GraphShape } from "./graph.ts";
import { type GraphBuilders, type GraphJob, InPlaceBuilders } from "./jobs.ts";
import { hash, levelOf } from "./level.ts";
import { Partition, type PartitionState } from "./partition.ts";

export type HnswOptions = {
  /** 1 to 65,535. */
  dimension: number;
  metric: MetricName;
  /** Codes of this type; `auto` measures on the sample and chooses. */
  dataType: HnswDataType | "auto";
  /** Values of vectors are clamped to it before they are encoded; default none. */
  range?: { readonly min: number; readonly max: number } | undefined;
  /** Links of a node above level 0, 2 at least; default 16. */
  m?: number;
  /** Links at level 0, 2 at least; default twice `m`. */
  m0?: number;
  /** Nodes weighed as links of a new one, `efMax` at most; default 128. */
  efConstruction?: number;
  /** Greatest number of levels; default 9. */
  levelsMax?: number;
  /** Decides the levels; default 0. */
  seed?: number;
  /** Records that are gathered before codes are calibrated and the graph begins; default 1,000. */
  sampleCount?: number;
  /** Bytes of one partition's memory; 4 GiB at most, the default. */
  memoryBytesMax?: number;
  /** Full-precision vectors of records in graphs that are kept in memory; default all. */
  cacheMax?: number;
  /** Threads that may search at a time, this one included; default 1. */
  searchers?: number;
  /** Who builds; default: this thread, in place. */
  builders?: GraphBuilders;
  /** Length of the beam where a search names none; default 128. */
  efSearch?: number;
  /** Told when building has failed; the index goes on by exact scans. */
  onError?: (error: unknown) => void;
  /** Told when a builder has done a job. */
  onProgress?: () => void;
};

export type HnswSearch = {
  /** Length of the beam; at least k is used. A beam beyond `efMax` means an exact scan. */
  ef?: number | undefined;
  visible?: Visible;
  /** How many of the best by code are scored exactly; default by the type of the codes. */
  rescore?: number | undefined;
  /** Reads vectors that are not in the cache; needed where `cacheMax` is less than all. */
  vectorOf?: VectorReader;
  /** A record that the search is to go by as if it were not there: no way leads over it, and it is not found. */
  without?: number;
};

/** What of an index a checkpoint keeps, besides the images of its graphs. */
export type HnswState = {
  readonly encoding: EncodingState;
  /** Every record with a smaller ordinal was in a graph, or removed. */
  readonly linkedEnd: number;
  /** Records that were retired and not yet removed. */
  readonly retired: Uint32Array;
  readonly partitions: readonly PartitionState[];
  /** Records that had been linked or removed. */
  readonly work: number;
  readonly effort: MeasuredEffort | undefined;
};

/** Which beam was seen to find which share of the exact answer (query/recall.ts measures it). */
export type MeasuredEffort = {
  /** By depth of the answer: beams, ascending, and the recall of each, 0 to 1. */
  readonly rows: readonly (readonly { readonly ef: number; readonly recall: number }[])[];
  /** Records, and what had been linked or removed, when that was measured. */
  readonly count: number;
  readonly work: number;
};

/** Beams are not longer than this: a search that needs more reads all records. */
export const efMax = 4_096;

/** Records of one insertion job, and nodes of one repair job: some ten milliseconds of work. */
const insertMax = 64;
const repairMax = 256;
/** Jobs of a sweep for one insertion. */
const repairsPerInsertion = 3;

const partitionsMax = 255;
const unitMask = 0xff_ffff;

type Optional = "range" | "onError" | "onProgress";

export class HnswIndex implements Index {
  readonly dimension: number;
  readonly metric: Metric;
  readonly #options: Required<Omit<HnswOptions, Optional>> & Pick<HnswOptions, Optional>;
  readonly #builders: GraphBuilders;
  readonly #tail: FlatIndex;
  readonly #cache: FlatIndex;
  /** Record -> partition * 2^24 + node. */
  readonly #nodes = new OrdinalMap();
  /** By number; undefined where one was given up. */
  readonly #partitions: (Partition | undefined)[] = [];
  #encoding: Encoding | undefined;
  #last = -1;
  /** Ordinals that wait for a builder, ascending from `#queueHead` on. */
  #queue: number[] = [];
  #queueHead = 0;
  /** First ordinals of the insertions that are being done. */
  readonly #inserting = new Set<number>();
  /** Nodes whose records were removed while a checkpoint is written: what is written must not change meanwhile. */
  #killedLater: { partition: Partition; node: number }[] = [];
  #isSaving = false;
  /** Records linked or removed since the index was made. */
  #work = 0;
  #effort: MeasuredEffort | undefined;
  #isEffortKept = true;
  /** Records that were removed while a builder links them. */
  readonly #cancelled = new Set<number>();
  readonly #handedOut = new Set<number>();
  /** What a search has found, while it lasts. */
  readonly #found = new Growable(Uint32Array);
  #scores = new Float64Array(0);
  readonly #retired = new Set<number>();
  #running = 0;
  #isExclusive = false;
  #isPumping = false;
  #isCalibrating = false;
  #turn = 0;
  #saves: { start(): void; drop(): void }[] = [];
  /** Records linked or killed since the last save. */
  #changes = 0;
  #settles = new Set<Partition>();
  /** Graphs that are to be swept before they have to be. */
  #sweeps = new Set<Partition>();
  #failure: unknown;
  #isClosed = false;

  constructor(options: HnswOptions) {
    const m = Math.max(2, options.m ?? 16);
    this.#options = {
      efConstruction: 128,
      levelsMax: 9,
      seed: 0,
      sampleCount: 1_000,
      memoryBytesMax: 2 ** 32,
      cacheMax: Number.POSITIVE_INFINITY,
      searchers: 1,
      efSearch: 128,
      builders: new InPlaceBuilders(),
      ...options,
      m,
      m0: Math.max(2, options.m0 ?? 2 * m),
    };
    invariant(this.#options.efConstruction <= efMax, `ef_construction is at most ${efMax}`);
    this.#builders = this.#options.builders;
    this.dimension = options.dimension;
    this.metric = metrics[options.metric];
    const { dimension, metric } = options;
    this.#tail = new FlatIndex({ dimension, metric });
    this.#cache = new FlatIndex({ dimension, metric, isUnordered: true });
  }

  get count(): number {
    return this.#nodes.size + this.#tail.count;
  }

  has(ordinal: number): boolean {
    return this.#nodes.get(ordinal) !== absent || this.#tail.has(ordinal);
  }

  /** Records that are searched by exact scan, until builders have linked them. */
  get tailCount(): number {
    return this.#tail.count;
  }

  /** Every record with a smaller ordinal has its final place; records that wait for the sample to be complete have. */
  get linkedEnd(): number {
    if (this.#isCalibrating) return 0;
    let end = this.#queueHead < this.#queue.length ? this.#queue[this.#queueHead] : Number.POSITIVE_INFINITY;
    for (const first of this.#inserting) end = Math.min(end, first);
    return end;
  }

  /** The type of the codes and why it was chosen; undefined while the sample is gathered. */
  get encoding(): EncodingState | undefined {
    return this.#encoding?.toState();
  }

  get partitionCount(): number {
    return this.#partitions.filter((partition) => partition !== undefined).length;
  }

  /** Records that were linked or removed since the index was last kept. */
  get changes(): number {
    return this.#changes;
  }

  /** Records that were linked or removed since the index was made. */
  get work(): number {
    return this.#work;
  }

  /** What was measured of beams; a checkpoint keeps it. */
  get effort(): MeasuredEffort | undefined {
    return this.#effort;
  }

  set effort(measured: MeasuredEffort) {
    this.#effort = measured;
    this.#isEffortKept = false;
  }

  /** Whether beams were measured since the index was last kept. */
  get hasNewEffort(): boolean {
    return !this.#isEffortKept;
  }

  /** The beam that a search of k records by a beam of `ef` takes: at least what is scored exactly. */
  beamOf(k: number, ef: number = this.#options.efSearch): number {
    return this.#encoding === undefined ? ef : Math.max(ef, this.#depthOf(k));
  }

  /** How many of the best by code are scored exactly for k records; more than a beam can have only where k is. */
  #depthOf(k: number, rescore?: number): number {
    const wanted = rescore ?? rescoreDepth((this.#encoding as Encoding).dataType, k);
    return Math.max(k, Math.min(wanted, efMax));
  }

  /** Bytes of codes and links. */
  get graphBytes(): number {
    let bytes = 0;
    for (const partition of this.#partitions) bytes += partition?.memoryBytes ?? 0;
    return bytes;
  }

  /** For threads that search too, and for tests. */
  get graphs(): readonly Graph[] {
    return this.#partitions.flatMap((partition) => (partition === undefined ? [] : [partition.graph]));
  }

  /** Why building has stopped, if it has. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Whether nothing is queued or being done. */
  get isIdle(): boolean {
    return this.#running === 0 && this.#queueHead >= this.#queue.length && this.#saves.length === 0;
  }

  /** Adds a record: `values` are 4 * dimension bytes of finite little-endian f32, at any offset, and are copied. */
  add(ordinal: number, values: Uint8Array): void {
    assertAscending(ordinal, this.#last);
    this.#tail.add(ordinal, values);
    this.#last = ordinal;
    if (this.#encoding !== undefined) this.#queue.push(ordinal);
    this.#pump();
  }

  /** The record is found as before, and `visible` decides; a checkpoint does not keep it. */
  retire(ordinal: number): void {
    if (this.has(ordinal)) this.#retired.add(ordinal);
  }

  remove(ordinal: number): void {
    this.#retired.delete(ordinal);
    const place = this.#nodes.get(ordinal);
    if (place === absent) {
      if (this.#handedOut.has(ordinal)) this.#cancelled.add(ordinal);
      this.#tail.remove(ordinal);
      return;
    }
    this.#nodes.delete(ordinal);
    this.#cache.remove(ordinal);
    this.#kill(this.#partitionOf(place), place & unitMask);
    this.#changed();
    this.#pump();
  }

  #changed(): void {
    this.#changes++;
    this.#work++;
  }

  /** Marks a node as removed, now or when the checkpoint that is being written is done. */
  #kill(partition: Partition, node: number): void {
    if (this.#isSaving) this.#killedLater.push({ partition, node });
    else partition.kill(node);
  }

  /** About the k nearest records, with exact scores. `query` has `dimension` finite values and is borrowed. */
  search(query: Float32Array, k: number, options: HnswSearch): Candidates {
    this.#assertQuery(query);
    if (k <= 0 || this.count === 0) return nothing;
    const { visible = null, vectorOf } = options;
    const found = this.#searchGraphs(query, k, options);
    if (found === null) return this.searchExactly(query, k, visible, vectorOf);
    return this.#tail.count === 0 ? found : bestOf([found, this.#tail.search(query, k, visible)], k);
  }

  /**
   * Begins a search like `search`, whose scan of the tail is done in steps, between which the index may change.
   * @param visible asked for the test at the start of each step
   */
  begin(
    query: Float32Array,
    k: number,
    visible: () => Visible,
    options: Omit<HnswSearch, "visible">,
  ): SteppedSearch {
    this.#assertQuery(query);
    const found = k <= 0 ? nothing : this.#searchGraphs(query, k, { ...options, visible: visible() });
    if (found === null) return this.beginExactly([query], k, visible, options.vectorOf);
    if (k <= 0 || this.#tail.count === 0) return { run: () => true, finish: () => [found], end: () => {} };
    const scan = this.#tail.scan(query, Math.min(k, this.count), visible, (ordinal) =>
      vectorIn(this.#places, ordinal, options.vectorOf),
    );
    return {
      run: (isTimeOver) => scan.run(isTimeOver),
      finish: () => [bestOf([found, scan.finish()], k)],
      end: () => scan.end(),
    };
  }

  /** The k best of all graphs; null where too few of what they find can be seen, and only reading all records helps. */
  #searchGraphs(query: Float32Array, k: number, options: HnswSearch): Candidates | null {
    const { visible = null } = options;
    if (this.#nodes.size === 0) return nothing;
    const wanted = this.#depthOf(k, options.rescore);
    const banned = options.without === undefined ? absent : this.#nodes.get(options.without);
    for (
      let beam = Math.max(options.ef ?? this.#options.efSearch, wanted);
      beam <= efMax;
      beam = Math.max(beam + 1, Math.min(4 * beam, efMax))
    ) {
      const ordinals = this.#found;
      ordinals.length = 0;
      let isExhausted = true;
      for (let number = 0; number < this.#partitions.length; number++) {
        const partition = this.#partitions[number];
        if (partition === undefined) continue;
        const without = banned !== absent && banned >>> 24 === number ? banned & unitMask : none;
        const found = this.#searchGraph(partition.graph, query, beam, wanted, visible, without, ordinals);
        if (found === beam) isExhausted = false;
      }
      // Where too few of the beam can be seen, a longer one finds more, unless it has met all there is on its way.
      if (ordinals.length >= Math.min(k, this.#nodes.size))
        return this.#score(query, ordinals.values, ordinals.length, k, options.vectorOf);
      if (isExhausted) break;
    }
    return null;
  }

  /** The k nearest records, by reading all. */
  searchExactly(query: Float32Array, k: number, visible: Visible, vectorOf?: VectorReader): Candidates {
    const search = this.beginExactly([query], k, () => visible, vectorOf);
    try {
      search.run(() => false);
      return search.finish()[0];
    } finally {
      search.end();
    }
  }

  /**
   * Begins a search for the k nearest records of each query, by reading all, in steps between which the index may change.
   * @param visible asked for the test at the start of each step
   */
  beginExactly(
    queries: readonly Float32Array[],
    k: number,
    visible: () => Visible,
    vectorOf?: VectorReader,
  ): SteppedSearch {
    for (const query of queries) this.#assertQuery(query);
    // What is added later nobody sees, so no more can be found than there are.
    const found = Math.min(k, this.count);
    if (found > 0) return new ExactSearch(this.#places, queries, found, visible, vectorOf);
    return { run: () => true, finish: () => queries.map(() => nothing), end: () => {} };
  }

  get #places(): Places {
    return {
      metric: this.metric,
      nodes: this.#nodes,
      tail: this.#tail,
      cache: this.#cache,
      cacheMax: this.#options.cacheMax,
      ordinalEnd: this.#last + 1,
    };
  }

  get memoryBytes(): number {
    return (
      this.graphBytes +
      this.#tail.memoryBytes +
      this.#cache.memoryBytes +
      this.#nodes.memoryBytes +
      8 * (this.#queue.length + this.#retired.size) +
      500
    );
  }

  /** Where nothing else is to be done, sweeps graphs that have some removed nodes: they take places in every beam. */
  tidy(): boolean {
    if (!this.isIdle) return false;
    for (const partition of this.#partitions) if (partition?.isWorthSweeping) this.#sweeps.add(partition);
    this.#pump();
    return false;
  }

  /** Links nodes again to which no way leads, as soon as no builder is at work. */
  settle(): void {
    for (const partition of this.#partitions) if (partition !== undefined) this.#settles.add(partition);
    this.#pump();
  }

  /**
   * Hands out what a checkpoint keeps, as soon as no builder is at work and all ways are there. It does not change until `done`
   * is called, with whether it was kept; then building goes on. `drop` is called instead when nothing can be handed out: before there is a graph, after building has
   * failed, or when the index is closed.
   */
  save(
    keep: (state: HnswState, graphs: readonly Graph[], done: (isKept: boolean) => void) => void,
    drop: () => void = () => {},
  ): void {
    if (this.#isClosed || this.#failure !== undefined || this.#encoding === undefined) {
      drop();
      return;
    }
    this.settle();
    const encoding = this.#encoding;
    const start = () => {
      const partitions = this.#partitions.filter((partition) => partition !== undefined);
      this.#running++;
      this.#isExclusive = true;
      this.#isSaving = true;
      const changes = this.#changes;
      const state: HnswState = {
        encoding: encoding.toState(),
        linkedEnd: Math.min(this.linkedEnd, this.#last + 1),
        retired: Uint32Array.from(this.#retired).filter((ordinal) => this.#nodes.get(ordinal) !== absent),
        partitions: partitions.map((partition) => partition.state()),
        work: this.#work,
        effort: this.#effort,
      };
      const graphs = partitions.map(({ graph }) => graph);
      keep(state, graphs, (isKept) => {
        this.#running--;
        this.#isExclusive = false;
        this.#isSaving = false;
        if (isKept) {
          this.#changes -= changes;
          this.#isEffortKept = this.#effort === state.effort;
        }
        for (const { partition, node } of this.#killedLater.splice(0)) partition.kill(node);
        this.#pump();
      });
    };
    this.#saves.push({ start, drop });
    this.#pump();
  }

  /** An index as it was kept. @param load writes the image of each graph, see Graph.image */
  static async restored(
    options: HnswOptions,
    state: HnswState,
    load: (graphs: readonly Graph[]) => Promise<void>,
  ): Promise<HnswIndex> {
    const index = new HnswIndex(options);
    const encoding = Encoding.fromState(state.encoding);
    const shape = index.#shapeFor(encoding);
    const partitions = state.partitions.map((kept) => Partition.restored(shape, encoding, kept));
    await load(partitions.map(({ graph }) => graph));
    index.#encoding = encoding;
    for (const [number, partition] of partitions.entries()) {
      index.#partitions.push(partition);
      partition.graph.refresh();
      for (const node of partition.living()) {
        const ordinal = partition.graph.ordinalOf(node);
        invariant(ordinal < none, `the kept node ${node} is said to live, and is marked as removed`);
        index.#nodes.set(ordinal, number * 2 ** 24 + node);
      }
    }
    index.#work = state.work;
    index.#effort = state.effort;
    index.#last = state.linkedEnd - 1;
    for (const ordinal of state.retired) index.remove(ordinal);
    return index;
  }

  /** Proves the invariants, as of the last `settle`. No builder may be at work. */
  check(vectorOf?: VectorReader): void {
    this.#nodes.check();
    this.#tail.check();
    this.#cache.check();
    invariant(this.#running === 0, "an index is checked while builders are at work");
    let living = 0;
    for (const [number, partition] of this.#partitions.entries()) {
      if (partition === undefined) continue;
      partition.check();
      living += partition.count;
      checkGraph(partition, this.#encoding as Encoding, (ordinal, node) => {
        const place = this.#nodes.get(ordinal);
        invariant(
          place === number * 2 ** 24 + node,
          `ordinal ${ordinal} has node ${node}, the map says ${place}`,
        );
        return this.#vector(ordinal, vectorOf);
      });
    }
    invariant(living === this.#nodes.size, `${living} living nodes for ${this.#nodes.size} records`);
    invariant(this.#cache.count <= this.#options.cacheMax, "the cache holds more than it may");
    for (let i = this.#queueHead; i < this.#queue.length; i++)
      invariant(
        this.#nodes.get(this.#queue[i]) === absent,
        `the queued ordinal ${this.#queue[i]} has a node`,
      );
  }

  close(): void {
    this.#isClosed = true;
    for (const partition of this.#partitions)
      if (partition !== undefined) this.#builders.forget(partition.target.id);
    this.#partitions.length = 0;
    this.#nodes.clear();
    this.#tail.close();
    this.#cache.close();
    this.#queue = [];
    this.#queueHead = 0;
    this.#dropSaves();
  }

  #dropSaves(): void {
    for (const { drop } of this.#saves.splice(0)) drop();
  }

  /** The bytes of all graphs, for comparison: a copy. */
  get bytes(): Uint8Array {
    return Buffer.concat(this.#partitions.map((partition) => partition?.graph.image ?? new Uint8Array(0)));
  }

  // ---- Searching

  #assertQuery(query: Float32Array): void {
    const { dimension } = this;
    invariant(query.length === dimension, `a query has ${query.length} values instead of ${dimension}`);
    invariant(Number.isFinite(squaredNorm(query, 0, dimension)), "a query has a value that is not finite");
  }

  /** Searches a graph and adds the first `wanted` visible ordinals; returns the length of the beam. */
  #searchGraph(
    graph: Graph,
    query: Float32Array,
    beam: number,
    wanted: number,
    visible: Visible,
    without: number,
    ordinals: Growable<Uint32Array>,
  ): number {
    const encoding = this.#encoding as Encoding;
    graph.setQuery(encoding, query);
    graph.ban(without);
    graph.kernels.hnswEnter(graph.area);
    const found = graph.kernels.hnswSearch(graph.area, beam);
    const { words } = graph;
    const at = graph.placeOf("beam") / 4;
    const isChanging = this.#handedOut.size > 0 || this.#killedLater.length > 0;
    const end = ordinals.length + wanted;
    for (let i = 0; i < found && ordinals.length < end; i++) {
      const ordinal = graph.ordinalOf(words[at + 2 * i] >>> 1);
      if (ordinal === none) continue;
      // A record that is being linked is still in the tail, and found there; one that is to be killed is gone.
      if (isChanging && this.#nodes.get(ordinal) === absent) continue;
      if (visible !== null && !visible(ordinal)) continue;
      ordinals.push(ordinal);
    }
    graph.kernels.hnswLeave(graph.area);
    return found;
  }

  /** The k best of the first `count` ordinals, with exact scores. */
  #score(
    query: Float32Array,
    ordinals: Uint32Array,
    count: number,
    k: number,
    vectorOf?: VectorReader,
  ): Candidates {
    if (this.#scores.length < count) this.#scores = new Float64Array(2 * count);
    const scores = this.#scores;
    this.#cache.distancesOf(query, ordinals, count, scores);
    let distanceTo: ExactDistance | undefined;
    for (let i = 0; i < count; i++) {
      if (Number.isNaN(scores[i])) {
        distanceTo ??= this.metric.exactDistance(query);
        scores[i] = distanceTo(this.#read(ordinals[i], vectorOf), 0);
      }
      scores[i] = this.metric.score(scores[i]);
    }
    return keepBest(ordinals, scores, count, k);
  }

  /** Reads a vector that is not in the cache, and lets it take the place of another there. */
  #read(ordinal: number, vectorOf?: VectorReader): Float32Array {
    const vector = readVector(ordinal, vectorOf);
    const { cacheMax } = this.#options;
    if (cacheMax > 0) {
      // Which one has to go is left to chance, by a number that the ordinals make: no books are kept of what is used.
      if (this.#cache.count >= cacheMax)
        this.#cache.remove(this.#cache.ordinalAt(hash(ordinal) % this.#cache.count));
      this.#cache.add(ordinal, bytesOfFloats(vector));
    }
    return vector;
  }

  #vector(ordinal: number, vectorOf?: VectorReader): Float32Array {
    return this.#cache.vectorOf(ordinal) ?? this.#read(ordinal, vectorOf);
  }

  // ---- Building

  #partitionOf(place: number): Partition {
    const partition = this.#partitions[place >>> 24];
    invariant(partition !== undefined, `the partition ${place >>> 24} was given up`);
    return partition;
  }

  #shapeFor(encoding: Encoding): GraphShape {
    const { m, m0, efConstruction, memoryBytesMax, searchers, metric } = this.#options;
    return {
      codeBytes: encoding.codeBytes,
      queryBytes: encoding.queryBytes,
      dataType: dataTypeNumbers[encoding.dataType],
      m,
      m0,
      efConstruction,
      efMax,
      buildMode: buildModes[metric],
      memoryBytesMax,
      areas: searchers + (this.#builders instanceof InPlaceBuilders ? 0 : this.#builders.width),
    };
  }

  /** Hands out jobs while builders are free and there is something to do. */
  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      while (!this.#isClosed && this.#failure === undefined && this.#running < this.#builders.width)
        if (!this.#start()) break;
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#isPumping = false;
    }
  }

  /** Starts the next job, or does what takes no time; returns whether there was any. */
  #start(): boolean {
    if (this.#isExclusive) return false;
    if (this.#encoding === undefined) return this.#calibrate();
    const wish = this.#exclusiveWish();
    if (wish !== undefined) {
      if (this.#running > 0) return false;
      wish();
      return true;
    }
    const sweeping = this.#partitions.find((partition) => partition?.isSweeping && !partition.isSweptOut);
    const isQueued = this.#skipRemoved();
    if (sweeping !== undefined && (!isQueued || this.#turn++ % (1 + repairsPerInsertion) !== 0)) {
      this.#run(sweeping, { kind: "repair", nodes: sweeping.nextToRepair(repairMax) });
      return true;
    }
    if (!isQueued) return false;
    this.#insert();
    return true;
  }

  /** The next thing that wants no builder beside it. */
  #exclusiveWish(): (() => void) | undefined {
    for (const [number, partition] of this.#partitions.entries()) {
      if (partition === undefined) continue;
      partition.reclaim();
      if (partition.count === 0 && this.#running === 0) return () => this.#giveUp(number, partition);
      if (partition.isSweptOut) return () => this.#settlePartition(partition, () => partition.endSweep());
      if (partition.wantsSweep || (this.#sweeps.has(partition) && partition.isWorthSweeping))
        return () => {
          this.#sweeps.delete(partition);
          partition.beginSweep();
        };
      if (this.#settles.has(partition) || partition.changes > 0.5 * partition.count + 1_000)
        return () => this.#settlePartition(partition);
    }
    const save = this.#saves.shift();
    return save && (() => save.start());
  }

  #calibrate(): boolean {
    const { sampleCount, metric, dataType, range, seed } = this.#options;
    if (this.#isCalibrating || this.#tail.count < sampleCount) return false;
    this.#isCalibrating = true;
    this.#running++;
    const request: CalibrationRequest = {
      metric,
      dataType,
      dimension: this.dimension,
      range,
      seed,
      rows: this.#sample(),
    };
    this.#builders.calibrate(request, (error, state) => {
      this.#running--;
      this.#isCalibrating = false;
      if (this.#isClosed) return;
      try {
        if (state === null) throw error;
        this.#encoding = Encoding.fromState(state);
        this.#queue = [...this.#tail.ordinals()].sort((a, b) => a - b);
        this.#queueHead = 0;
      } catch (failure) {
        this.#fail(failure);
      }
      this.#pump();
    });
    return true;
  }

  /** Rows of the tail, evenly chosen where there are very many. */
  #sample(): Float32Array {
    const ordinals = [...this.#tail.ordinals()].sort((a, b) => a - b);
    const count = Math.min(ordinals.length, sampleMax);
    const rows = new Float32Array(count * this.dimension);
    for (let i = 0; i < count; i++) {
      const ordinal = ordinals[Math.floor((i * ordinals.length) / count)];
      rows.set(this.#tail.vectorOf(ordinal) as Float32Array, i * this.dimension);
    }
    return rows;
  }

  /** Passes over queued records that were removed; returns whether any is left. */
  #skipRemoved(): boolean {
    while (this.#queueHead < this.#queue.length && !this.#tail.has(this.#queue[this.#queueHead]))
      this.#queueHead++;
    if (this.#queueHead < this.#queue.length) return true;
    this.#queue.length = 0;
    this.#queueHead = 0;
    return false;
  }

  /** Hands the first queued records to a builder, as many as fit one partition. */
  #insert(): void {
    const { seed, m, levelsMax } = this.#options;
    const [number, partition] = this.#withRoom();
    const ordinals: number[] = [];
    const nodes: number[] = [];
    while (ordinals.length < insertMax && this.#skipRemoved()) {
      if (!partition.graph.hasRoom(levelsMax - 1)) break;
      const ordinal = this.#queue[this.#queueHead++];
      nodes.push(partition.take(ordinal, levelOf(ordinal, seed, m, levelsMax)));
      ordinals.push(ordinal);
      this.#handedOut.add(ordinal);
    }
    if (this.#queueHead > 65_536) {
      this.#queue = this.#queue.slice(this.#queueHead);
      this.#queueHead = 0;
    }
    const vectors = new Float32Array(ordinals.length * this.dimension);
    ordinals.forEach((ordinal, i) => {
      vectors.set(this.#tail.vectorOf(ordinal) as Float32Array, i * this.dimension);
    });
    const first = ordinals[0];
    this.#inserting.add(first);
    this.#run(partition, { kind: "insert", nodes: Uint32Array.from(nodes), vectors }, () => {
      this.#inserting.delete(first);
      ordinals.forEach((ordinal, i) => {
        this.#linked(ordinal, number, partition, nodes[i]);
      });
    });
  }

  /** A builder has linked a record's node: the record leaves the tail, or, where it was removed meanwhile, the graph. */
  #linked(ordinal: number, number: number, partition: Partition, node: number): void {
    this.#handedOut.delete(ordinal);
    if (this.#cancelled.delete(ordinal)) {
      this.#kill(partition, node);
      return;
    }
    this.#nodes.set(ordinal, number * 2 ** 24 + node);
    this.#changed();
    if (this.#cache.count < this.#options.cacheMax)
      this.#cache.add(ordinal, bytesOfFloats(this.#tail.vectorOf(ordinal) as Float32Array));
    this.#tail.remove(ordinal);
  }

  /** The first partition with room for a node, made where there is none. */
  #withRoom(): [number: number, partition: Partition] {
    const { levelsMax } = this.#options;
    const number = this.#partitions.findIndex((partition) => partition?.graph.hasRoom(levelsMax - 1));
    if (number >= 0) return [number, this.#partitions[number] as Partition];
    const free = this.#partitions.indexOf(undefined);
    const added = free >= 0 ? free : this.#partitions.length;
    invariant(added < partitionsMax, `an index has at most ${partitionsMax} partitions`);
    const encoding = this.#encoding as Encoding;
    const partition = new Partition(this.#shapeFor(encoding), encoding);
    invariant(partition.graph.hasRoom(levelsMax - 1), "a partition has no room for a single node");
    this.#partitions[added] = partition;
    return [added, partition];
  }

  #giveUp(number: number, partition: Partition): void {
    this.#partitions[number] = undefined;
    this.#settles.delete(partition);
    this.#sweeps.delete(partition);
    this.#builders.forget(partition.target.id);
  }

  #settlePartition(partition: Partition, then: () => void = () => {}): void {
    this.#settles.delete(partition);
    this.#isExclusive = true;
    this.#run(partition, { kind: "settle", living: partition.living() }, () => {
      this.#isExclusive = false;
      partition.changes = 0;
      then();
    });
  }

  #run(partition: Partition, job: GraphJob, then: () => void = () => {}): void {
    this.#running++;
    this.#builders.run(partition.target, job, (error) => {
      this.#running--;
      if (this.#isClosed) return;
      try {
        if (error !== null) throw error;
        then();
      } catch (failure) {
        this.#fail(failure);
      }
      this.#pump();
      // In place nobody has time to spare.
      if (!(this.#builders instanceof InPlaceBuilders)) this.tidy();
      this.#options.onProgress?.();
    });
  }

  /** Building ends here. Records that no graph has stay in the tail, so every answer remains right. */
  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#dropSaves();
    this.#options.onError?.(error);
  }
}

/** Vectors that codes are calibrated by, at most. */
const sampleMax = 10_000;
