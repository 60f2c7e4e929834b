// How do records come into an inverted index, and out of it?
//
// The engine under sparse vectors and texts. A record's score is the sum over the query's terms of weight * amount, where the
// amount is the posting's weight, or for a text tf / (tf + fixed + perTerm * length).
//
//     add          long enough              several small ones, or much of one removed
//   -------> tail ------------> small run ---------------------------------------------> run
//               \_______________________________/                                          |
//                     remove: gone, and its postings with the next merge  <----------------'
//
// The *tail* (tail.ts) is plain and scored in full; a *run* (run.ts) never changes and is searched in WebAssembly with pruning.
// All scores are f64, added in the order of the query's terms, in both: a record's score does not depend on where it lies.
//
// Sealing and merging (run-set.ts) go on in pieces, some with each change in proportion to it, and the rest when the collection is idle
// (`tidy`), which then makes a run of a tail that is worth it, and one of any small neighbours: what a search does for each run and
// term it would else do for some ten runs more.
//
// While a tail is being sealed there are two: nothing is added to the older one. This is the writer's side; `reader` and `searcher`
// have no way to change anything. Records, sealing and checkpoints share the tails, so they are one class.

import { kinds } from "@quiver/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import { assertAscending } from "../contract.ts";
import type { Kept } from "./kept.ts";
import { type AnyTail, PostingParts } from "./posting-parts.ts";
import { PostingReader } from "./posting-reader.ts";
import { PostingSearcher } from "./posting-search.ts";
import { checkParts } from "./posting-walk.ts";
import type { RunState } from "./run.ts";
import { RunSet, type RunSetOptions } from "./run-set.ts";
import { Sealing } from "./sealing.ts";
import { Tail } from "./tail.ts";

export type PostingOptions = RunSetOptions & {
  /** Postings have frequencies, and records a length. */
  readonly isText: boolean;
  /** The greatest code, 15 to 255: how finely bounds are told apart. */
  readonly levels: number;
  /** Records and postings of the longest tail; less for tests. */
  readonly tailRecordsMax?: number;
  readonly tailPostingsMax?: number;
};

/** What a checkpoint keeps, besides the images of the runs. */
export type PostingState = {
  /** Every record with a smaller ordinal is in a run, or removed. */
  readonly end: number;
  readonly runs: readonly RunState[];
  /** Records of runs that were retired and not yet removed. */
  readonly retired: Uint32Array;
};

const tailRecords = 8_192;
const tailPostings = 262_144;

/** Of a tail without records. */
export const emptyTailBytes = new Tail(Uint32Array).memoryBytes;

/** Postings merged for each that is added or removed, so that merging keeps up: each is merged about twice. */
const mergeFactor = 6;
/** Postings that are worked for with one change: a few milliseconds. */
const workMax = 50_000;

/** Of a Set of numbers, as measured in V8. */
const setEntryBytes = 20;

export class PostingIndex {
  readonly reader: PostingReader;
  readonly searcher: PostingSearcher;
  readonly #options: PostingOptions;
  readonly #tailRecordsMax: number;
  readonly #tailPostingsMax: number;
  readonly #parts: PostingParts;
  readonly #runs: RunSet;
  #sealing: Sealing | undefined;
  #last = -1;
  #sealedEnd = 0;
  /** What it will be when the sealing is over. */
  #sealingEnd = 0;
  /** Postings that are to be worked for, and were not yet. */
  #owed = 0;
  #tailHasWide = false;

