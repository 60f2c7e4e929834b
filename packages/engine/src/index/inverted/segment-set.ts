// Which segments exist, where are they stored, and which are merged next?
//
// The writer's side of segments. Merges and compaction run in pieces while searches use the present segments. What is
// being written to disk stays where it is until it is written.

import { failpoint } from "../../base/failpoint.ts";
import { invariant } from "../../base/invariant.ts";
import type { Task } from "../../base/scheduler.ts";
import type { Leisure } from "../contract.ts";
import { Arena, type ArenaOptions, arenaBytes } from "./arena.ts";
import { Merge, toMerge } from "./merge.ts";
import type { OwnedParts } from "./posting-parts.ts";
import type { Formula } from "./query.ts";
import { Segment, type SegmentState } from "./segment.ts";
import { SegmentWriter } from "./segment-writer.ts";

export type SegmentSetOptions = ArenaOptions & {
  /** How a posting contributes at weight 1, by the average length of texts. */
  readonly formulaOf: (averageLength: number) => Formula;
  /** Called when one more segment or buffer has postings of a term; and when one fewer has, some time after that. */
  readonly onTermUsed?: (term: number) => void;
  readonly onTermUnused?: (term: number) => void;
  /** Whether this many more bytes may be allocated temporarily; default: always. */
  readonly mayTake?: (bytes: number) => boolean;
  /** Frees what searches of other threads may still be reading, when none does (IndexDependencies); default: at once. */
  readonly retire?: ((free: () => void) => void) | undefined;
  /** Postings of the longest segment that a merge makes; less for tests. */
  readonly segmentPostingsMax?: number;
};

/** Of the longest segment that a merge makes: some hundred MB, of vectors with very many dimensions. */
const segmentPostings = 2 ** 24;

/** Copying this many bytes takes about as long as merging a posting. */
const copiedBytesPerPosting = 64;

/** Lists of a restored segment between two checks of the clock. */
const listsPerLook = 16_384;

export class SegmentSet {
  readonly #parts: OwnedParts;
  readonly #options: SegmentSetOptions;
  #arenas: Arena[] = [];
  #merge: Merge | undefined;
  /** Of the segments as they are; nothing is being frozen or merged meanwhile. */
  #compaction: Compaction | undefined;
  /** Segments that a checkpoint is writing, and those of them that are freed when it is written. */
  #saving: readonly Segment[] = [];
  readonly #freedLater: Segment[] = [];
  /** Terms that one segment or buffer fewer has, and how many of the first ones were reported. */
  readonly #gone: ArrayLike<number>[] = [];
  #reported = 0;
  /** The layout in which there was no memory for a merge. */
  #fullLayout = -1;
  /** Records of segments that are new or closed since the last checkpoint of the index. */
  changes = 0;
  /** Of the texts there are now. */
  averageLength = 0;

  constructor(parts: OwnedParts, options: SegmentSetOptions) {
    this.#parts = parts;
    this.#options = options;
  }

  get arenaCount(): number {
    return this.#arenas.length;
  }

  get isMerging(): boolean {
    return this.#merge !== undefined;
  }

