// Which vectors are nearly nearest to a query, without reading them all?
//
// The hierarchical graph of Malkov and Yashunin (arXiv:1603.09320), searched on codes; the best of what it finds are scored
// exactly, from the full-precision vectors. Insertion and search run in WebAssembly (kernels/assembly/hnsw).
//
//        add            enough to calibrate by         job done
//   ----------> tail -----------------------> tail, queued ------> graphs (and cache)
//      |          \______________________________/                   |
//      |                    remove: gone                    remove: dead, swept later
//      |--- equal to a vector that is held ----> a copy of it (copies.ts)
//      '--- cosine, and all values are zero ---> the vector without direction: its score is known
//
// Tail, cache and graphs hold *names*, one for each distinct vector; searches find names, and answer with their records. The
// *tail* holds the vectors that no graph has yet, and every search scans it exactly: a record is found from the moment it is
// added. Builders (jobs.ts) link what is queued; with builders in place that happens within `add`. The *cache* holds
// full-precision vectors of what is in graphs, as many as may stay; others the caller reads.
//
// Where the codes turn out to lose more than they may (quality.ts), a *successor* is built: graphs of better codes, beside the
// ones that serve, which it replaces when it has all that they have.
//
// Invariants (see check):
//   1. Each name is in the tail or in the graphs, or is the one without direction; each record is a name or a copy of one.
//   2. Names that are queued or handed out are in the tail, until their job is done or they are removed.
//   3. A list has at most m0 links at level 0 and m above, to distinct other nodes of at least that level.
//   4. The entry point is a node of the greatest level, dead or living.
//   5. Links lead only to nodes, and every node can be reached from the entry point at level 0.
//   6. A node's code, factor and bias are the encoding of its vector.

import type { MetricName } from "@quiver/protocol/shapes/index-definition";
import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { keepBest } from "../../base/top-k.ts";
import { squaredNorm } from "../../vector/exact.ts";
import { bytesOfFloats, readFloats } from "../../vector/floats.ts";
import type { ExactDistance, Metric } from "../../vector/metric.ts";
import { metrics } from "../../vector/metrics.ts";
import { assertAscending, bestOf, type Candidates, type Index, nothing, type Visible } from "../contract.ts";
import { FlatIndex, flatBytes } from "../flat/flat-index.ts";
import { absent } from "../ordinal-map.ts";
import { Building, type BuildingState, readsPerBeamPlace } from "./building.ts";
import { type EncodingState, type HnswDataType, rescoreDepth } from "./encoding.ts";
import {
  ExactSearch,
  type Places,
  readVector,
  type SteppedSearch,
  type VectorReader,
  vectorIn,
} from "./exact-search.ts";
import type { FingerprintKey } from "./fingerprints.ts";
import type { Graph } from "./graph.ts";
import { efMax, type GraphSet } from "./graph-set.ts";
import { type GraphBuilders, InPlaceBuilders } from "./jobs.ts";
import { hash } from "./level.ts";
import { denseBytes, indexBytes } from "./memory.ts";
import { isEqualTo, Names, type NamesState } from "./names.ts";
import { lengthThatCounts, type Measured, type Quality, type Question, qualityDepth } from "./quality.ts";

export { efMax };