  constructor(options: PostingOptions) {
    this.#options = options;
    this.#tailRecordsMax = options.tailRecordsMax ?? tailRecords;
    this.#tailPostingsMax = options.tailPostingsMax ?? tailPostings;
    this.#parts = new PostingParts(options.isText);
    this.#runs = new RunSet(this.#parts, options);
    this.reader = new PostingReader(this.#parts);
    this.searcher = new PostingSearcher(this.#parts, this.reader);
    this.#addTail();
  }

  /** What is there, for whoever goes through all of it (posting-walk.ts). */
  get parts(): PostingParts {
    return this.#parts;
  }

  get count(): number {
    return this.#parts.count;
  }

  /** Memories that runs lie in. */
  get arenaCount(): number {
    return this.#runs.arenaCount;
  }

  /** Runs, for tests. */
  get runCount(): number {
    return this.#parts.runs.length;
  }

  /** Records that are in no run. */
  get tailCount(): number {
    return this.#parts.tailCount;
  }

  /** Whether nothing is being sealed or merged. */
  get isIdle(): boolean {
    return !this.#runs.isMerging && this.#sealing === undefined;
  }

  /** Records of runs that are new or closed since the index was last kept. */
  get changes(): number {
    return this.#runs.changes;
  }

  /** Every record with a smaller ordinal is in a run, or removed. */
  get sealedEnd(): number {
    return this.#sealedEnd;
  }

  has(ordinal: number): boolean {
    return this.#parts.has(ordinal);
  }

  // ---- Records come and go

  /**
   * Adds a record.
   * @param length of a text, in terms
   * @param terms unique, with finite values side by side
   * @param averageLength of the texts there are now
   */
  add(
    ordinal: number,
    length: number,
    terms: ArrayLike<number>,
    values: ArrayLike<number>,
    averageLength: number,
  ): void {
    assertAscending(ordinal, this.#last);
    this.#last = ordinal;
    const tail = this.#parts.youngest;
    const slot = tail.add(ordinal, length);
    for (let i = 0; i < terms.length; i++) {
      if (tail.append(terms[i], slot, values[i])) this.#options.onTermUsed?.(terms[i]);
      if (values[i] > 255) this.#tailHasWide = true;
      if (values[i] < 0) this.#parts.hadNegative = true;
    }
    this.averageLength = averageLength;
    if (tail.slotsEnd >= this.#tailRecordsMax || tail.postings.total >= this.#tailPostingsMax)
      this.#beginSealing();
    this.#workOff(mergeFactor * (terms.length + 1));
  }

  retire(ordinal: number): void {
    if (!this.has(ordinal)) return;
    this.#parts.retired.add(ordinal);
    if (this.#parts.runOf(ordinal) !== undefined) this.#runs.changes++;
  }

  /** Removes a record that is there. */
  remove(ordinal: number): void {
    const wasRetired = this.#parts.retired.delete(ordinal);
    const run = this.#parts.runOf(ordinal);
    if (run === undefined) {
      this.#removeFromTail(ordinal);
      return;
    }
    if (!wasRetired) this.#runs.changes++;
    this.#runs.remove(run, ordinal);
    this.#workOff(mergeFactor * Math.ceil(run.postings / run.recordCount));
  }

  #removeFromTail(ordinal: number): void {
    const tail = this.#parts.tailOf(ordinal);
    tail?.remove(ordinal);
    if (tail !== undefined && tail === this.#sealing?.tail) this.#sealing.remove(ordinal);
    else if (tail?.count === 0) this.#clear(tail);
  }

  /** The average length of texts, where it is known better than by the last that was added. */
  set averageLength(length: number) {
    this.#runs.averageLength = length;
  }

  // ---- Work that can wait

  /** Works for so many postings, and for what was left of before; of very many a part is left for later. */
  #workOff(postings: number): void {
    this.#owed += postings;
    const some = Math.min(this.#owed, workMax);
    this.#owed = this.work(some) ? this.#owed - some : 0;
  }

  /** Goes on with sealing and merging, for about so many postings. @returns whether there is more to do */
  work(postings: number): boolean {
    if (this.#sealing === undefined) return this.#runs.work(postings);
    if (!this.#sealing.step(postings)) return true;
    this.#endSealing();
    return this.#runs.isMerging;
  }

  /** The same for an index that is idle: merges what else is worth it too. */
  tidy(postings: number): boolean {
    if (this.isIdle && this.#isTailLong()) this.#beginSealing();
    this.#runs.beginMerge(true);
    this.work(postings);
    this.#runs.beginMerge(true);
    if (!this.isIdle || this.#isTailLong()) return true;
    return this.#runs.compact(postings);
  }

  /** Whether the tail is worth a run while there is time: searching it takes longer than searching a run as long. */
  #isTailLong(): boolean {
    const { count, slotsEnd, postings } = this.#parts.youngest;
    if (count === 0) return false;
    return 8 * slotsEnd >= this.#tailRecordsMax || 8 * postings.total >= this.#tailPostingsMax;
  }

  // ---- Sealing

  #addTail(): void {
    this.#parts.layout++;
    this.#parts.tails.push(
      this.#options.isText ? new Tail<Float32Array | Uint32Array>(Uint32Array) : new Tail(Float32Array),
    );
    this.#tailHasWide = false;
  }

  /** Makes a run of all that is in none, at once. */
  seal(): void {
    this.#beginSealing();
    this.#sealing?.step(Number.POSITIVE_INFINITY);
    if (this.#sealing !== undefined) this.#endSealing();
  }

  /** Begins to make a run of the tail that records were added to, and ends the sealing before where it is still on. */
  #beginSealing(): void {
    if (this.#sealing !== undefined) {
      this.#sealing.step(Number.POSITIVE_INFINITY);
      this.#endSealing();
    }
    const tail = this.#parts.youngest;
    if (tail.count === 0) return;
    this.#runs.dropCompaction();
    const { isText, levels, amountOf } = this.#options;
    const { averageLength } = this.#runs;
    const how = {
      kind: !isText ? kinds.sparse : this.#tailHasWide ? kinds.wideText : kinds.text,
      levels,
      averageLength,
      amountOf: amountOf(averageLength),
    };
    this.#sealing = this.#runs.inArena((arena) => Sealing.begin(arena, tail, isText, how));
    invariant(this.#sealing !== undefined, "there is no memory for a run of postings");
    this.#sealingEnd = this.#last + 1;
    this.#addTail();
  }

  /** Puts the run of which all lists are written in the place of its tail. */
  #endSealing(): void {
    const { tail } = this.#sealing as Sealing;
    const run = (this.#sealing as Sealing).finish();
    this.#sealing = undefined;
    this.#sealedEnd = this.#sealingEnd;
    this.#parts.tails.shift();
    this.#parts.layout++;
    this.#runs.changes += run.recordCount;
    this.#runs.append(run);
    this.#clear(tail);
    this.#runs.beginMerge();
  }

  #clear(tail: AnyTail): void {
    const { onTermUnused } = this.#options;
    if (onTermUnused) for (const term of tail.lists.terms) onTermUnused(term);
    tail.clear();
    if (tail === this.#parts.youngest) this.#tailHasWide = false;
  }

  // ---- Memory and checkpoints

  get memoryBytes(): number {
    const { tails, retired } = this.#parts;
    const bytes = this.searcher.memoryBytes + setEntryBytes * retired.size + this.#runs.memoryBytes;
    return tails.reduce((sum, tail) => sum + tail.memoryBytes, bytes);
  }

  get restoredBytes(): number {
    const tails = this.#parts.tails.filter(({ count }) => count > 0);
    return tails.reduce((sum, tail) => sum + tail.memoryBytes, this.#runs.restoredBytes + emptyTailBytes);
  }

  /**
   * What a checkpoint keeps: all runs. The images are those of the runs themselves, which stay as they are until `done`, whatever
   * is added, removed or merged meanwhile; one at a time is handed out. The records of the tail are to be added again.
   */
  save(): Kept<PostingState> {
    const { runs, done } = this.#runs.hold();
    const retired = Uint32Array.from(this.#parts.retired);
    return {
      state: {
        end: this.#sealedEnd,
        runs: runs.map((run) => run.state()),
        retired: retired.filter((ordinal) => this.#parts.runOf(ordinal) !== undefined),
      },
      images: runs.map((run) => run.image),
      done,
    };
  }

  /**
   * An index as it was kept. Retired records are there, and to be removed.
   * @param load fills the images with what was kept, in the order of `save`
   */
  static async restored(
    options: PostingOptions,
    state: PostingState,
    load: (images: Uint8Array[]) => Promise<void>,
  ): Promise<PostingIndex> {
    const index = new PostingIndex(options);
    await index.#runs.restore(state.runs, load);
    index.#last = state.end - 1;
    index.#sealedEnd = state.end;
    return index;
  }

  close(): void {
    this.#runs.close();
    this.#parts.retired.clear();
    this.#sealing = undefined;
    this.#parts.tails.length = 0;
    this.#addTail();
  }

  check(): void {
    this.#runs.checkArenas();
    const { tails } = this.#parts;
    invariant(tails.length === (this.#sealing ? 2 : 1), `there are ${tails.length} tails`);
    checkParts(this.#parts, this.#sealedEnd, (run) => this.#runs.isMerged(run), this.#options.amountOf);
  }
}
