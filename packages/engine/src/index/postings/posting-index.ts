// Which records have the greatest sums of what their postings add?
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
// Sealing and merging go on in pieces, some with each change in proportion to it, and the rest when the collection is idle (`tidy`),
// which then makes a run of a tail that is worth it, and one of any small neighbours: what a search does for each run and term it would
// else do for some ten runs more.
//
// While a tail is being sealed there are two: nothing is added to the older one. Ranges of ordinals of runs and tails do not overlap
// and ascend. See `check`.

import { kinds } from "@quiver/kernels/postings";
import { failpoint } from "../../base/failpoint.ts";
import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { assertAscending, type Candidates, nothing, type Visible } from "../contract.ts";
import { absent } from "../ordinal-map.ts";
import { Arena, type ArenaOptions, arenaBytes } from "./arena.ts";
import { Best } from "./best.ts";
import { Compaction, isWorthCompacting } from "./compaction.ts";
import type { Kept } from "./kept.ts";
import { greatestIn } from "./list-bounds.ts";
import { Merge } from "./merge.ts";
import { toMerge } from "./merge-choice.ts";
import type { Formula, Hidden, Located, WeightedTerm } from "./query.ts";
import type { Accepts } from "./record-scores.ts";
import { Run, type RunState } from "./run.ts";
import { searchRuns } from "./run-search.ts";
import type { AmountOf } from "./run-writer.ts";
import { FullScorer } from "./score-all.ts";
import { Sealing } from "./sealing.ts";
import { Tail } from "./tail.ts";

