// Which segments exist, where are they stored, and which are merged next?
//
// The writer's side of segments. Merges and compaction run in pieces while searches use the present segments. What is
// being written to disk stays where it is until it is written.

import { failpoint } from "../../base/failpoint.ts";
import { invariant } from "../../base/invariant.ts";
import { Arena, type ArenaOptions, arenaBytes } from "./arena.ts";
import { Compaction, isWorthCompacting } from "./compaction.ts";
import { Merge } from "./merge.ts";
import { type Leisure, toMerge } from "./merge-choice.ts";
import type { OwnedParts } from "./posting-parts.ts";
import { Segment, type SegmentState } from "./segment.ts";
import type { ImpactOf } from "./segment-writer.ts";

export type SegmentSetOptions = ArenaOptions & {
  /** The contribution of a posting at weight 1, by the average length of texts. */
  readonly impactOf: (averageLength: number) => ImpactOf;
  /** Called when one more segment or buffer has postings of a term, and when one fewer has. */
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

  /** Appends a segment after all others. */
  append(segment: Segment): void {
    this.#replace([], segment);
  }

  /** Replaces its sources by a segment, or appends it after all others. */
  #replace(sources: readonly Segment[], segment: Segment | undefined): void {
    const { onTermUsed, onTermUnused } = this.#options;
    const { segments } = this.#parts;
    this.#compaction = undefined;
    const at = sources.length === 0 ? segments.length : segments.indexOf(sources[0]);
    const isAny = segment !== undefined && segment.count > 0;
    if (isAny && onTermUsed) for (const term of segment.terms) onTermUsed(term);
    this.#parts.layout++;
    segments.splice(at, sources.length, ...(isAny ? [segment] : []));
    if (segment !== undefined && !isAny) segment.free();
    for (const source of sources) {
      if (onTermUnused) for (const term of source.terms) onTermUnused(term);
      if (this.#saving.includes(source)) this.#freedLater.push(source);
      else this.#free(source);
    }
  }

  /** Frees a segment that is not one of the index any more. Compaction drops whole arenas, which threads keep that read them. */
  #free(segment: Segment): void {
    const { retire } = this.#options;
    if (retire) retire(() => segment.free());
    else segment.free();
  }

  /** Removes a record that a segment has. */
  remove(segment: Segment, ordinal: number): void {
    segment.remove(segment.recordOf(ordinal));
    if (this.#merge?.sources.includes(segment)) this.#merge.remove(ordinal);
    else if (segment.count === 0) this.#replace([segment], undefined);
    else if (this.#merge === undefined) this.beginMerge();
  }

  /** Starts a worthwhile merge if none is running. */
  beginMerge(leisure: Leisure = "busy"): void {
    if (this.#merge !== undefined) return;
    const { impactOf, segmentPostingsMax = segmentPostings } = this.#options;
    const sources = toMerge(this.#parts.segments, segmentPostingsMax, leisure);
    if (sources === undefined || (leisure === "resting" && !this.#mayMerge(sources))) return;
    this.#compaction = undefined;
    // Without memory for a merge, searches continue to use the segments as they are.
    this.#merge = this.inArena((arena) =>
      Merge.begin(arena, sources, this.averageLength, impactOf(this.averageLength)),
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
    if (!this.#merge.step(postings)) return true;
    const { sources } = this.#merge;
    failpoint("merge:done");
    const merged = this.#merge.finish();
    this.#merge = undefined;
    this.#replace(sources, merged);
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
  ): Promise<void> {
    const rooms = states.map((state) => {
      const room = this.inArena((arena) => Segment.makeRoom(arena, state));
      invariant(room !== undefined, "there is no memory for a segment of the checkpoint");
      return room;
    });
    await load(rooms.map(({ image }) => image));
    for (const { arena, at } of rooms) this.append(Segment.restored(arena, at));
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
