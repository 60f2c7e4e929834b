// Which sparse vectors have the greatest dot product with a query?
//
// Postings of weights (inverted/posting-index.ts), a list for each dimension. Products of two f32 are exact in f64, and
// they are added in the ascending order of dimensions, so a score depends on the two vectors and nothing else. No f32
// input makes it overflow.
//
// A record is found if it shares a dimension with the query, even if its score is zero or negative.

import { invariant } from "../../base/invariant.ts";
import type { Task } from "../../base/scheduler.ts";
import type { Steps } from "../../base/steps.ts";
import type { Index, Leisure } from "../contract.ts";
import type { ArenaOptions } from "../inverted/arena.ts";
import type { SharedParts } from "../inverted/attached-parts.ts";
import { postingsOf } from "../inverted/check.ts";
import type { CheckpointData } from "../inverted/checkpoint-data.ts";
import { PostingIndex, type PostingOptions, type PostingState } from "../inverted/posting-index.ts";
import { weightFormula } from "../inverted/query.ts";
import { assertSparse, SparseReader } from "./sparse-reader.ts";

export type SparseOptions = ArenaOptions & {
  /** Levels of the weights by which searches decide what to leave out, 16 to 256. Default 256. */
  readonly levels?: number;
  /** See SegmentSetOptions. */
  readonly mayTake?: (bytes: number) => boolean;
  readonly retire?: ((free: () => void) => void) | undefined;
  /** Less for tests, see buffers.ts. */
  readonly bufferRecordsMax?: number;
};

/** What a checkpoint stores of an index, besides the images of its segments. */
export type SparseState = { readonly postings: PostingState };

export class SparseIndex implements Index {
  readonly #postings: PostingIndex;
  /** What searches of this thread go through. */
  readonly reader: SparseReader;

  /** @param postings restored from a checkpoint; absent: none */
  constructor(options: SparseOptions = {}, postings = new PostingIndex(postingOptions(options))) {
    this.#postings = postings;
    this.reader = new SparseReader(postings);
  }

  get count(): number {
    return this.#postings.count;
  }

  has(ordinal: number): boolean {
    return this.#postings.has(ordinal);
  }

  /** Adds a record. A vector without entries is held and never found. */
  add(ordinal: number, indices: Uint32Array, values: Float32Array): void {
    assertSparse(indices, values);
    this.#postings.add(ordinal, 0, indices, values, 0);
  }

  /** A closed record is found as before, and `visible` decides. */
  retire(ordinal: number): void {
    this.#postings.retire(ordinal);
  }

  remove(ordinal: number): void {
    if (this.has(ordinal)) this.#postings.remove(ordinal);
  }

  /** What another thread needs to read the index as it is now (SparseReader.attach). */
  get shared(): SharedParts {
    return this.#postings.shared;
  }

  // ---- Memory and checkpoints

  /** Goes on with what is to be done in the background, for about so many postings; says whether there is more. */
  tidy(postings: number, leisure?: Leisure): boolean {
    return this.#postings.tidy(postings, leisure);
  }

  /** Records of segments that are new or closed since the last checkpoint of the index. */
  get changes(): number {
    return this.#postings.changes;
  }

  /** Whether nothing is being merged. */
  get isIdle(): boolean {
    return this.#postings.isIdle;
  }

  /** Records that `save` omits, because they are in no segment yet. */
  get bufferedCount(): number {
    return this.#postings.bufferedCount;
  }

  /** Makes a segment of the mutable buffer, so that a checkpoint has all records. */
  freeze(): Steps<void> {
    return this.#postings.freeze();
  }

  /** What a checkpoint stores; see PostingIndex.save. */
  save(): CheckpointData<SparseState> {
    const { state: postings, ...kept } = this.#postings.save();
    return { state: { postings }, ...kept };
  }

  /**
   * Restores an index from a checkpoint.
   * @param load fills the images with the checkpoint's bytes, in the order of `save`
   * @param task in whose time slices this is done
   */
  static async restored(
    options: SparseOptions,
    { postings }: SparseState,
    load: (images: Uint8Array[]) => Promise<void>,
    task: Task,
  ): Promise<SparseIndex> {
    const index = new SparseIndex(
      options,
      await PostingIndex.restored(postingOptions(options), postings, load, task),
    );
    for (const ordinal of postings.retired) {
      invariant(index.has(ordinal), () => `a checkpoint has no record ${ordinal}, which it has as retired`);
      index.remove(ordinal);
      await task.pause();
    }
    return index;
  }

  get memoryBytes(): number {
    return this.#postings.memoryBytes;
  }

  get restoredBytes(): number {
    return this.#postings.restoredBytes;
  }

  close(): void {
    this.#postings.close();
  }

  check(): void {
    this.#postings.check();
  }

  /** All weights of records that are held, in steps; see check.ts. */
  weights(onWeight: (dimension: number, ordinal: number, weight: number) => void): Generator<void, boolean> {
    return postingsOf(this.#postings.parts, onWeight);
  }
}

function postingOptions({ levels = 256, ...options }: SparseOptions): PostingOptions {
  return { ...options, isText: false, levels: levels - 1, formulaOf: () => weightFormula };
}