export type PostingOptions = ArenaOptions & {
  /** Postings have frequencies, and records a length. */
  readonly isText: boolean;
  /** The greatest code, 15 to 255: how finely bounds are told apart. */
  readonly levels: number;
  /** What a posting adds at weight 1, by the average length of texts. */
  readonly amountOf: (averageLength: number) => AmountOf;
  /** Told when the index begins to have postings of a term in one more place, and in one less. */
  readonly onTermUsed?: (term: number) => void;
  readonly onTermUnused?: (term: number) => void;
  /** Whether so many bytes more may be taken for a while; default: always. */
  readonly mayTake?: (bytes: number) => boolean;
  /** Records and postings of the longest tail; less for tests. */
  readonly tailRecordsMax?: number;
  readonly tailPostingsMax?: number;
  /** Postings of the longest run that a merge makes; less for tests. */
  readonly runPostingsMax?: number;
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

/** Of the longest run that a merge makes: some hundred MB, of vectors with very many dimensions. */
const runPostings = 2 ** 24;

/**
 * Queries of more terms are scored in full. Pruning looks a record that may be among the best up in the lists of all terms, and the
 * more terms there are, the less it can rule out: 6,400 random words of 40,000 texts took 1.6 s, and scored in full 17 ms; up to
 * some 3,000 words pruning was faster.
 */
export const prunedTermsMax = 2_048;

/** Copying so many bytes takes about as long as merging a posting. */
const copiedBytesPerPosting = 64;

/** Of a tail without records. */
export const emptyTailBytes = new Tail(Uint32Array).memoryBytes;

/** Postings merged for each that is added or removed, so that merging keeps up: each is merged about twice. */
const mergeFactor = 6;
/** Postings that are worked for with one change: a few milliseconds. */
const workMax = 50_000;

export class PostingIndex {
  readonly #options: PostingOptions;
  readonly #tailRecordsMax: number;
  readonly #tailPostingsMax: number;
  #arenas: Arena[] = [];
  /** By ascending ordinals. */
  #runs: Run[] = [];
  #layout = 0;
  /** One, or one that is being sealed and the one that records are added to. */
  readonly #tails: Tail<Float32Array | Uint32Array>[] = [];
  readonly #scorer = new FullScorer();
  /** Records that are held and were retired. */
  readonly #retired = new Set<number>();
  #sealing: Sealing | undefined;
  #merge: Merge | undefined;
  /** Of the runs as they are; nothing is being sealed or merged meanwhile. */
  #compaction: Compaction | undefined;
  /** Runs that are being written to disk, and those of them that are of no more use afterwards. */
  #saving: readonly Run[] = [];
  readonly #freedLater: Run[] = [];
  /** Records of runs that are new or closed since the index was last kept. */
  #changes = 0;
  #last = -1;
  #sealedEnd = 0;
  /** What it will be when the sealing is over. */
  #sealingEnd = 0;
  #averageLength = 0;
  /** Postings that are to be worked for, and were not yet. */
  #owed = 0;
  #tailHasWide = false;
  /** Whether a weight that was ever added is negative. */
  #hadNegative = false;

  constructor(options: PostingOptions) {
    this.#options = options;
    this.#tailRecordsMax = options.tailRecordsMax ?? tailRecords;
    this.#tailPostingsMax = options.tailPostingsMax ?? tailPostings;
    this.#addTail();
  }

  get count(): number {
    return this.#runs.reduce((sum, run) => sum + run.count, this.tailCount);
  }

  /** Memories that runs lie in. */
  get arenaCount(): number {
    return this.#arenas.length;
  }

  /** Runs, for tests. */
  get runCount(): number {
    return this.#runs.length;
  }

  /** Records that are in no run. */
  get tailCount(): number {
    return this.#tails.reduce((sum, tail) => sum + tail.count, 0);
  }

  /** Whether nothing is being sealed or merged. */
  get isIdle(): boolean {
    return this.#merge === undefined && this.#sealing === undefined;
  }

  /** Records of runs that are new or closed since the index was last kept. */
  get changes(): number {
    return this.#changes;
  }

  /** Every record with a smaller ordinal is in a run, or removed. */
  get sealedEnd(): number {
    return this.#sealedEnd;
  }

  has(ordinal: number): boolean {
    const run = this.#runOf(ordinal);
    return run !== undefined ? run.recordOf(ordinal) >= 0 : this.#tailOf(ordinal) !== undefined;
  }

  /** Whether a record that is held was retired. */
  isRetired(ordinal: number): boolean {
    return this.#retired.has(ordinal);
  }

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
    const tail = this.#youngest;
    const slot = tail.add(ordinal, length);
    for (let i = 0; i < terms.length; i++) {
      if (tail.append(terms[i], slot, values[i])) this.#options.onTermUsed?.(terms[i]);
      if (values[i] > 255) this.#tailHasWide = true;
      if (values[i] < 0) this.#hadNegative = true;
    }
    this.#averageLength = averageLength;
    if (tail.slotsEnd >= this.#tailRecordsMax || tail.postings.total >= this.#tailPostingsMax)
      this.#beginSealing();
    this.#workOff(mergeFactor * (terms.length + 1));
  }

  /** Works for so many postings, and for what was left of before; of very many a part is left for later. */
  #workOff(postings: number): void {
    this.#owed += postings;
    const some = Math.min(this.#owed, workMax);
    this.#owed = this.work(some) ? this.#owed - some : 0;
  }

  retire(ordinal: number): void {
    if (!this.has(ordinal)) return;
    this.#retired.add(ordinal);
    if (this.#runOf(ordinal) !== undefined) this.#changes++;
  }

  /** Removes a record that is there. */
  remove(ordinal: number): void {
    const wasRetired = this.#retired.delete(ordinal);
    const run = this.#runOf(ordinal);
    if (run === undefined) {
      const tail = this.#tailOf(ordinal);
      tail?.remove(ordinal);
      if (tail !== undefined && tail === this.#sealing?.tail) this.#sealing.remove(ordinal);
      else if (tail?.count === 0) this.#clear(tail);
      return;
    }
    if (!wasRetired) this.#changes++;
    run.remove(run.recordOf(ordinal));
    if (this.#merge?.sources.includes(run)) this.#merge.remove(ordinal);
    else if (run.count === 0) this.#replace([run], undefined);
    else if (this.#merge === undefined) this.#beginMerge();
    this.#workOff(mergeFactor * Math.ceil(run.postings / run.recordCount));
  }

  /** Goes on with sealing and merging, for about so many postings. @returns whether there is more to do */
  work(postings: number): boolean {
    if (this.#sealing !== undefined) {
      if (!this.#sealing.step(postings)) return true;
      this.#endSealing();
      return this.#merge !== undefined;
    }
    if (this.#merge === undefined) return false;
    if (!this.#merge.step(postings)) return true;
    const { sources } = this.#merge;
    failpoint("merge:done");
    const merged = this.#merge.finish();
    this.#merge = undefined;
    this.#replace(sources, merged);
    failpoint("merge:replaced");
    this.#beginMerge();
    return this.#merge !== undefined;
  }

  /** The same for an index that is idle: merges what else is worth it too. */
  tidy(postings: number): boolean {
    if (this.isIdle && this.#isTailLong()) this.#beginSealing();
    this.#beginMerge(true);
    this.work(postings);
    this.#beginMerge(true);
    if (!this.isIdle || this.#isTailLong()) return true;
    return this.#compact(postings);
  }

  /** Gives back the memory that merges have left behind. @returns whether there is more to do */
  #compact(postings: number): boolean {
    if (this.#compaction === undefined) {
      if (this.#saving.length > 0 || !isWorthCompacting(this.#arenas)) return false;
      const { mayTake } = this.#options;
      if (mayTake?.(this.#arenas.reduce((sum, arena) => sum + arena.takenBytes, 0)) === false) return false;
      this.#compaction = new Compaction([...this.#runs], () => new Arena(this.#options));
    }
    if (!this.#compaction.step(copiedBytesPerPosting * postings)) return true;
    // What is being written to disk is written from the old arenas, and freed there.
    if (this.#saving.length > 0) return false;
    this.#runs = this.#compaction.finish();
    this.#arenas = this.#compaction.arenas;
    this.#compaction = undefined;
    return false;
  }

  /** Whether the tail is worth a run while there is time: searching it takes longer than searching a run as long. */
  #isTailLong(): boolean {
    const { count, slotsEnd, postings } = this.#youngest;
    if (count === 0) return false;
    return 8 * slotsEnd >= this.#tailRecordsMax || 8 * postings.total >= this.#tailPostingsMax;
  }

  /** Another number whenever lists have come to other places. */
  get layout(): number {
    return this.#layout;
  }

  /** Where a term's postings are. Valid until the next change of the `layout`. */
  locate(term: number): Located {
    // A plain array: a typed one is made outside of the heap as soon as there are many runs.
    const runs: number[] = [];
    const tails = this.#tails.map(({ lists }) => lists.get(term) ?? -1);
    let isAnywhere = tails.some((list) => list >= 0);
    for (let i = 0; i < this.#runs.length; i++) {
      const list = this.#runs[i].listOf(term);
      runs.push(list);
      if (list >= 0) isAnywhere = true;
    }
    return { runs, tails, isAnywhere };
  }

  /**
   * What a version does not see; null: it sees all. Only retired records and the youngest can be hidden (contract.ts), so only
   * of those it is asked.
   */
  hide(visible: Visible): Hidden | null {
    if (visible === null) return null;
    const hidden = { runs: this.#runs.map((): number[] => []), tails: this.#tails.map((): number[] => []) };
    let isAnyHidden = false;
    const hide = (ordinal: number) => {
      isAnyHidden = true;
      const number = this.#runNumberOf(ordinal);
      if (number < 0)
        for (const [i, tail] of this.#tails.entries()) {
          const slot = tail.slotOf(ordinal);
          if (slot >= 0) hidden.tails[i].push(slot);
        }
      else hidden.runs[number].push(this.#runs[number].recordOf(ordinal));
    };
    for (const ordinal of this.hiddenOrdinals(visible)) hide(ordinal);
    return isAnyHidden ? hidden : null;
  }

  /** The ordinals that are held and that a version does not see, in no particular order. */
  *hiddenOrdinals(visible: Visible): Generator<number> {
    if (visible === null) return;
    for (const ordinal of this.#retired) if (!visible(ordinal)) yield ordinal;
    for (const ordinal of this.#fromYoungest()) {
      if (this.#retired.has(ordinal)) continue;
      if (visible(ordinal)) break;
      yield ordinal;
    }
  }

  /** Records that have a term, of those that are not hidden. */
  documentFrequency({ runs, tails }: Located, hidden: Hidden | null): number {
    let df = 0;
    for (let i = 0; i < runs.length; i++) {
      const list = runs[i];
      if (list < 0) continue;
      const run = this.#runs[i];
      df += run.countOf(list) - run.removedIn(list);
      if (hidden) for (const record of hidden.runs[i]) if (run.postingOf(list, record) >= 0) df--;
    }
    for (let i = 0; i < tails.length; i++) if (tails[i] >= 0) df += this.#countInTail(i, tails[i], hidden);
    return df;
  }

  /** What the greatest posting of some terms adds that is not hidden, or a little less. Of sparse vectors. */
  greatestAmount(terms: readonly WeightedTerm[], hidden: Hidden | null): number {
    const hiddenIn = hidden?.runs.map((records) => new Set(records));
    const hiddenInTails = hidden?.tails.map((slots) => new Set(slots));
    let greatest = Number.NEGATIVE_INFINITY;
    for (const { located, weight } of terms) {
      for (let i = 0; i < located.runs.length; i++) {
        const list = located.runs[i];
        if (list < 0) continue;
        const run = this.#runs[i];
        greatest = Math.max(greatest, greatestIn(run, list, weight, hiddenIn?.[i]));
      }
      for (const [i, { postings, ordinals }] of this.#tails.entries()) {
        if (located.tails[i] < 0) continue;
        const { count, slots, values } = postings.read(located.tails[i]);
        for (let at = 0; at < count; at++)
          if (ordinals.values[slots[at]] !== absent && !hiddenInTails?.[i].has(slots[at]))
            greatest = Math.max(greatest, weight * values[at]);
      }
    }
    return greatest;
  }

  /**
   * The k best records of those that have one of the terms, with all ties at the boundary.
   * @param least of sparse vectors: what a posting must add to make a record a candidate; null: every record is one. With it some of
   * the best can be missing, unless a weight is negative
   */
  search(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    least: number | null = null,
  ): Candidates {
    if (k <= 0 || terms.length === 0) return nothing;
    // What great postings add says nothing where others are negative.
    const counting = least !== null && this.#hasNegative(terms) ? null : least;
    if (terms.length > prunedTermsMax)
      return finishAtOnce(this.#scoreAll(this.#scorer, terms, k, formula, hidden, null, counting));
    const inTails = this.#bestOfTails(k, (tail, i) =>
      finishAtOnce(
        this.#options.isText
          ? this.#scorer.acceptedInTail(tail, i, terms, k, formula, hidden, null)
          : this.#scorer.sparseTail(tail, i, terms, k, hidden, counting),
      ),
    );
    if (this.#runs.length === 0) return inTails;
    return searchRuns(this.#runs, { terms, k, formula, hidden, least: counting }, inTails);
  }

  #hasNegative(terms: readonly WeightedTerm[]): boolean {
    return (
      this.#hadNegative ||
      terms.some(({ weight }) => weight < 0) ||
      this.#runs.some(({ hasNegative }) => hasNegative)
    );
  }

  /** `search` without pruning. */
  *#scoreAll(
    scorer: FullScorer,
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    accepts: Accepts,
    least: number | null = null,
  ): Steps<Candidates> {
    const best = new Best(k, nothing);
    const { isText } = this.#options;
    for (const [i, tail] of this.#tails.entries())
      best.add(
        yield* isText
          ? scorer.acceptedInTail(tail, i, terms, k, formula, hidden, accepts)
          : scorer.sparseTail(tail, i, terms, k, hidden, least, accepts),
      );
    for (const [i, run] of this.#runs.entries())
      best.add(
        yield* isText
          ? scorer.acceptedInRun(run, i, terms, k, formula, hidden, accepts)
          : scorer.sparseInRun(run, i, terms, k, hidden, least, accepts),
      );
    return best.bestOfAdded();
  }

  /**
   * `search` of a text index where not all records may be found, or not all terms count for all: everything is scored, for what
   * may be found is known already, and is mostly little.
   */
  searchAccepted(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    hidden: Hidden | null,
    accepts: Accepts,
  ): Candidates {
    if (k <= 0) return nothing;
    return finishAtOnce(this.#scoreAll(this.#scorer, terms, k, formula, hidden, accepts));
  }

  /**
   * Scores everything, as `searchAccepted` does, in steps between which the index may change.
   * @param visible asked anew for what the version sees
   * @returns null where lists were moved meanwhile (`layout`): what was located is not valid any more, and it has to begin anew
   */
  *searchInSteps(
    terms: readonly WeightedTerm[],
    k: number,
    formula: Formula,
    visible: () => Visible,
    accepts: Accepts,
    least: number | null = null,
  ): Steps<Candidates | null> {
    if (k <= 0) return nothing;
    const { layout } = this;
    const counting = least !== null && this.#hasNegative(terms) ? null : least;
    // Asked for at each step and not for each record: making the test takes longer than it does.
    let sees = visible();
    const isSeen: Accepts = (ordinal) =>
      (sees === null || sees(ordinal)) && (accepts === null || accepts(ordinal));
    const steps = this.#scoreAll(new FullScorer(), terms, k, formula, this.hide(visible()), isSeen, counting);
    for (;;) {
      const step = steps.next();
      if (step.done) return step.value;
      yield;
      if (this.layout !== layout) return null;
      sees = visible();
    }
  }

  #bestOfTails(
    k: number,
    search: (tail: Tail<Float32Array | Uint32Array>, number: number) => Candidates,
  ): Candidates {
    if (this.#tails.length === 1) return search(this.#tails[0], 0);
    const best = new Best(k, nothing);
    for (const [i, tail] of this.#tails.entries()) best.add(search(tail, i));
    return best.bestOfAdded();
  }

  /** The ordinals held that have a term, ascending. */
  holdersOf({ runs, tails }: Located): Uint32Array {
    const holders = new Growable(Uint32Array);
    for (let i = 0; i < runs.length; i++) {
      const run = this.#runs[i];
      if (runs[i] < 0) continue;
      for (let posting = 0; posting < run.countOf(runs[i]); posting++) {
        const record = run.recordAt(runs[i], posting);
        if (!run.isRemoved(record)) holders.push(run.ordinals[record]);
      }
    }
    for (const [i, { postings, ordinals }] of this.#tails.entries()) {
      if (tails[i] < 0) continue;
      const { count, slots } = postings.read(tails[i]);
      for (let at = 0; at < count; at++) {
        const ordinal = ordinals.values[slots[at]];
        if (ordinal !== absent) holders.push(ordinal);
      }
    }
    return holders.values.slice(0, holders.length);
  }

  /**
   * What some records have of a term.
   * @param places by ordinal
   * @param onMatch told the value and the record's place
   */
  valuesOf(
    { runs, tails }: Located,
    places: ReadonlyMap<number, number>,
    onMatch: (place: number, value: number) => void,
  ): void {
    for (const [ordinal, place] of places) {
      const number = this.#runNumberOf(ordinal);
      if (number < 0 || runs[number] < 0) continue;
      const run = this.#runs[number];
      const posting = run.postingOf(runs[number], run.recordOf(ordinal));
      if (posting >= 0) onMatch(place, run.valueOf(runs[number], posting));
    }
    for (const [i, { postings, ordinals }] of this.#tails.entries()) {
      if (tails[i] < 0) continue;
      const { count, slots, values } = postings.read(tails[i]);
      for (let at = 0; at < count; at++) {
        const place = places.get(ordinals.values[slots[at]]);
        if (place !== undefined) onMatch(place, values[at]);
      }
    }
  }

  /** The length of a text that is held. */
  lengthOf(ordinal: number): number {
    const run = this.#runOf(ordinal);
    const tail = this.#tailOf(ordinal);
    const place = run?.recordOf(ordinal) ?? tail?.slotOf(ordinal) ?? -1;
    invariant(place >= 0, `ordinal ${ordinal} is not held`);
    return (run?.lengths ?? tail?.lengths.values ?? [])[place];
  }

  /** All records that are held, and their lengths, by ascending ordinal. */
  *records(): Generator<[ordinal: number, length: number]> {
    for (const run of this.#runs)
      for (let record = 0; record < run.recordCount; record++)
        if (!run.isRemoved(record)) yield [run.ordinals[record], run.lengths[record] ?? 0];
    for (const tail of this.#tails)
      for (let slot = 0; slot < tail.slotsEnd; slot++) {
        const ordinal = tail.ordinals.values[slot];
        if (ordinal !== absent) yield [ordinal, tail.lengths.values[slot]];
      }
  }

  /**
   * All postings of records that are held, a list at each step. Between steps the index may be used and changed: what is added
   * meanwhile is left out.
   * @returns whether all were told; false where runs were merged meanwhile, and it has to begin anew
   */
  *postings(onPosting: (term: number, ordinal: number, value: number) => void): Generator<void, boolean> {
    const runs = [...this.#runs];
    for (const { postings, lists, ordinals } of this.#tails)
      for (const term of lists.terms) {
        const { count, slots, values } = postings.read(lists.get(term) as number);
        for (let i = 0; i < count; i++) {
          const ordinal = ordinals.values[slots[i]];
          if (ordinal !== absent) onPosting(term, ordinal, values[i]);
        }
      }
    for (const run of runs)
      for (let list = 0; list < run.listCount; list++) {
        yield;
        if (!this.#runs.includes(run)) return false;
        for (let i = 0; i < run.countOf(list); i++) {
          const record = run.recordAt(list, i);
          if (!run.isRemoved(record)) onPosting(run.terms[list], run.ordinals[record], run.valueOf(list, i));
        }
      }
    return true;
  }

  /** How often `onTermUsed` was called for each term, less `onTermUnused`. */
  usesOfTerms(): Map<number, number> {
    const uses = new Map<number, number>();
    const use = (term: number) => uses.set(term, (uses.get(term) ?? 0) + 1);
    for (const run of this.#runs) run.terms.forEach(use);
    for (const { lists } of this.#tails) lists.terms.forEach(use);
    return uses;
  }

  get memoryBytes(): number {
    let bytes = this.#scorer.memoryBytes + setEntryBytes * this.#retired.size;
    for (const tail of this.#tails) bytes += tail.memoryBytes;
    for (const arena of this.#arenas) bytes += arena.memoryBytes;
    for (const arena of this.#compaction?.arenas ?? []) bytes += arena.memoryBytes;
    for (const run of this.#runs) bytes += run.extraBytes;
    return bytes;
  }

  get restoredBytes(): number {
    const tails = this.#tails.reduce((sum, tail) => sum + (tail.count > 0 ? tail.memoryBytes : 0), 0);
    const extra = this.#runs.reduce((sum, run) => sum + run.extraBytes, 0);
    return arenaBytes(this.#runs.map(({ bytes }) => bytes)) + extra + tails + emptyTailBytes;
  }

  /**
   * What a checkpoint keeps: all runs. The images are those of the runs themselves, which stay as they are until `done`, whatever
   * is added, removed or merged meanwhile; one at a time is handed out. The records of the tail are to be added again.
   */
  save(): Kept<PostingState> {
    invariant(this.#saving.length === 0, "an index is kept while it is being kept");
    const runs = [...this.#runs];
    const changes = this.#changes;
    this.#saving = runs;
    return {
      state: {
        end: this.#sealedEnd,
        runs: runs.map((run) => run.state()),
        retired: Uint32Array.from(this.#retired).filter((ordinal) => this.#runOf(ordinal) !== undefined),
      },
      images: runs.map((run) => run.image),
      done: (isKept) => {
        this.#saving = [];
        if (isKept) this.#changes -= changes;
        for (const run of this.#freedLater.splice(0)) run.free();
      },
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
    const rooms = state.runs.map((run) => {
      const room = index.#inArena((arena) => Run.makeRoom(arena, run));
      invariant(room !== undefined, "there is no memory for a run that was kept");
      return room;
    });
    await load(rooms.map(({ image }) => image));
    for (const { arena, at } of rooms) index.#replace([], Run.restored(arena, at));
    index.#last = state.end - 1;
    index.#sealedEnd = state.end;
    return index;
  }

  /** The average length of texts, where it is known better than by the last that was added. */
  set averageLength(length: number) {
    this.#averageLength = length;
  }

  close(): void {
    this.#runs = [];
    this.#freedLater.length = 0;
    this.#merge = undefined;
    this.#compaction = undefined;
    this.#arenas = [];
    this.#retired.clear();
    this.#sealing = undefined;
    this.#tails.length = 0;
    this.#addTail();
  }

  check(): void {
    for (const arena of this.#arenas) arena.check();
    let last = -1;
    for (const run of this.#runs) {
      const isMerged = this.#merge?.sources.includes(run) === true;
      invariant(run.count > 0 || isMerged, `the run from ordinal ${run.firstOrdinal} on has no record left`);
      invariant(run.firstOrdinal > last, `a run begins with ordinal ${run.firstOrdinal} after ${last}`);
      last = run.lastOrdinal;
      run.check(this.#options.amountOf(run.averageLength));
    }
    invariant(this.#tails.length === (this.#sealing ? 2 : 1), `there are ${this.#tails.length} tails`);
    for (const tail of this.#tails) {
      tail.check();
      const [first] = ordinalsOf(tail);
      invariant(
        first === undefined || first >= this.#sealedEnd,
        `ordinal ${first} is in a tail below ${this.#sealedEnd}`,
      );
      invariant(first === undefined || first > last, `a tail begins with ordinal ${first} after ${last}`);
      last = ordinalsOf(tail).at(-1) ?? last;
    }
    for (const ordinal of this.#retired)
      invariant(this.has(ordinal), `ordinal ${ordinal} is retired and gone`);
  }

  /** The number of the run whose range has an ordinal, or -1. */
  #runNumberOf(ordinal: number): number {
    let low = 0;
    let high = this.#runs.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#runs[middle].lastOrdinal < ordinal) low = middle + 1;
      else high = middle;
    }
    return low < this.#runs.length ? low : -1;
  }

  #runOf(ordinal: number): Run | undefined {
    return this.#runs[this.#runNumberOf(ordinal)];
  }

  /** Ordinals that are held, descending. */
  *#fromYoungest(): Generator<number> {
    for (const { ordinals, slotsEnd } of this.#tails.toReversed())
      for (let slot = slotsEnd - 1; slot >= 0; slot--)
        if (ordinals.values[slot] !== absent) yield ordinals.values[slot];
    for (let i = this.#runs.length - 1; i >= 0; i--) {
      const run = this.#runs[i];
      for (let record = run.recordCount - 1; record >= 0; record--)
        if (!run.isRemoved(record)) yield run.ordinals[record];
    }
  }

  // Tails.

  get #youngest(): Tail<Float32Array | Uint32Array> {
    return this.#tails[this.#tails.length - 1];
  }

  /** The tail that a record is in. */
  #tailOf(ordinal: number): Tail<Float32Array | Uint32Array> | undefined {
    return this.#tails.find((tail) => tail.slotOf(ordinal) >= 0);
  }

  #addTail(): void {
    this.#layout++;
    this.#tails.push(
      this.#options.isText ? new Tail<Float32Array | Uint32Array>(Uint32Array) : new Tail(Float32Array),
    );
    this.#tailHasWide = false;
  }

  /** @param number of the tail @param list of it */
  #countInTail(number: number, list: number, hidden: Hidden | null): number {
    const { postings, ordinals } = this.#tails[number];
    const { count, slots } = postings.read(list);
    const slotsHidden = hidden?.tails[number] ?? [];
    const out = slotsHidden.length > 0 ? new Set(slotsHidden) : undefined;
    let df = 0;
    for (let i = 0; i < count; i++) if (ordinals.values[slots[i]] !== absent && !out?.has(slots[i])) df++;
    return df;
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
    const tail = this.#youngest;
    if (tail.count === 0) return;
    this.#compaction = undefined;
    const { isText, levels, amountOf } = this.#options;
    const how = {
      kind: !isText ? kinds.sparse : this.#tailHasWide ? kinds.wideText : kinds.text,
      levels,
      averageLength: this.#averageLength,
      amountOf: amountOf(this.#averageLength),
    };
    this.#sealing = this.#inArena((arena) => Sealing.begin(arena, tail, isText, how));
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
    this.#tails.shift();
    this.#layout++;
    this.#changes += run.recordCount;
    this.#replace([], run);
    this.#clear(tail);
    this.#beginMerge();
  }

  #clear(tail: Tail<Float32Array | Uint32Array>): void {
    const { onTermUnused } = this.#options;
    if (onTermUnused) for (const term of tail.lists.terms) onTermUnused(term);
    tail.clear();
    if (tail === this.#youngest) this.#tailHasWide = false;
  }

  // Runs.

  /** What `make` makes in the first arena that has room for it; undefined where there is no memory. */
  #inArena<T>(make: (arena: Arena) => T | undefined): T | undefined {
    for (const arena of this.#arenas) {
      const made = make(arena);
      if (made !== undefined) return made;
    }
    const arena = new Arena(this.#options);
    const made = make(arena);
    if (made !== undefined) this.#arenas.push(arena);
    return made;
  }

  /** Puts a run in the place of its sources, or behind all others. */
  #replace(sources: readonly Run[], run: Run | undefined): void {
    const { onTermUsed, onTermUnused } = this.#options;
    this.#compaction = undefined;
    const at = sources.length === 0 ? this.#runs.length : this.#runs.indexOf(sources[0]);
    const isAny = run !== undefined && run.count > 0;
    if (isAny && onTermUsed) for (const term of run.terms) onTermUsed(term);
    this.#layout++;
    this.#runs.splice(at, sources.length, ...(isAny ? [run] : []));
    if (run !== undefined && !isAny) run.free();
    for (const source of sources) {
      if (onTermUnused) for (const term of source.terms) onTermUnused(term);
      if (this.#saving.includes(source)) this.#freedLater.push(source);
      else source.free();
    }
  }

  #beginMerge(isIdle = false): void {
    if (this.#merge !== undefined) return;
    const sources = toMerge(this.#runs, this.#options.runPostingsMax ?? runPostings, isIdle);
    if (sources === undefined) return;
    this.#compaction = undefined;
    // Without memory for it, searches go on in the runs as they are.
    this.#merge = this.#inArena((arena) =>
      Merge.begin(arena, sources, this.#averageLength, this.#options.amountOf(this.#averageLength)),
    );
  }
}

/** The records of a tail that were not removed, ascending. */
function ordinalsOf({ ordinals, slotsEnd }: Tail<Float32Array | Uint32Array>): Uint32Array {
  return ordinals.values.subarray(0, slotsEnd).filter((ordinal) => ordinal !== absent);
}

/** Of a Set of numbers, as measured in V8. */
const setEntryBytes = 20;
