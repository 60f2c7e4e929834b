// Which vectors are approximately nearest to a query, without reading all of them?
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
// full-precision vectors of graph nodes, as many as the memory budget allows; the caller reads the others.
//
// Where the codes lose more recall than allowed (quality.ts), building makes a *successor*: graphs of better codes, beside the
// graphs that serve searches. The successor replaces them once it has all of their vectors.
//
// Invariants (see check):
//   1. Each name is in the tail or in the graphs, or is the one without direction; each record is a name or a copy of one.
//   2. Names that are queued or handed out are in the tail, until their job is done or they are removed.
//   3. A list has at most m0 links at level 0 and m above, to distinct other nodes of at least that level.
//   4. The entry point is a node of the greatest level, dead or living.
//   5. Links lead only to nodes, and every node can be reached from the entry point at level 0.
//   6. A node's code, factor and bias are the encoding of its vector.
//
// This class is the writer's side and reports the index's status. stored-vectors.ts says where vectors lie, hnsw-search.ts how
// searches find them, and building.ts how graphs are built.

import { concatenated } from "../../base/bytes.ts";
import { invariant } from "../../base/invariant.ts";
import type { Metric } from "../../vector/metric.ts";
import { assertAscending, type Candidates, type Index, type Visible } from "../contract.ts";
import type { Allowed } from "../ordinal-bitmap.ts";
import { absent } from "../ordinal-map.ts";
import { Building, type BuildingState } from "./building.ts";
import type { HnswDataType } from "./code-types.ts";
import type { EncodingState } from "./encoding.ts";
import type { SteppedSearch, VectorReader } from "./exact-search.ts";
import type { Graph } from "./graph.ts";
import { efMax } from "./graph-layout.ts";
import type { GraphSet } from "./graph-set.ts";
import type { HnswOptions, HnswSearch } from "./hnsw-options.ts";
import { type DenseDescriptor, HnswReader } from "./hnsw-search.ts";
import { InPlaceBuilders } from "./jobs.ts";
import { denseBytes, indexBytes } from "./memory.ts";
import { Names, type NamesState } from "./names.ts";
import type { Quality } from "./quality.ts";
import { RecallSample } from "./recall-sample.ts";
import type { DenseEstimate } from "./search-cost.ts";
import { StoredVectors } from "./stored-vectors.ts";

export type { HnswOptions, HnswSearch };
export { efMax };

/** What a checkpoint stores of an index, besides the images of its graphs. */
export type HnswState = BuildingState & {
  readonly names: NamesState;
  /** The checkpoint has every record with a smaller ordinal, or it was removed. */
  readonly linkedEnd: number;
  /** Records that were retired and not yet removed. */
  readonly retired: Uint32Array;
  readonly measuredEf: MeasuredEf | undefined;
};

/** Which fraction of the exact results each beam width finds, as measured by query/recall.ts. */
export type MeasuredEf = {
  /** By number of results: beam widths, ascending, and the recall of each, 0 to 1. */
  readonly rows: readonly (readonly { readonly ef: number; readonly recall: number }[])[];
  /** Records, and what had been linked or removed, when that was measured. */
  readonly count: number;
  readonly work: number;
};

type Optional =
  | "range"
  | "retire"
  | "mayTake"
  | "readVector"
  | "onError"
  | "onProgress"
  | "onMore"
  | "onNotice";

export class HnswIndex implements Index {
  readonly dimension: number;
  readonly metric: Metric;
  readonly #options: Required<Omit<HnswOptions, Optional>> & Pick<HnswOptions, Optional>;
  readonly #vectors: StoredVectors;
  readonly #building: Building;
  /** What searches of this thread read. */
  readonly reader: HnswReader;
  readonly #retired = new Set<number>();
  /** Records that were added to or removed from a graph since the last save. */
  #changes = 0;
  #measuredEf: MeasuredEf | undefined;
  #isEfCheckpointed = true;
  #checkpointedQuality: Quality | undefined;

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
    const vectors = new StoredVectors(this.#options, () => this.#building.current);
    this.dimension = vectors.dimension;
    this.metric = vectors.metric;
    this.#vectors = vectors;
    this.#building = new Building(this.#options, {
      waiting: () => vectors.tail.ordinals(),
      waitingCount: () => vectors.tail.count,
      vectorOf: (name) => vectors.vectorToLink(name),
      onLinked: (name) => {
        this.#changes++;
        vectors.onLinked(name);
      },
      sample: (count, fresh) => sample.sample(count, fresh),
      shared: () => (vectors.cache.count === this.#graphs?.count ? vectors.cache.sharedRows() : undefined),
      beginTruth: (queries, k) => sample.beginTruth(queries, k),
      ask: (question, ef, isNew) => sample.ask(question, ef, isNew),
    });
    this.reader = new HnswReader(vectors, this.#building, this.#options.efSearch);
    const sample = new RecallSample(vectors, this.reader);
  }

