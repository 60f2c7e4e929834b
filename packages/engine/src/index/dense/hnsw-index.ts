// Which vectors are approximately nearest to a query, without reading all of them?
//
// The hierarchical graph of Malkov and Yashunin (arXiv:1603.09320), searched on codes; the best of what it finds are scored
// exactly, from the full-precision vectors. Insertion and search run in WebAssembly (kernels/assembly/hnsw).
//
//        add            enough to calibrate by         job done
//   ----------> waits ----------------------> waits, queued -----> linked: in the graphs
//      |          \______________________________/                   |
//      |                    remove: gone                    remove: dead, swept later
//      |--- equal to a vector that is held ----> a duplicate of it (duplicate-vectors.ts)
//      '--- cosine, and all values are zero ---> the vector without direction: its score is known
//
// Rows and graphs hold *vector keys*, one for each distinct vector; searches find vector keys, and answer with their records. A vector that no graph has
// yet *waits* in its row (vector-rows.ts), and every search scans it exactly: a record is found from the moment it is added. Builders link what
// is queued; with builders in place that happens within `add`. Linked vectors keep their rows, as many as the memory budget allows; the
// caller reads the others.
//
// Where the codes lose more recall than allowed (quality.ts), building makes a *successor*: graphs of better codes, beside the
// graphs that serve searches. The successor replaces them once it has all of their vectors.
//
// Invariants (see check):
//   1. Each vector key waits or is in the graphs, or is the one without direction; each record is a vector key or a duplicate of one.
//   2. Names that are queued or handed out wait, until their job is done or they are removed.
//   3. A list has at most m0 links at level 0 and m above, to distinct other nodes of at least that level.
//   4. The entry point is a node of the greatest level, dead or living.
//   5. Links lead only to nodes, and every node can be reached from the entry point at level 0.
//   6. A node's code, factor and bias are the encoding of its vector.
//
// This class is the writer's side. stored-vectors.ts says where vectors lie, hnsw-search.ts how searches find them, graph-maintenance.ts how graphs
// are built, and hnsw-status.ts reports all of it.

import { concatenated } from "../../base/bytes.ts";
import { invariant } from "../../base/invariant.ts";
import type { Metric } from "../../vector/metric.ts";
import { assertAscending, type Index } from "../contract.ts";
import type { Beams, MeasuredBeams } from "../kind.ts";
import { absent } from "../ordinal-map.ts";
import type { Graph } from "./graph.ts";
import { efMax } from "./graph-layout.ts";
import { GraphMaintenance } from "./graph-maintenance.ts";
import { type CompleteOptions, completeOptions, type HnswOptions } from "./hnsw-options.ts";
import { type DenseDescriptor, HnswReader } from "./hnsw-search.ts";
import { HnswStatus } from "./hnsw-status.ts";
import { RecallSample } from "./recall-sample.ts";
import { type HnswState, SavedChanges } from "./saved-changes.ts";
import { readVector, type VectorReader } from "./searched-vectors.ts";
import { StoredVectors } from "./stored-vectors.ts";
import { VectorKeys } from "./vector-keys.ts";

export class HnswIndex extends HnswStatus implements Index, Beams {
  readonly dimension: number;
  readonly metric: Metric;
  readonly #options: CompleteOptions;
  /** What searches of this thread read. */
  readonly reader: HnswReader;

  constructor(given: HnswOptions) {
    const options = completeOptions(given);
    invariant(options.efConstruction <= efMax, `ef_construction is at most ${efMax}`);
    const vectors = new StoredVectors(options, () => maintenance.current);
    const saved = new SavedChanges();
    const maintenance: GraphMaintenance = new GraphMaintenance(options, {
      waiting: () => vectors.held.waitingNames(),
      waitingCount: () => vectors.held.waitingCount,
      vectorOf: (vectorKey) => vectors.vectorToLink(vectorKey),
      onLinked: (vectorKey) => {
        saved.changes++;
        vectors.held.onLinked(vectorKey);
      },
      sample: (count, fresh) => sample.sample(count, fresh),
      shared: () =>
        vectors.held.linkedCount === maintenance.current?.count ? vectors.held.linkedRows() : undefined,
      beginTruth: (queries, k) => sample.beginTruth(queries, k),
      ask: (question, beam, isNew) => sample.ask(question, beam, isNew),
      nearest: (vector, ef) => sample.nearest(vector, ef),
    });
    super(vectors, maintenance, saved, options);
    this.#options = options;
    this.dimension = vectors.dimension;
    this.metric = vectors.metric;
    this.reader = new HnswReader(vectors, maintenance, options.efSearch);
    const sample = new RecallSample(vectors, this.reader);
  }

  /** What another thread needs to search the index as it is now: see HnswReader.attach. */
  get descriptor(): DenseDescriptor {
    const { efFloor, isScanning, quality } = this.maintenance;
    return {
      vectors: this.vectors.shared,
      efSearch: this.#options.efSearch,
      efFloor,
      isScanning,
      quality: quality && { farScore: quality.farScore, cut: quality.cut },
    };
  }

  abandon(slot: number): void {
    this.maintenance.abandon(slot);
  }