export type HnswOptions = {
  /** 1 to 65,535. */
  dimension: number;
  metric: MetricName;
  /** Codes of this type; `auto` measures and chooses. */
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
  /** Distinct vectors that are gathered before codes are calibrated and the graph begins; default 1,000. */
  sampleCount?: number;
  /** Bytes of one graph's memory; 4 GiB at most, the default. */
  memoryBytesMax?: number;
  /** Full-precision vectors of what is in graphs that are kept in memory; default all. */
  cacheMax?: number;
  /** Whether so many bytes more may be taken that the index can do without: for the cache, or for a successor. Default: always. */
  mayTake?: (bytes: number) => boolean;
  /** Threads that may search at a time, this one included; default 1. */
  searchers?: number;
  /** Who builds; default: this thread, in place. */
  builders?: GraphBuilders;
  /** Length of the beam where a search names none; default 128. */
  efSearch?: number;
  /** Whether recall is measured in the background, and acted upon where it is too low; default true. */
  measures?: boolean;
  /** Decides the hash that finds equal vectors; a random one keeps others from making vectors that collide. */
  fingerprintKey?: FingerprintKey;
  /** Reads the newest vector of a record, for building where not all are in the cache; undefined: the record is gone. */
  readVector?: (ordinal: number) => Uint8Array | undefined;
  /** Told when building has failed; the index goes on by exact scans. */
  onError?: (error: unknown) => void;
  /** Told when a builder has done a job. */
  onProgress?: () => void;
  /** Told when `tidy` has something to do. */
  onMore?: () => void;
  /** Told what was done about recall that is too low. */
  onNotice?: (notice: string) => void;
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
export type HnswState = BuildingState & {
  readonly names: NamesState;
  /** Every record with a smaller ordinal was kept, or removed. */
  readonly linkedEnd: number;
  /** Records that were retired and not yet removed. */
  readonly retired: Uint32Array;
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

/** The cache asks for so much more at a time. */
const cacheStepBytes = 2 ** 20;

type Optional = "range" | "mayTake" | "readVector" | "onError" | "onProgress" | "onMore" | "onNotice";

export class HnswIndex implements Index {
  readonly dimension: number;
  readonly metric: Metric;
  readonly #options: Required<Omit<HnswOptions, Optional>> & Pick<HnswOptions, Optional>;
  #names: Names;
  readonly #tail: FlatIndex;
  readonly #cache: FlatIndex;
  readonly #building: Building;
  readonly #retired = new Set<number>();
  #last = -1;
  /** Records that came to a graph or left it since the last save. */
  #changes = 0;
  #effort: MeasuredEffort | undefined;
  #isEffortKept = true;
  #keptQuality: Quality | undefined;
  /** Vectors that the cache may have before it asks for more memory. */
  #cacheGranted = 0;
  /** What a search has found, while it lasts. */
  readonly #found = new Growable(Uint32Array);
  #scores = new Float64Array(0);

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
      measures: true,
      fingerprintKey: [0x9e37_79b9, 0x7f4a_7c15],
      ...options,
      m,
      m0: Math.max(2, options.m0 ?? 2 * m),
    };
    invariant(this.#options.efConstruction <= efMax, `ef_construction is at most ${efMax}`);
    const { dimension, metric } = options;
    this.dimension = dimension;
    this.metric = metrics[metric];
    this.#names = new Names(dimension, this.#options.fingerprintKey);
    this.#tail = new FlatIndex({ dimension, metric });
    this.#cache = new FlatIndex({ dimension, metric, isUnordered: true });
    this.#building = new Building(this.#options, {
      waiting: () => this.#tail.ordinals(),
      waitingCount: () => this.#tail.count,
      vectorOf: (name) => this.#vectorToLink(name),
      onLinked: (name) => this.#onLinked(name),
      sample: (count, fresh) => this.#sample(count, fresh),
      shared: () => (this.#cache.count === this.#graphs?.count ? this.#cache.sharedRows() : undefined),
      beginTruth: (queries, k) => this.#beginTruth(queries, k),
      ask: (question, ef, isNew) => this.#ask(question, ef, isNew),
    });
  }

  get #graphs(): GraphSet | undefined {
    return this.#building.current;
  }

  /** Records held. */
  get count(): number {
    return this.vectorCount + this.#names.copies.extraCount;
  }

  /** Distinct vectors held. */
  get vectorCount(): number {
    const directionless = this.#names.directionless === absent ? 0 : 1;
    return (this.#graphs?.count ?? 0) + this.#tail.count + directionless;
  }

  has(ordinal: number): boolean {
    if (this.#names.copies.nameOf(ordinal) !== absent) return true;
    return this.#isName(ordinal) && !this.#names.copies.isHeadless(ordinal);
  }

  #isName(ordinal: number): boolean {
    if (this.#tail.has(ordinal) || this.#graphs?.has(ordinal)) return true;
    return ordinal === this.#names.directionless;
  }

  /** Vectors that are searched by exact scan, until builders have linked them. */
  get tailCount(): number {
    return this.#tail.count;
  }

  /** Every record with a smaller ordinal has its final place; records that wait for the sample to be complete have. */
  get linkedEnd(): number {
    return this.#building.linkedEnd;
  }

  /** The type of the codes and why it was chosen; undefined while the sample is gathered. */
  get encoding(): EncodingState | undefined {
    return this.#graphs?.encoding.toState();
  }

  /** The type of codes that is being built to take the place of the present one. */
  get successorType(): HnswDataType | undefined {
    return this.#building.successorType;
  }

  get partitionCount(): number {
    return this.graphs.length;
  }

  /** Records that came to a graph or left it since the index was last kept. */
  get changes(): number {
    return this.#changes;
  }

  /** Vectors that were linked or removed since the index was made. */
  get work(): number {
    return this.#building.work;
  }

  /** What was measured of beams; a checkpoint keeps it. */
  get effort(): MeasuredEffort | undefined {
    return this.#effort;
  }

  set effort(measured: MeasuredEffort) {
    this.#effort = measured;
    this.#isEffortKept = false;
  }

  /** Whether anything was measured since the index was last kept. */
  get hasNewEffort(): boolean {
    return !this.#isEffortKept || this.#keptQuality !== this.#building.quality;
  }

  /** What the graphs were last seen to find. */
  get quality(): Quality | undefined {
    return this.#building.quality;
  }

  /** Whether searches that name no beam read all vectors: there is no graph, a beam would cost as much, or none finds enough. */
  get isReadingAll(): boolean {
    const count = this.#graphs?.count ?? 0;
    return this.#building.isScanning || count <= readsPerBeamPlace * this.efDefault;
  }

  /** The beam of searches that name none. */
  get efDefault(): number {
    return Math.max(this.#options.efSearch, this.#building.efFloor);
  }

  /** The beam that a search of k records by a beam of `ef` takes: at least what is scored exactly. */
  beamOf(k: number, ef: number = this.efDefault): number {
    return this.#graphs === undefined ? ef : Math.max(ef, this.#depthOf(this.#graphs, k));
  }

  /** How many of the best by code are scored exactly for k records; more than a beam can have only where k is. */
  #depthOf(graphs: GraphSet, k: number, rescore?: number): number {
    const wanted = rescore ?? rescoreDepth(graphs.encoding.dataType, k);
    return Math.max(k, Math.min(wanted, efMax));
  }

  /** Bytes of codes and links. */
  get graphBytes(): number {
    return this.#graphs?.graphBytes ?? 0;
  }

  /** For threads that search too, and for tests. */
  get graphs(): readonly Graph[] {
    return this.#graphs?.graphs ?? [];
  }

  /** Why building has stopped, if it has. */
  get failure(): unknown {
    return this.#building.failure;
  }

  /** Whether nothing is queued, being done or being measured. */
  get isIdle(): boolean {
    return this.#building.isIdle;
  }

  get memoryBytes(): number {
    return (
      this.#building.memoryBytes +
      this.#tail.memoryBytes +
      this.#cache.memoryBytes +
      this.#names.memoryBytes +
      8 * this.#retired.size +
      indexBytes
    );
  }

  get restoredBytes(): number {
    return (this.#graphs?.memoryBytes ?? this.#tail.memoryBytes) + this.#names.memoryBytes + indexBytes;
  }

  /** Vectors that wait have to be linked, `records` more have to come, and a successor has to be built. */
  expectedBytes(records: number): number {
    const { areas } = this.#building;
    const encoding = this.#graphs?.encoding;
    const shape = { ...this.#options, dataType: encoding?.dataType ?? this.#options.dataType, areas };
    const linked = this.#graphs?.count ?? 0;
    const growth =
      denseBytes(shape, { vectors: linked + this.#tail.count + records, cached: 0 }) -
      denseBytes(shape, { vectors: linked, cached: 0 });
    const now = this.memoryBytes;
    return Math.max(now, now - this.#tail.memoryBytes + growth) + this.#building.reservedBytes;
  }

  /** Whether graphs of better codes wait for memory. */
  get isPostponed(): boolean {
    return this.#building.isPostponed;
  }

  get spareBytes(): number {
    return this.#cache.memoryBytes;
  }

  /** Vectors leave the cache, and with them a sixteenth of it at least, for what is left is copied. */
  giveUp(bytes: number): void {
    const cache = this.#cache;
    if (cache.count === 0) return;
    const rowBytes = cache.memoryBytes / cache.count;
    const gone = Math.max(Math.ceil(bytes / rowBytes), Math.ceil(cache.count / 16));
    for (let left = Math.min(gone, cache.count); left > 0; left--)
      cache.remove(cache.ordinalAt(cache.count - 1));
    cache.shrink();
    this.#cacheGranted = cache.count;
  }

  /** Whether the cache may have one more vector; more memory for it is asked for by the MiB. */
  #mayCache(): boolean {
    const { cacheMax, mayTake } = this.#options;
    const { count } = this.#cache;
    if (count >= cacheMax) return false;
    if (mayTake === undefined || count < this.#cacheGranted) return true;
    const rows = Math.ceil(cacheStepBytes / (4 * this.dimension));
    if (!mayTake(flatBytes(this, rows, Math.ceil(rows / 1_024)))) return false;
    this.#cacheGranted = count + rows;
    return true;
  }

  // ---- Changing

  /** Adds a record: `values` are 4 * dimension bytes of finite little-endian f32, at any offset, and are copied. */
  add(ordinal: number, values: Uint8Array): void {
    assertAscending(ordinal, this.#last);
    const bytes = 4 * this.dimension;
    invariant(values.byteLength === bytes, `a vector has ${values.byteLength} bytes instead of ${bytes}`);
    const names = this.#names;
    names.read(values);
    const name = names.find((held, vector) => this.#isVectorOf(held, vector));
    if (name !== absent) {
      names.copies.add(name, ordinal);
      this.#changes++;
    } else {
      if (this.metric.name === "cosine" && names.isZero) names.directionless = ordinal;
      else {
        this.#tail.add(ordinal, names.bytes);
        this.#building.enqueue(ordinal);
      }
      names.add(ordinal, (held) => this.#isName(held));
    }
    this.#last = ordinal;
    this.#building.pump();
  }

  #isVectorOf(name: number, vector: Float32Array): boolean {
    const held = this.#cache.vectorOf(name) ?? this.#tail.vectorOf(name);
    if (held !== undefined) return isEqualTo(held, vector);
    // Of a vector that is not in memory the code is compared, beside 64 bits of its hash.
    return name === this.#names.directionless || (this.#graphs?.hasCode(name, vector) ?? false);
  }

  /** The record is found as before, and `visible` decides; a checkpoint does not keep it. */
  retire(ordinal: number): void {
    if (this.has(ordinal)) this.#retired.add(ordinal);
  }

  remove(ordinal: number): void {
    if (!this.has(ordinal)) return;
    this.#retired.delete(ordinal);
    this.#changes++;
    const emptied = this.#names.copies.remove(ordinal);
    if (emptied !== absent) this.#forget(emptied);
    this.#building.pump();
  }

  /** A name has no record any more. */
  #forget(name: number): void {
    if (name === this.#names.directionless) this.#names.directionless = absent;
    this.#tail.remove(name);
    this.#cache.remove(name);
    this.#building.remove(name);
  }

  /** Goes on with what can wait: sweeps, and measuring. Returns whether there is more for this thread to do. */
  tidy(): boolean {
    return this.#building.tidy();
  }

  /**
   * Hands out what a checkpoint keeps, as soon as no builder is at work. It does not change until `done` is called, with whether
   * it was kept; then building goes on. `drop` is called instead when nothing can be handed out: before there is a graph, after
   * building has failed, or when the index is closed.
   */
  save(
    keep: (state: HnswState, graphs: readonly Graph[], done: (isKept: boolean) => void) => void,
    drop: () => void = () => {},
  ): void {
    this.#building.save((building, graphs, release) => {
      const changes = this.#changes;
      const linkedEnd = Math.min(this.linkedEnd, this.#last + 1);
      const set = this.#graphs as GraphSet;
      const state: HnswState = {
        ...building,
        names: this.#names.state((name) => set.has(name), linkedEnd),
        linkedEnd,
        retired: Uint32Array.from(this.#retired).filter((ordinal) => ordinal < linkedEnd),
        effort: this.#effort,
      };
      keep(state, graphs, (isKept) => {
        if (isKept) {
          this.#changes -= changes;
          this.#isEffortKept = this.#effort === state.effort;
          this.#keptQuality = state.quality;
        }
        release();
      });
    }, drop);
  }

  /** An index as it was kept. @param load writes the image of each graph, see Graph.image */
  static async restored(
    options: HnswOptions,
    state: HnswState,
    load: (graphs: readonly Graph[]) => Promise<void>,
  ): Promise<HnswIndex> {
    const index = new HnswIndex(options);
    const { names, empty } = Names.restored(options.dimension, state.names);
    index.#names = names;
    await index.#building.restore(state, load);
    index.#effort = state.effort;
    index.#keptQuality = state.quality;
    index.#last = state.linkedEnd - 1;
    for (const name of empty) index.#forget(name);
    for (const ordinal of state.retired) index.remove(ordinal);
    return index;
  }

  close(): void {
    this.#building.close();
    this.#names.clear();
    this.#tail.close();
    this.#cache.close();
  }

  // ---- Linking

  /** The vector of a name that is to be linked. */
  #vectorToLink(name: number): Float32Array | undefined {
    const held = this.#tail.vectorOf(name) ?? this.#cache.vectorOf(name);
    if (held !== undefined || !this.#graphs?.has(name)) return held;
    const { readVector: read } = this.#options;
    let bytes: Uint8Array | undefined;
    this.#names.copies.each(name, (ordinal) => {
      bytes = read?.(ordinal);
      return bytes === undefined;
    });
    return bytes && readFloats(bytes);
  }

  /** The graphs that serve have a vector of the tail now. */
  #onLinked(name: number): void {
    this.#changes++;
    if (this.#mayCache()) this.#cache.add(name, bytesOfFloats(this.#tail.vectorOf(name) as Float32Array));
    this.#tail.remove(name);
  }

  // ---- Searching

  /** About the k nearest records, with exact scores. `query` has `dimension` finite values and is borrowed. */
  search(query: Float32Array, k: number, options: HnswSearch): Candidates {
    this.#assertQuery(query);
    if (k <= 0 || this.count === 0) return nothing;
    const { visible = null, vectorOf } = options;
    const found = this.#searchGraphs(query, k, options);
    if (found === null) return this.searchExactly(query, k, visible, vectorOf);
    const scanned = this.#tail.count === 0 ? nothing : this.#tail.search(query, k, this.#seesName(visible));
    return this.#recordsOf(scanned.count === 0 ? found : bestOf([found, scanned], k), query, k, visible);
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
    if (k <= 0 || this.#tail.count === 0) {
      const answer = this.#recordsOf(found, query, k, visible());
      return { run: () => true, finish: () => [answer], end: () => {} };
    }
    const sees = () => this.#seesName(visible());
    const read = this.#readerOf(visible, options.vectorOf);
    const scan = this.#tail.scan(query, Math.min(k, this.count), sees, (name) =>
      vectorIn(this.#places, name, read),
    );
    return {
      run: (isTimeOver) => scan.run(isTimeOver),
      finish: () => [this.#recordsOf(bestOf([found, scan.finish()], k), query, k, visible())],
      end: () => scan.end(),
    };
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
    const most = Math.min(k, this.count);
    if (most <= 0) return { run: () => true, finish: () => queries.map(() => nothing), end: () => {} };
    const sees = () => this.#seesName(visible());
    const search = new ExactSearch(this.#places, queries, most, sees, this.#readerOf(visible, vectorOf));
    return {
      run: (isTimeOver) => search.run(isTimeOver),
      finish: () => search.finish().map((found, i) => this.#recordsOf(found, queries[i], k, visible())),
      end: () => search.end(),
    };
  }

  #assertQuery(query: Float32Array): void {
    const { dimension } = this;
    invariant(query.length === dimension, `a query has ${query.length} values instead of ${dimension}`);
    invariant(Number.isFinite(squaredNorm(query, 0, dimension)), "a query has a value that is not finite");
  }

  /** Whether a version sees any record of a name. */
  #seesName(visible: Visible): Visible {
    const { copies } = this.#names;
    return visible === null || copies.isEmpty ? visible : (name) => copies.seen(name, visible) !== absent;
  }

  /** Reads the vector of a name, by a record that is seen: of others nothing may be stored any more. */
  #readerOf(visible: () => Visible, vectorOf?: VectorReader): VectorReader | undefined {
    const { copies } = this.#names;
    if (vectorOf === undefined || copies.isEmpty) return vectorOf;
    return (name) => {
      const seen = copies.seen(name, visible());
      return vectorOf(seen === absent ? name : seen);
    };
  }

  /** The k best names of all graphs; null where too few of what they find can be seen, and only reading all helps. */
  #searchGraphs(query: Float32Array, k: number, options: HnswSearch): Candidates | null {
    const graphs = this.#graphs;
    if (graphs === undefined || graphs.count === 0) return nothing;
    if (options.ef === undefined && this.isReadingAll) return null;
    const { visible = null } = options;
    const wanted = this.#depthOf(graphs, k, options.rescore);
    const sees = this.#seesName(visible);
    // A vector with copies is there without the one record that the search goes by.
    const { copies } = this.#names;
    const isAlone = options.without !== undefined && copies.isEmpty;
    const without = isAlone ? (options.without as number) : absent;
    // Codes of f32 leave nothing to find out.
    const isAdaptive =
      options.rescore === undefined && graphs.graphs.length === 1 && graphs.encoding.dataType !== "f32";
    const read = this.#readerOf(() => visible, options.vectorOf);
    const names = this.#found;
    let floorBefore: number | undefined;
    for (let beam = Math.max(options.ef ?? this.efDefault, wanted); beam <= efMax; beam = longerBeam(beam)) {
      names.length = 0;
      const isExhausted = graphs.search(query, beam, isAdaptive ? beam : wanted, sees, without, names);
      // Where too few of the beam can be seen, a longer one finds more, unless it has met all there is on its way.
      if (this.#isEnough(names, k, visible, graphs)) {
        const best = this.#rescore(query, names, isAdaptive ? wanted : names.length, k, read);
        if (options.ef !== undefined || !this.#isFar(query, best)) return best;
        // Links lead to what is near a vector, and only by chance to what is near a query from elsewhere: until nothing better comes.
        const floor = Math.min(...best.scores);
        if (floor === floorBefore) return best;
        floorBefore = floor;
        if (readsPerBeamPlace * longerBeam(beam) >= graphs.count) return null;
      } else if (isExhausted) break;
    }
    return null;
  }

  /** Whether the best of what was found for a query is so far from it as no vector is from the others. */
  #isFar(query: Float32Array, { scores }: Candidates): boolean {
    const far = this.quality?.farScore;
    return far !== undefined && Math.max(...scores) < far * lengthThatCounts(this.metric.name, query);
  }

  /** Whether names have k records that are seen, or are all that the graphs have. */
  #isEnough(names: Growable<Uint32Array>, k: number, visible: Visible, graphs: GraphSet): boolean {
    if (names.length >= Math.min(k, graphs.count)) return true;
    const { copies } = this.#names;
    if (copies.isEmpty) return false;
    let records = 0;
    for (let i = 0; i < names.length && records < k; i++)
      copies.each(names.values[i], (ordinal) => {
        if (visible === null || visible(ordinal)) records++;
        return records < k;
      });
    return records >= k;
  }

  /**
   * The k best of the first `depth` names, with exact scores; of twice as many, and so on, while any of the k best stands in the last
   * quarter by code. So few are scored where the codes tell them apart, and more for a query from elsewhere, from which all are about as far.
   */
  #rescore(
    query: Float32Array,
    names: Growable<Uint32Array>,
    depth: number,
    k: number,
    vectorOf: VectorReader | undefined,
  ): Candidates {
    const all = names.length;
    let scored = 0;
    for (let count = Math.min(depth, all); ; count = Math.min(2 * count, all)) {
      this.#score(query, names.values, scored, count, vectorOf);
      scored = count;
      const best = keepBest(names.values, this.#scores, count, k);
      if (count === all) return best;
      const last = best.ordinals[best.count - 1];
      const late = (3 * count) >> 2;
      let at = count - 1;
      while (at >= late && names.values[at] !== last) at--;
      if (at < late) return best;
    }
  }

  /** Exact scores of the names from `from` to `end`. */
  #score(
    query: Float32Array,
    names: Uint32Array,
    from: number,
    end: number,
    vectorOf: VectorReader | undefined,
  ): void {
    if (this.#scores.length < end) {
      const scores = new Float64Array(2 * end);
      scores.set(this.#scores);
      this.#scores = scores;
    }
    const scores = from === 0 ? this.#scores : this.#scores.subarray(from);
    const some = from === 0 ? names : names.subarray(from);
    const count = end - from;
    this.#cache.distancesOf(query, some, count, scores);
    let distanceTo: ExactDistance | undefined;
    for (let i = 0; i < count; i++) {
      if (Number.isNaN(scores[i])) {
        distanceTo ??= this.metric.exactDistance(query);
        scores[i] = distanceTo(this.#read(some[i], vectorOf), 0);
      }
      scores[i] = this.metric.score(scores[i]);
    }
  }

  /** The k best records of names with their scores, and what ties with the k-th. */
  #recordsOf(found: Candidates, query: Float32Array, k: number, visible: Visible): Candidates {
    const { copies, directionless } = this.#names;
    if (k <= 0 || (copies.isEmpty && directionless === absent)) return found;
    let all = found;
    if (directionless !== absent && copies.seen(directionless, visible) !== absent) {
      const zero = this.metric.score(this.metric.exactDistance(query)(new Float32Array(this.dimension), 0));
      all = bestOf([found, { count: 1, ordinals: [directionless], scores: [zero] }], k);
    }
    if (copies.isEmpty) return all;
    const order = Array.from({ length: all.count }, (_, i) => i).sort(
      (a, b) => all.scores[b] - all.scores[a],
    );
    const best = { ordinals: [] as number[], scores: [] as number[] };
    for (const i of order) {
      if (best.ordinals.length >= k && all.scores[i] < (best.scores.at(-1) as number)) break;
      copies.each(all.ordinals[i], (ordinal) => {
        if (visible !== null && !visible(ordinal)) return true;
        best.ordinals.push(ordinal);
        best.scores.push(all.scores[i]);
        return true;
      });
    }
    return { count: best.ordinals.length, ...best };
  }

  /** Reads a vector that is not in the cache, and lets it take the place of another there. */
  #read(name: number, vectorOf?: VectorReader): Float32Array {
    const vector = readVector(name, vectorOf);
    const cache = this.#cache;
    const isFull = !this.#mayCache();
    if (isFull && cache.count === 0) return vector;
    // Which one has to go is left to chance, by a number that the ordinals make: no books are kept of what is used.
    if (isFull) cache.remove(cache.ordinalAt(hash(name) % cache.count));
    cache.add(name, bytesOfFloats(vector));
    return vector;
  }

  get #places(): Places {
    const graphs = this.#graphs;
    return {
      metric: this.metric,
      isLinked: (name) => this.#graphs?.has(name) ?? false,
      linkedCount: graphs?.count ?? 0,
      tail: this.#tail,
      cache: this.#cache,
      mayCache: () => this.#mayCache(),
      ordinalEnd: this.#last + 1,
    };
  }

  // ---- Measuring

  /** Names of the graphs with their vectors, evenly drawn, half of them of those that came last; fewer where some cannot be read. */
  #sample(count: number, fresh: readonly number[] = []): { names: number[]; vectors: Float32Array } {
    const { dimension } = this;
    const all = this.#graphs?.names() ?? [];
    const isNew = Math.min(fresh.length, count >> 1);
    const drawn = new Set<number>();
    for (let i = 0; i < isNew; i++) drawn.add(fresh[Math.floor((i * fresh.length) / isNew)]);
    const others = Math.min(count - isNew, all.length);
    for (let i = 0; i < others; i++) drawn.add(all[Math.floor((i * all.length) / others)]);
    const names: number[] = [];
    const vectors = new Float32Array(drawn.size * dimension);
    for (const name of drawn) {
      if (!this.#graphs?.has(name)) continue;
      const vector = this.#vectorToLink(name);
      if (vector === undefined) continue;
      vectors.set(vector, names.length * dimension);
      names.push(name);
    }
    return { names, vectors: vectors.subarray(0, names.length * dimension) };
  }

  #beginTruth(queries: readonly Float32Array[], k: number): SteppedSearch | undefined {
    if (this.#options.readVector === undefined) return undefined;
    // Of a record that is about to be removed nothing may be stored any more.
    const isThere = (name: number) => this.#vectorToLink(name) !== undefined;
    const read = (name: number) => this.#vectorToLink(name) as Float32Array;
    return new ExactSearch(this.#places, queries, k, () => isThere, read);
  }

  /** @param isNew whether a vector came when the exact answers were known already, or being found: it is not there for the question */
  #ask({ name, vector, truth }: Question, ef: number, isNew: (name: number) => boolean): Measured {
    const graphs = this.#graphs as GraphSet;
    const wanted = bestOthers(truth, (other) => other !== name && graphs.has(other) && !isNew(other));
    const counts = (other: number) => !isNew(other);
    const count = Math.min(qualityDepth, wanted.size);
    const beam = this.beamOf(qualityDepth, ef);
    const names = new Growable(Uint32Array);
    graphs.search(vector, beam, beam, counts, name, names);
    const depth = this.#depthOf(graphs, qualityDepth);
    const met = new Set<number>();
    for (let i = 0; i < Math.min(depth, names.length); i++)
      if (wanted.has(names.values[i])) met.add(names.values[i]);
    let lostByCode = 0;
    if (met.size < count)
      for (const missed of wanted)
        if (!met.has(missed) && graphs.isBeyond(missed, names, depth)) lostByCode++;
    names.length = 0;
    graphs.search(vector, beam, depth, counts, absent, names);
    const asGood = noWorseThan(truth, name);
    return {
      wanted: count,
      met: Math.min(count, met.size),
      lostByCode: Math.min(lostByCode, count - Math.min(count, met.size)),
      // By products a vector need not be among its own best answers.
      isItselfFound:
        asGood.size === 0 || names.values.subarray(0, names.length).some((each) => asGood.has(each)),
    };
  }

  // ---- Proving

  /** Proves the invariants. No builder may be at work. */
  check(vectorOf?: VectorReader): void {
    this.#tail.check();
    this.#cache.check();
    this.#names.copies.check((name) => this.#isName(name));
    invariant(this.#cache.count <= this.#options.cacheMax, "the cache holds more than it may");
    const read = this.#readerOf(() => null, vectorOf);
    this.#graphs?.check((name) => this.#cache.vectorOf(name) ?? this.#read(name, read));
  }

  /** The bytes of all graphs, for comparison: a copy. */
  get bytes(): Uint8Array {
    return Buffer.concat(this.graphs.map((graph) => graph.image));
  }
}

/** The beam that is tried after one: more than efMax when there is none. */
const longerBeam = (beam: number): number => Math.max(beam + 1, Math.min(4 * beam, efMax));

/** Those of the best that score as high as one of them; none where it is not among them. */
function noWorseThan({ count, ordinals, scores }: Candidates, name: number): Set<number> {
  const at = Array.from({ length: count }, (_, i) => i);
  const own = at.find((i) => ordinals[i] === name);
  if (own === undefined) return new Set();
  return new Set(at.filter((i) => scores[i] >= scores[own]).map((i) => ordinals[i]));
}

/** The best answers that count, and what ties with the last of them. */
function bestOthers({ count, ordinals, scores }: Candidates, counts: (name: number) => boolean): Set<number> {
  const others = Array.from({ length: count }, (_, i) => i)
    .filter((i) => counts(ordinals[i]))
    .sort((a, b) => scores[b] - scores[a]);
  const floor = scores[others[Math.min(qualityDepth, others.length) - 1]];
  return new Set(others.filter((i) => scores[i] >= floor).map((i) => ordinals[i]));
}