  /** What another thread needs to search the index as it is now: see HnswReader.attach. */
  get descriptor(): DenseDescriptor {
    const { efFloor, isScanning, quality } = this.#building;
    return {
      vectors: this.#vectors.shared,
      efSearch: this.#options.efSearch,
      efFloor,
      isScanning,
      farScore: quality?.farScore,
    };
  }

  abandon(slot: number): void {
    this.#building.abandon(slot);
  }

  get #graphs(): GraphSet | undefined {
    return this.#building.current;
  }

  /** Records held. */
  get count(): number {
    return this.#vectors.count;
  }

  /** Distinct vectors held. */
  get vectorCount(): number {
    return this.#vectors.vectorCount;
  }

  has(ordinal: number): boolean {
    return this.#vectors.has(ordinal);
  }

  /** Vectors that are searched by exact scan, until builders have linked them. */
  get tailCount(): number {
    return this.#vectors.tail.count;
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

  /** Records that were added to or removed from a graph since the last checkpoint of the index. */
  get changes(): number {
    return this.#changes;
  }

  /** Vectors that were linked or removed since the index was made. */
  get work(): number {
    return this.#building.work;
  }

  /** The measured recall of each beam; part of the checkpoint. */
  get measuredEf(): MeasuredEf | undefined {
    return this.#measuredEf;
  }

  set measuredEf(measured: MeasuredEf) {
    this.#measuredEf = measured;
    this.#isEfCheckpointed = false;
  }

  /** Whether anything was measured since the last checkpoint of the index. */
  get hasNewEf(): boolean {
    return !this.#isEfCheckpointed || this.#checkpointedQuality !== this.#building.quality;
  }

  /** The last measured recall of the graphs. */
  get quality(): Quality | undefined {
    return this.#building.quality;
  }

  /** Whether searches that name no beam read all vectors: there is no graph, a beam would cost as much, or none finds enough. */
  get isReadingAll(): boolean {
    return this.reader.isReadingAll;
  }

  /** The beam of searches that name none. */
  get efDefault(): number {
    return this.reader.efDefault;
  }

  /** The actual beam width of a search for k records with `ef`: at least the number of exactly scored candidates. */
  beamOf(k: number, ef?: number): number {
    return this.reader.beamOf(k, ef);
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
    return this.#building.memoryBytes + this.#vectors.memoryBytes + 8 * this.#retired.size + indexBytes;
  }

  get restoredBytes(): number {
    const { tail, names } = this.#vectors;
    return (this.#graphs?.memoryBytes ?? tail.memoryBytes) + names.memoryBytes + indexBytes;
  }

  /** For waiting vectors that must be linked, `records` more to add, and a successor to build. */
  expectedBytes(records: number): number {
    const { scratchCount } = this.#building;
    const encoding = this.#graphs?.encoding;
    const shape = { ...this.#options, dataType: encoding?.dataType ?? this.#options.dataType, scratchCount };
    const linked = this.#graphs?.count ?? 0;
    const growth =
      denseBytes(shape, { vectors: linked + this.#vectors.tail.count + records, cached: 0 }) -
      denseBytes(shape, { vectors: linked, cached: 0 });
    const now = this.memoryBytes;
    return Math.max(now, now - this.#vectors.tail.memoryBytes + growth) + this.#building.reservedBytes;
  }

  /** Whether graphs of better codes wait for memory. */
  get isPostponed(): boolean {
    return this.#building.isPostponed;
  }

  get spareBytes(): number {
    return this.#vectors.cache.memoryBytes;
  }

  /** Vectors leave the cache. */
  giveUp(bytes: number): void {
    this.#vectors.giveUp(bytes);
  }

  // ---- Changing

  /** Adds a record: `values` are 4 * dimension bytes of finite little-endian f32, at any offset, and are copied. */
  add(ordinal: number, values: Uint8Array): void {
    const vectors = this.#vectors;
    assertAscending(ordinal, vectors.last);
    const bytes = 4 * this.dimension;
    invariant(values.byteLength === bytes, `a vector has ${values.byteLength} bytes instead of ${bytes}`);
    const { names } = vectors;
    names.read(values);
    const name = names.find((held, vector) => vectors.isVectorOf(held, vector));
    if (name !== absent) {
      names.copies.add(name, ordinal);
      this.#changes++;
    } else {
      if (this.metric.name === "cosine" && names.isZero) names.directionless = ordinal;
      else {
        vectors.tail.add(ordinal, names.vector);
        this.#building.enqueue(ordinal);
      }
      names.add(ordinal, (held) => vectors.isName(held));
    }
    vectors.last = ordinal;
    this.#building.pump();
  }

  /** Searches still find the record where `visible` allows it; a checkpoint does not store it. */
  retire(ordinal: number): void {
    if (this.has(ordinal)) this.#retired.add(ordinal);
  }

  remove(ordinal: number): void {
    if (!this.has(ordinal)) return;
    this.#retired.delete(ordinal);
    this.#changes++;
    const emptied = this.#vectors.names.copies.remove(ordinal);
    if (emptied !== absent) this.#forget(emptied);
    this.#building.pump();
  }

  /** A name has no record any more. */
  #forget(name: number): void {
    this.#vectors.forget(name);
    this.#building.remove(name);
  }

  /** Continues deferred work: sweeps and measurements. Returns whether this thread has more to do. */
  tidy(): boolean {
    return this.#building.tidy();
  }

  /**
   * Calls `write` with the checkpoint's state and graphs as soon as no builder is at work. They do not change until `done` is called
   * with whether the checkpoint was written; then building continues. Calls `drop` instead when no checkpoint is possible: before
   * there is a graph, after building has failed, or when the index is closed.
   */
  save(
    write: (state: HnswState, graphs: readonly Graph[], done: (isCheckpointed: boolean) => void) => void,
    drop: () => void = () => {},
  ): void {
    this.#building.save((building, graphs, release) => {
      const changes = this.#changes;
      const linkedEnd = Math.min(this.linkedEnd, this.#vectors.last + 1);
      const set = this.#graphs as GraphSet;
      const state: HnswState = {
        ...building,
        names: this.#vectors.names.state((name) => set.has(name), linkedEnd),
        linkedEnd,
        retired: Uint32Array.from(this.#retired).filter((ordinal) => ordinal < linkedEnd),
        measuredEf: this.#measuredEf,
      };
      write(state, graphs, (isCheckpointed) => {
        if (isCheckpointed) {
          this.#changes -= changes;
          this.#isEfCheckpointed = this.#measuredEf === state.measuredEf;
          this.#checkpointedQuality = state.quality;
        }
        release();
      });
    }, drop);
  }

  /** Restores an index from a checkpoint. @param load writes the image of each graph, see Graph.image */
  static async restored(
    options: HnswOptions,
    state: HnswState,
    load: (graphs: readonly Graph[]) => Promise<void>,
  ): Promise<HnswIndex> {
    const index = new HnswIndex(options);
    const { names, empty } = Names.restored(options.dimension, state.names, options.retire);
    index.#vectors.names = names;
    await index.#building.restore(state, load);
    index.#measuredEf = state.measuredEf;
    index.#checkpointedQuality = state.quality;
    index.#vectors.last = state.linkedEnd - 1;
    for (const name of empty) index.#forget(name);
    for (const ordinal of state.retired) index.remove(ordinal);
    return index;
  }

  close(): void {
    this.#building.close();
    this.#vectors.close();
  }

  // ---- Searching (hnsw-search.ts)

  /** About the k nearest records, with exact scores. `query` has `dimension` finite values and is borrowed. */
  search(query: Float32Array, k: number, options: HnswSearch): Candidates {
    return this.reader.search(query, k, options);
  }

  /**
   * Starts a search like `search` with the scan of the tail in steps, between which the index may change.
   * @param visible returns the visibility test; called at the start of each step
   */
  begin(
    query: Float32Array,
    k: number,
    visible: () => Visible,
    options: Omit<HnswSearch, "visible">,
  ): SteppedSearch {
    return this.reader.begin(query, k, visible, options);
  }

  /** The k nearest records, by reading all. */
  searchExactly(
    query: Float32Array,
    k: number,
    visible: Visible,
    vectorOf?: VectorReader,
    allowed: Allowed = null,
  ): Candidates {
    return this.reader.searchExactly(query, k, visible, vectorOf, allowed);
  }

  /**
   * Starts an exact search for the k nearest records of each query, which reads all permitted records in steps, between which the index may
   * change.
   * @param visible returns the visibility test; called at the start of each step
   * @param allowed the ordinals that may be found at all
   */
  beginExactly(
    queries: readonly Float32Array[],
    k: number,
    visible: () => Visible,
    vectorOf?: VectorReader,
    allowed: Allowed = null,
  ): SteppedSearch {
    return this.reader.beginExactly(queries, k, visible, vectorOf, allowed);
  }

  /** The cost of a search for k records in each way, for this number of allowed ordinals. @param ef beam width; default: the index's own */
  estimate(allowedCount: number, k: number, ef?: number): DenseEstimate {
    return this.reader.estimate(allowedCount, k, ef);
  }

  // ---- Proving

  /** Verifies the invariants. No builder may be working. */
  check(vectorOf?: VectorReader): void {
    const { tail, cache, names } = this.#vectors;
    tail.check();
    cache.check();
    names.copies.check((name) => this.#vectors.isName(name));
    invariant(cache.count <= this.#options.cacheMax, "the cache holds more than it may");
    const read = this.#vectors.readerOf(() => null, vectorOf);
    this.#graphs?.check((name) => cache.vectorOf(name) ?? this.#vectors.read(name, read));
  }

  /** The bytes of all graphs, for comparison: a copy. */
  get bytes(): Uint8Array {
    return concatenated(this.graphs.map((graph) => graph.image));
  }
}