  readonly beamMax = efMax;

  beamOf(k: number, ef?: number): number {
    return this.reader.beamOf(k, ef);
  }

  askCut(k: number, ef: number, recall: number): boolean {
    return this.maintenance.askCut(k, ef, recall);
  }

  /** The measured recall of each beam; part of the checkpoint. */
  get measuredBeams(): MeasuredBeams | undefined {
    return this.saved.measuredBeams;
  }

  set measuredBeams(measured: MeasuredBeams | undefined) {
    this.saved.measuredBeams = measured;
  }

  // ---- Changing

  /** Adds a record: `values` are 4 * dimension bytes of finite little-endian f32, at any offset, and are copied. */
  add(ordinal: number, values: Uint8Array): void {
    const vectors = this.vectors;
    assertAscending(ordinal, vectors.last);
    const bytes = 4 * this.dimension;
    invariant(values.byteLength === bytes, `a vector has ${values.byteLength} bytes instead of ${bytes}`);
    const { vectorKeys } = vectors;
    vectorKeys.read(values);
    const vectorKey = vectorKeys.find((held, vector) => vectors.isVectorOf(held, vector));
    if (vectorKey !== absent) {
      vectorKeys.duplicates.add(vectorKey, ordinal);
      this.saved.changes++;
    } else {
      if (this.metric.name === "cosine" && vectorKeys.isZero) vectorKeys.directionless = ordinal;
      else {
        vectors.held.add(ordinal, vectorKeys.vector);
        this.maintenance.enqueue(ordinal);
      }
      vectorKeys.add(ordinal, (held) => vectors.isVectorKey(held));
    }
    vectors.last = ordinal;
    invariant(this.has(ordinal), () => `ordinal ${ordinal} was added and is not held`);
    this.maintenance.pump();
  }

  /** Searches still find the record where `visible` allows it; a checkpoint does not store it. */
  retire(ordinal: number): void {
    if (this.has(ordinal)) this.saved.retired.add(ordinal);
  }

  remove(ordinal: number): void {
    if (!this.has(ordinal)) return;
    this.saved.retired.delete(ordinal);
    this.saved.changes++;
    const emptied = this.vectors.vectorKeys.duplicates.remove(ordinal);
    if (emptied !== absent) this.#forget(emptied);
    invariant(!this.has(ordinal), () => `ordinal ${ordinal} was removed and is held`);
    this.maintenance.pump();
  }

  /** A vector key has no record any more. */
  #forget(vectorKey: number): void {
    this.vectors.forget(vectorKey);
    this.maintenance.remove(vectorKey);
  }

  /** Vectors leave memory. */
  giveUp(bytes: number): void {
    this.vectors.held.giveUp(bytes);
  }

  /** Continues deferred work: sweeps, measurements, and vectors to read into the cache. Returns whether this thread has more to do. */
  tidy(): boolean {
    if (this.maintenance.tidy()) return true;
    try {
      if (this.vectors.fill()) return true;
    } catch (error) {
      // A search that needs the vector reports the damage.
      this.#options.onNotice?.(`vectors are no longer read into memory in advance: ${error}`);
    }
    return this.vectors.held.compact();
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
    this.maintenance.save((maintained, graphs, release) => {
      const { changes, measuredBeams } = this.saved;
      const linkedEnd = Math.min(this.linkedEnd, this.vectors.last + 1);
      const set = this.graphSet;
      invariant(
        set !== undefined && graphs.length === set.graphs.length,
        "other graphs are saved than serve",
      );
      const state: HnswState = {
        ...maintained,
        vectorKeys: this.vectors.vectorKeys.state((vectorKey) => set.has(vectorKey), linkedEnd),
        linkedEnd,
        retired: Uint32Array.from(this.saved.retired).filter((ordinal) => ordinal < linkedEnd),
        measuredBeams,
      };
      write(state, graphs, (isCheckpointed) => {
        if (isCheckpointed) this.saved.saved(state, changes);
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
    const { vectorKeys, empty } = VectorKeys.restored(options.dimension, state.vectorKeys, options.retire);
    index.vectors.vectorKeys = vectorKeys;
    await index.maintenance.restore(state, load);
    index.saved.restored(state);
    index.vectors.last = state.linkedEnd - 1;
    for (const vectorKey of empty) index.#forget(vectorKey);
    for (const ordinal of state.retired) index.remove(ordinal);
    index.vectors.beginFilling();
    return index;
  }

  close(): void {
    this.maintenance.close();
    this.vectors.close();
  }

  // ---- Proving

  /** Verifies the invariants. No builder may be working. */
  check(vectorOf?: VectorReader): void {
    const { held, vectorKeys } = this.vectors;
    held.check();
    vectorKeys.duplicates.check((vectorKey) => this.vectors.isVectorKey(vectorKey));
    const read = vectorKeys.duplicates.readerOf(() => null, vectorOf);
    this.graphSet?.check((vectorKey) => held.vectorOf(vectorKey) ?? readVector(vectorKey, read));
  }

  /** The bytes of all graphs, for comparison: a copy. */
  get bytes(): Uint8Array {
    return concatenated(this.graphs.map((graph) => graph.image));
  }
}
