// How does another thread read the postings of an index?
//
// The owner describes its parts as they are at a moment (`sharedParts`), and posts that. What the thread attaches to them does not
// change: the segments and how many of their records were removed, the slots of the mutable buffers, the retired records.
//
//   owner          describe: D ----- add, retire, remove, freeze, merge, compact ----- describe: D'
//   other thread       \---> attach D: searches ..................................         \---> attach D': only what is new
//
// A thread that has pinned an epoch may search by every description that was made in it. What happens in the owner's thread meanwhile
// does not concern it:
//   - A record that is added later is in no part that was described, or in a slot that was not counted.
//   - A record that is removed later is seen by no version that is pinned (contract.ts, `visible`). For the reader it is held, and hidden.
//     So the records that count for a term are those of its lists, without those that were removed by the description, and without those
//     that `visible` hides: exactly those of the version, whenever the thread looks.
//   - A segment that is merged into another is freed when no epoch is pinned that began before (`retire`). Memories that are given up
//     as a whole, and everything outside of arenas, live as long as a thread refers to them.
//
// A thread keeps what it has made of arenas and segments (views, kernels, scratch memory) for as long as a reader of the index is in
// use. Of a segment that it knows it takes over only the removals that are new, into bits of its own for each description.

import type { Column } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { attachOnce } from "../../base/shared-memory.ts";
import type { BufferLists, Values } from "./buffer-lists.ts";
import { BufferReader, bufferLists, type SharedBuffer } from "./mutable-buffer.ts";
import { type OwnedParts, PostingParts } from "./posting-parts.ts";
import { PostingReader } from "./posting-reader.ts";
import { PostingSearcher } from "./posting-search.ts";
import { FullScorer } from "./score-all.ts";
import { ArenaReader, type SharedArena } from "./segment-memory.ts";
import { SegmentReader, type SharedSegment } from "./segment-reader.ts";

/** Parts as they are at a moment. Can be posted to another thread. */
export type SharedParts = {
  readonly id: number;
  readonly isText: boolean;
  readonly hadNegative: boolean;
  readonly arenas: readonly SharedArena[];
  /** Each with the number of its arena. */
  readonly segments: readonly (SharedSegment & { readonly arena: number })[];
  readonly buffers: readonly SharedBuffer[];
  readonly retired: Column;
};

/** What another thread needs to read the parts as they are now. */
export function sharedParts(id: number, parts: OwnedParts): SharedParts {
  const arenas = [...new Set(parts.segments.map(({ arena }) => arena))];
  return {
    id,
    isText: parts.isText,
    hadNegative: parts.hadNegative,
    arenas: arenas.map(({ shared }) => shared),
    segments: parts.segments.map(({ arena, shared }) => ({ ...shared, arena: arenas.indexOf(arena) })),
    // An empty buffer has nothing to be found.
    buffers: parts.buffers.filter(({ slotsEnd }) => slotsEnd > 0).map(({ shared }) => shared),
    retired: parts.retired.shared,
  };
}

/** What a thread has made of an index's arenas and segments. */
class KnownParts {
  readonly scorer = new FullScorer();
  /** By number. */
  #segments = new Map<number, SegmentReader>();
  #buffers = new Map<number, BufferLists<Values>>();

  attachBuffers({ buffers, isText }: SharedParts): BufferReader[] {
    const made = new Map(
      buffers.map(({ number }) => [number, this.#buffers.get(number) ?? bufferLists(isText)]),
    );
    this.#buffers = made;
    return buffers.map((shared) =>
      BufferReader.attach(shared, made.get(shared.number) as BufferLists<Values>),
    );
  }

  attachSegments(
    { arenas: sharedArenas, segments: sharedSegments }: SharedParts,
    slot: number,
  ): SegmentReader[] {
    const arenas = sharedArenas.map((shared) =>
      attachOnce(shared.id, slot, () => new ArenaReader(shared, slot)),
    );
    const segments = new Map<number, SegmentReader>();
    for (const shared of sharedSegments) {
      const arena = arenas[shared.arena];
      invariant(arena !== undefined, () => `a segment lies in arena ${shared.arena} of ${arenas.length}`);
      arena.refresh(shared.at + shared.bytes);
      segments.set(shared.number, SegmentReader.attach(arena, shared, this.#segments.get(shared.number)));
    }
    this.#segments = segments;
    const all = [...segments.values()];
    for (let i = 1; i < all.length; i++)
      invariant(
        all[i - 1].lastOrdinal < all[i].firstOrdinal,
        () => `a segment from ${all[i].firstOrdinal} on follows one up to ${all[i - 1].lastOrdinal}`,
      );
    return all;
  }
}

/** What searches of an index in another thread go through. */
export type AttachedPostings = {
  readonly reader: PostingReader;
  readonly searcher: PostingSearcher;
  /** Kept for the readers that are attached next. */
  readonly known: object;
};

/** @param slot of the thread */
export function attachPostings(shared: SharedParts, slot: number): AttachedPostings {
  const known = attachOnce(shared.id, slot, () => new KnownParts());
  const { isText, hadNegative, retired } = shared;
  const buffers = known.attachBuffers(shared);
  const segments = known.attachSegments(shared, slot);
  const end = (segments.at(-1)?.lastOrdinal ?? -1) + 1;
  for (const { ordinals } of buffers)
    invariant(
      ordinals.values[0] >= end,
      () => `a buffer has records from ${ordinals.values[0]} on, and segments up to ${end}`,
    );
  const parts = new PostingParts(isText, segments, buffers, { log: retired });
  parts.hadNegative = hadNegative;
  const reader = new PostingReader(parts);
  return { reader, searcher: new PostingSearcher(parts, reader, known.scorer), known };
}
