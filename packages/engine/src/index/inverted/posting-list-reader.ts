// Where are the postings of the newest records stored?
//
// A posting is a record's slot (see mutable-buffer.ts) and a number: a weight (f32) of a sparse vector, or how often a
// term occurs (u32). The postings of one dimension or term are a *list*, in the order in which they were appended. There
// are many lists and most are short, so a list is no object: all share one pool of typed arrays, in which a list is a
// chain of *slices*:
//
//   slots | next slice | slot | slot | ... |        values | number of slice | value | value | ... |
//
// Slice i of a list takes 4 * 2^min(floor(i / 2), 10) places, header included, so that at most a third of a long list
// is unused. A position is chunk * 65,536 + place in
// the chunk; no slice crosses chunks. The scheme is that of in-memory inversion with linked blocks (Zobel and Moffat,
// Inverted Files for Text Search Engines, ACM Computing Surveys 38(2), 2006, section 5) with sizes after Lucene's.
//
// A slot is stored as the next greater number: 0 is a place that was never written.
//
// Other threads read lists while postings are appended (lists.ts). Chunks and columns lie in shared memory, nothing that was
// written is written again but the link from a last slice to the next one, and what grows is replaced. A thread was told how many
// slots there are; all postings of these slots were written before. The walk of a list may read anything behind them, for the
// thread does not wait for the writer: a length that is too great, a link to a slice that is not written yet, to a chunk that it
// does not have, or to a slice that is still linked as free. All that it can find there are zeros and slots that come later, for
// no slice is used twice, and a slice that is taken later leads to others that are. So what it finds is cut off at the first slot that
// it was not told of.

import { invariant } from "../../base/invariant.ts";
import type { ArrayClass } from "../../base/shared-memory.ts";

/** Of postings. */
export type Values = Float32Array | Uint32Array;

/** No slice: the end of a chain. */
export const none = -1;

/** A position is the number of its chunk and, in the lowest of these bits, its place there. */
export const chunkBits = 16;
export const chunkLength = 1 << chunkBits;
export const chunkMask = chunkLength - 1;
/** Sizes of slices: all from the 20th of a list on have the greatest. */
export const sizeClasses = 11;

/** A link to a slice is the next greater number: 0, as in places that were never written, leads nowhere. */
export const linkTo = (slice: number): number => slice + 1;
/** The slice that a link leads to. */
export const sliceAt = (link: number): number => link - 1;

/** The size class of the slice of this number in its list. */
export const sizeClassOf = (slice: number): number => Math.min(slice >> 1, sizeClasses - 1);
/** Places of a slice, its header included. */
export const sliceLength = (sizeClass: number): number => 4 << sizeClass;

/** A list as returned by `read`: the first `count` entries of both arrays, valid until the next call. */
export type PostingsRead<V extends Values> = {
  count: number;
  slots: Uint32Array;
  values: V;
};

/** What another thread needs to read lists. Can be posted to it. */
export type SharedPostings<V extends Values> = {
  readonly slots: readonly Uint32Array[];
  readonly values: readonly V[];
  readonly heads: Uint32Array;
  readonly counts: Uint32Array;
};

/** Lists of postings, for reading. */
export class PostingListReader<V extends Values> {
  protected readonly slots: Uint32Array[];
  protected readonly values: V[];
  // Of each list: its first slice, and its length.
  protected readonly heads: { readonly values: Uint32Array };
  protected readonly counts: { readonly values: Uint32Array };
  readonly #make: ArrayClass<V> & (new (length: number) => V);
  readonly #read: PostingsRead<V>;

  protected constructor(
    make: ArrayClass<V> & (new (length: number) => V),
    columns: {
      slots: Uint32Array[];
      values: V[];
      heads: { readonly values: Uint32Array };
      counts: { readonly values: Uint32Array };
    },
  ) {
    this.#make = make;
    this.slots = columns.slots;
    this.values = columns.values;
    this.heads = columns.heads;
    this.counts = columns.counts;
    this.#read = { count: 0, slots: new Uint32Array(64), values: new make(64) };
  }

  /** The lists of another thread. */
  static attach<V extends Values>(
    make: ArrayClass<V> & (new (length: number) => V),
    { slots, values, heads, counts }: SharedPostings<V>,
  ): PostingListReader<V> {
    invariant(
      slots.length === values.length,
      () => `lists have ${slots.length} chunks of slots, and ${values.length} of values`,
    );
    return new PostingListReader(make, {
      slots: [...slots],
      values: [...values],
      heads: { values: heads },
      counts: { values: counts },
    });
  }

  /**
   * Copies the postings of slots below `slotsEnd` out of a list, so that loops over it have plain arrays. The answer is overwritten by
   * the next call.
   */
  read(list: number, slotsEnd: number): PostingsRead<V> {
    const read = this.#read;
    const most = this.counts.values[list] ?? 0;
    if (read.slots.length < most) {
      const capacity = Math.max(most, 2 * read.slots.length);
      read.slots = new Uint32Array(capacity);
      read.values = new this.#make(capacity);
    }
    let done = 0;
    let number = 0;
    let slice = most === 0 ? none : sliceAt(this.heads.values[list]);
    while (slice !== none && done < most && slice >>> chunkBits < this.slots.length) {
      const from = (slice & chunkMask) + 1;
      const slots = this.slots[slice >>> chunkBits];
      const values = this.values[slice >>> chunkBits];
      const capacity = sliceLength(sizeClassOf(number++)) - 1;
      const length = Math.min(capacity, most - done, slots.length - from);
      // Slices are short, and a view of one takes longer to make than it takes to copy.
      for (let i = 0; i < length; i++) {
        read.slots[done + i] = slots[from + i] - 1;
        read.values[done + i] = values[from + i];
      }
      if (length <= 0) break;
      done += length;
      slice = sliceAt(slots[from - 1]);
    }
    // What is behind the first slot that comes later, or was never written, are such slots.
    while (done > 0 && read.slots[done - 1] >= slotsEnd) done--;
    read.count = done;
    return read;
  }

  protected get readBytes(): number {
    return 2 * this.#read.slots.byteLength;
  }
}