  /** The result of `make` in the first arena with enough room; undefined if there is no memory. */
  inArena<T>(make: (arena: Arena) => T | undefined): T | undefined {
    for (const arena of this.#arenas) {
      const made = make(arena);
      if (made !== undefined) return made;
    }
    const arena = new Arena(this.#options);
    const made = make(arena);
    if (made !== undefined) this.#arenas.push(arena);
    return made;
  }

  /** Appends a segment after all others, which has the postings of a buffer. @param gone its terms that the segment does not have */
  append(segment: Segment, gone: ArrayLike<number>): void {
    this.#replace([], segment, gone);
  }

  /**
   * Replaces its sources by a segment, or appends it after all others.
   * @param gone terms, once for each of their lists that the segment does not replace
   */
  #replace(sources: readonly Segment[], segment: Segment | undefined, gone: ArrayLike<number>): void {
    const { segments } = this.#parts;
    this.#compaction = undefined;
    const at = sources.length === 0 ? segments.length : segments.indexOf(sources[0]);
    const isAny = segment !== undefined && segment.count > 0;
    for (const [i, source] of sources.entries())
      invariant(segments[at + i] === source, "segments are replaced that are no neighbours");
    invariant(
      segment === undefined || at === 0 || segments[at - 1].lastOrdinal < segment.firstOrdinal,
      () => `a segment from ${segment?.firstOrdinal} on follows one up to ${segments[at - 1].lastOrdinal}`,
    );
    this.#parts.layout++;
    segments.splice(at, sources.length, ...(isAny ? [segment] : []));
    this.forget(gone);
    if (segment !== undefined && !isAny) {
      this.forget(segment.terms.slice());
      segment.free();
    }
    for (const source of sources) {
      if (this.#saving.includes(source)) this.#freedLater.push(source);
      else this.#free(source);
    }
  }

  /** Reports soon that one segment or buffer fewer has postings of some terms. They are kept. */
  forget(terms: ArrayLike<number>): void {
    if (this.#options.onTermUnused !== undefined && terms.length > 0) this.#gone.push(terms);
  }

  /** Whether there are terms to report. */
  get isReporting(): boolean {
    return this.#gone.length > 0;
  }

  /** Reports terms, each of which takes as long as merging a posting. @returns the rest of the given number of postings */
  report(postings: number): number {
    let left = postings;
    for (let terms = this.#gone[0]; left > 0 && terms !== undefined; terms = this.#gone[0]) {
      const end = Math.min(terms.length, this.#reported + left);
      left -= end - this.#reported;
      for (; this.#reported < end; this.#reported++) this.#options.onTermUnused?.(terms[this.#reported]);
      if (end < terms.length) break;
      this.#gone.shift();
      this.#reported = 0;
    }
    return left;
  }

  /** Frees a segment that is not one of the index any more. Compaction drops whole arenas, which threads keep that read them. */
  #free(segment: Segment): void {
    const { retire } = this.#options;
    if (retire) retire(() => segment.free());
    else segment.free();
  }

  /** Removes a record that a segment has. */
  remove(segment: Segment, ordinal: number): void {
    invariant(
      this.#parts.segmentOf(ordinal) === segment,
      () => `ordinal ${ordinal} is removed from a segment that does not have it`,
    );
    segment.remove(segment.recordOf(ordinal));
    if (this.#merge?.sources.includes(segment)) this.#merge.remove(ordinal);
    else if (segment.count === 0) this.#replace([segment], undefined, segment.terms.slice());
    else if (this.#merge === undefined) this.beginMerge();
  }

  /** Starts a worthwhile merge if none is running. */
  beginMerge(leisure: Leisure = "busy"): void {
    if (this.#merge !== undefined || this.#fullLayout === this.#parts.layout) return;
    const { formulaOf, segmentPostingsMax = segmentPostings } = this.#options;
    const sources = toMerge(this.#parts.segments, segmentPostingsMax, leisure);
    if (sources === undefined || (leisure === "resting" && !this.#mayMerge(sources))) return;
    this.#compaction = undefined;
    this.#merge = new Merge(sources, formulaOf(this.averageLength), (plan) =>
      this.inArena((arena) => SegmentWriter.begin(arena, plan)),
    );
  }

  /** Whether there is memory for the merged segment, and for the copies with which the room of its sources is given back. */
  #mayMerge(sources: readonly Segment[]): boolean {
    const bytes = sources.reduce((sum, segment) => sum + segment.bytes, 0);
    const taken = this.#arenas.reduce((sum, arena) => sum + arena.takenBytes, 0);
    return this.#options.mayTake?.(bytes + taken) !== false;
  }

  /** Continues merging for about this many postings. @returns whether there is more to do */
  work(postings: number): boolean {
    if (this.#merge === undefined) return false;
    const step = this.#merge.step(postings);
    if (step === "full") {
      // Without memory for a merge, searches continue to use the segments as they are.
      this.#merge = undefined;
      this.#fullLayout = this.#parts.layout;
      return false;
    }
    if (!step) return true;
    const { sources, gone } = this.#merge;
    failpoint("merge:done");
    const merged = this.#merge.finish();
    this.#merge = undefined;
    this.#replace(sources, merged, gone);
    failpoint("merge:replaced");
    this.beginMerge();
    return this.#merge !== undefined;
  }

  /** Releases memory that merges have freed. @returns whether there is more to do */
  compact(postings: number): boolean {
    if (this.#compaction === undefined) {
      if (this.#saving.length > 0 || !isWorthCompacting(this.#arenas)) return false;
      const { mayTake } = this.#options;
      if (mayTake?.(this.#arenas.reduce((sum, arena) => sum + arena.takenBytes, 0)) === false) return false;
      this.#compaction = new Compaction([...this.#parts.segments], () => new Arena(this.#options));
    }
    if (!this.#compaction.step(copiedBytesPerPosting * postings)) return true;
    // Segments that are being written to disk are read from the old arenas, and freed there.
    if (this.#saving.length > 0) return false;
    invariant(
      this.#merge === undefined && this.#compaction.isOf(this.#parts.segments),
      "segments have changed while they were copied",
    );
    this.#parts.segments = this.#compaction.finish();
    this.#arenas = this.#compaction.arenas;
    this.#compaction = undefined;
    return false;
  }

  /** Drops a running compaction, because the segments are about to change. */
  dropCompaction(): void {
    this.#compaction = undefined;
  }

  /** The segments, whose images stay as they are until `done`. */
  hold(): { segments: readonly Segment[]; done: (isCheckpointed: boolean) => void } {
    invariant(this.#saving.length === 0, "a checkpoint is begun while another is being written");
    const segments = [...this.#parts.segments];
    const { changes } = this;
    this.#saving = segments;
    const done = (isCheckpointed: boolean) => {
      invariant(this.#saving === segments, "a checkpoint ends that is not being written");
      this.#saving = [];
      if (isCheckpointed) this.changes -= changes;
      for (const segment of this.#freedLater.splice(0)) this.#free(segment);
    };
    return { segments, done };
  }

  /** Restores segments from a checkpoint. @param load fills their images with the checkpoint's bytes */
  async restore(
    states: readonly SegmentState[],
    load: (images: Uint8Array[]) => Promise<void>,
    task: Task,
  ): Promise<void> {
    invariant(
      this.#parts.segments.length === 0,
      `a checkpoint is restored beside ${this.#parts.segments.length} segments`,
    );
    const rooms = states.map((state) => {
      const room = this.inArena((arena) => Segment.makeRoom(arena, state));
      invariant(room !== undefined, "there is no memory for a segment of the checkpoint");
      return room;
    });
    await load(rooms.map(({ image }) => image));
    for (const { arena, at } of rooms) {
      const segment = Segment.restored(arena, at);
      for (let list = 0; list < segment.listCount; list++) {
        this.#options.onTermUsed?.(segment.terms[list]);
        if (list % listsPerLook === listsPerLook - 1) await task.pause();
      }
      this.append(segment, []);
      await task.pause();
    }
  }

  get memoryBytes(): number {
    const arenas = [...this.#arenas, ...(this.#compaction?.arenas ?? [])];
    const bytes = arenas.reduce((sum, arena) => sum + arena.memoryBytes, 0);
    return bytes + this.#extraBytes;
  }

  /** Bytes that the segments would take after they are checkpointed and restored. */
  get restoredBytes(): number {
    return arenaBytes(this.#parts.segments.map(({ bytes }) => bytes)) + this.#extraBytes;
  }

  get #extraBytes(): number {
    return this.#parts.segments.reduce((sum, segment) => sum + segment.extraBytes, 0);
  }

  close(): void {
    this.#parts.segments = [];
    this.#freedLater.length = 0;
    this.#gone.length = 0;
    this.#reported = 0;
    this.#merge = undefined;
    this.#compaction = undefined;
    this.#arenas = [];
  }

  checkArenas(): void {
    for (const arena of this.#arenas) arena.check();
  }

  isMerged(segment: Segment): boolean {
    return this.#merge?.sources.includes(segment) === true;
  }
}

// ---- How does an index free the memory that merges and removals leave behind?
//
// A WebAssembly memory never shrinks, so the segments are copied into new arenas that they fill, a bounded piece at a time, while
// searches go on in the old ones; then the old arenas are dropped whole. The owner of a compaction drops it when the segments
// change meanwhile, but for removals: the bits of removed records are copied last.

/** Less than this, and less than this share of the arenas, is not worth the copying. */
const wasteBytesMin = 128 * 1024;
const wasteShare = 1 / 16;

/** Whether the arenas waste enough memory to be worth copying. */
function isWorthCompacting(arenas: readonly Arena[]): boolean {
  const bytes = arenas.reduce((sum, arena) => sum + arena.memoryBytes, 0);
  const taken = arenas.reduce((sum, arena) => sum + arena.takenBytes, 0);
  return bytes - taken > Math.max(wasteBytesMin, wasteShare * bytes);
}

class Compaction {
  readonly arenas: Arena[] = [];
  readonly #sources: readonly Segment[];
  readonly #makeArena: () => Arena;
  readonly #copies: Segment[] = [];
  /** Room for the segment that is being copied, and the bytes copied so far. */
  #room: { readonly arena: Arena; readonly at: number; readonly image: Uint8Array } | undefined;
  #copied = 0;

  /** @param makeArena makes an empty one */
  constructor(sources: readonly Segment[], makeArena: () => Arena) {
    this.#sources = sources;
    this.#makeArena = makeArena;
  }

  /** Whether it copies these segments. */
  isOf(segments: readonly Segment[]): boolean {
    return segments.length === this.#sources.length && segments.every((each, i) => each === this.#sources[i]);
  }

  /** Copies about the given number of bytes. @returns whether all are copied */
  step(bytes: number): boolean {
    for (let left = bytes; left > 0; ) {
      this.#room ??= this.#begin();
      if (this.#room === undefined) return true;
      const { arena, at, image } = this.#room;
      const source = this.#sources[this.#copies.length].image;
      const piece = source.subarray(this.#copied, this.#copied + Math.ceil(left));
      image.set(piece, this.#copied);
      this.#copied += piece.length;
      left -= piece.length;
      if (this.#copied < source.length) continue;
      this.#copies.push(new Segment(arena, at));
      this.#room = undefined;
      this.#copied = 0;
    }
    return this.#copies.length === this.#sources.length;
  }

  /** The copies, in the order of the segments. */
  finish(): Segment[] {
    for (const [i, copy] of this.#copies.entries()) {
      copy.removedBits.set(this.#sources[i].removedBits);
      copy.readRemoved();
    }
    return this.#copies;
  }

  /** Allocates the copy of the next segment; undefined when no segment is left. */
  #begin(): { arena: Arena; at: number; image: Uint8Array } | undefined {
    const source = this.#sources[this.#copies.length];
    if (source === undefined) return undefined;
    const state = source.state();
    let room =
      this.arenas.length > 0 ? Segment.makeRoom(this.arenas[this.arenas.length - 1], state) : undefined;
    if (room === undefined) {
      const arena = this.#makeArena();
      this.arenas.push(arena);
      room = Segment.makeRoom(arena, state);
    }
    if (room === undefined) throw new Error("Invariant broken: an empty arena has no room for a segment");
    return room;
  }
}
