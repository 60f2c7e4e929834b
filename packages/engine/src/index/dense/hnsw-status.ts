// What is there to say about a dense index, besides what a search finds?
//
// How many vectors it holds and where, of which type its codes are, what its recall was, how far its builders are, and its memory.

import type { HnswDataType } from "./code-types.ts";
import type { EncodingState } from "./encoding.ts";
import type { Graph } from "./graph.ts";
import type { GraphMaintenance } from "./graph-maintenance.ts";
import type { GraphSet } from "./graph-set.ts";
import { type DenseShape, denseBytes, indexBytes } from "./memory.ts";
import type { Quality } from "./quality.ts";
import type { SavedChanges } from "./saved-changes.ts";
import { beamOfScan } from "./search-cost.ts";
import type { StoredVectors } from "./stored-vectors.ts";

export class HnswStatus {
  protected readonly vectors: StoredVectors;
  protected readonly maintenance: GraphMaintenance;
  protected readonly saved: SavedChanges;
  readonly #shape: Omit<DenseShape, "scratchCount">;
  readonly #efSearch: number;

  /** @param shape of the graphs */
  protected constructor(
    vectors: StoredVectors,
    maintenance: GraphMaintenance,
    saved: SavedChanges,
    shape: Omit<DenseShape, "scratchCount"> & { readonly efSearch: number },
  ) {
    this.vectors = vectors;
    this.maintenance = maintenance;
    this.saved = saved;
    this.#shape = shape;
    this.#efSearch = shape.efSearch;
  }

  protected get graphSet(): GraphSet | undefined {
    return this.maintenance.current;
  }

  /** Records held. */
  get count(): number {
    return this.vectors.count;
  }

  /** Distinct vectors held. */
  get vectorCount(): number {
    return this.vectors.vectorCount;
  }

  has(ordinal: number): boolean {
    return this.vectors.has(ordinal);
  }

  /** Vectors that are searched by exact scan, until builders have linked them. */
  get tailCount(): number {
    return this.vectors.held.waitingCount;
  }

  /** The same; null: there is no graph. */
  get waiting(): number | null {
    return this.graphSet === undefined ? null : this.tailCount;
  }

  /** Every record with a smaller ordinal has its final place; records that wait for the sample to be complete have. */
  get linkedEnd(): number {
    return this.maintenance.linkedEnd;
  }

  /** The type of the codes and why it was chosen; undefined while the sample is gathered. */
  get encoding(): EncodingState | undefined {
    return this.graphSet?.encoding.toState();
  }

  /** The type of codes that is being built to take the place of the present one. */
  get successorType(): HnswDataType | undefined {
    return this.maintenance.replacement.successor?.encoding.dataType;
  }

  /** Copies of the graphs, in a better order, that failed since the index was opened; they go on as they were. */
  get failedCopies(): number {
    return this.maintenance.replacement.failedCopies;
  }

  get partitionCount(): number {
    return this.graphs.length;
  }

  /** Vectors that were linked or removed since the index was made. */
  get work(): number {
    return this.maintenance.work;
  }

  /** The last measured recall of the graphs. */
  get quality(): Quality | undefined {
    return this.maintenance.quality;
  }

  /** Bytes of codes and links. */
  get graphBytes(): number {
    return this.graphSet?.graphBytes ?? 0;
  }

  /** For threads that search too, and for tests. */
  get graphs(): readonly Graph[] {
    return this.graphSet?.graphs ?? [];
  }

  /** Why building has stopped, if it has. */
  get failure(): unknown {
    return this.maintenance.failure;
  }

  /**
   * Whether the graphs that serve from now on are in place, and their beam is measured: scanning what waits to be linked costs no more than
   * the usual beam.
   */
  get isSettled(): boolean {
    const { dimension } = this.vectors;
    const isTailShort = beamOfScan(dimension, this.tailCount) <= this.#efSearch;
    return this.maintenance.isSettled && (this.graphSet === undefined || isTailShort);
  }

  /** Whether nothing is queued, being done or being measured. */
  get isIdle(): boolean {
    return this.maintenance.isIdle;
  }

  get memoryBytes(): number {
    return this.maintenance.memoryBytes + this.vectors.memoryBytes + 8 * this.saved.retired.size + indexBytes;
  }

  get restoredBytes(): number {
    const { held, vectorKeys } = this.vectors;
    return (this.graphSet?.memoryBytes ?? held.memoryBytes) + vectorKeys.memoryBytes + indexBytes;
  }

  /** For waiting vectors that must be linked, `records` more to add, and a successor to build. */
  expectedBytes(records: number): number {
    const { scratchCount } = this.maintenance;
    const encoding = this.graphSet?.encoding;
    const shape = { ...this.#shape, dataType: encoding?.dataType ?? this.#shape.dataType, scratchCount };
    const linked = this.graphSet?.count ?? 0;
    const growth =
      denseBytes(shape, { vectors: linked + this.vectors.held.waitingCount + records, cached: 0 }) -
      denseBytes(shape, { vectors: linked, cached: 0 });
    return this.memoryBytes + Math.max(0, growth) + this.maintenance.replacement.reservedBytes;
  }

  /** Records that were added to or removed from a graph since the last checkpoint of the index. */
  get changes(): number {
    return this.saved.changes;
  }

  /** Whether anything was measured since the last checkpoint of the index. */
  get hasNewBeams(): boolean {
    return this.saved.hasNewBeams(this.quality);
  }

  /** Whether graphs of better codes wait for memory. */
  get isPostponed(): boolean {
    return this.maintenance.replacement.isPostponed;
  }

  get spareBytes(): number {
    return this.vectors.held.spareBytes;
  }
}
