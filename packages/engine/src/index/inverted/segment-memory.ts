// Through what does a thread search the segments of an arena?
//
// The kernel needs scratch memory beside the segments, in the same memory: fields, sums, what was found. Each thread that searches has
// its own. The owner takes it from the arena like the segments (arena.ts).
//
// A thread with a reader slot cannot ask the owner for it. It lets the memory grow, which is atomic, and the new pages are its own: the
// owner finds out when it next grows the memory, and leaves them alone. A table at the arena's beginning says which pages a slot has, so
// that the next thread with the slot takes them over. There are two ranges: the first one is taken when a thread first searches the
// arena, the second one when it first adds postings up, or for many terms or results. It is as large as nearly any search needs; one that
// needs more gets another range of twice the size, and the one before is lost until the arena goes.
//
// Views of a shared memory stay valid when it grows, but do not cover the new part.

import { pageBytes } from "@quiverdb/kernels/loader";
import {
  candidatesBytes,
  foundBytes,
  instantiatePostings,
  type PostingsKernels,
  queryTermBytes,
  recordSumsBytes,
  scratch,
  scratchBytes,
  segmentRecordsMax,
  termBytes,
  windowRecords,
} from "@quiverdb/kernels/postings";
import { limits } from "@quiverdb/protocol/limits";
import { invariant } from "../../base/invariant.ts";

/** An arena as other threads see it. Can be posted to them. */
export type SharedArena = {
  readonly id: number;
  readonly memory: WebAssembly.Memory;
  readonly debug: boolean;
};

export const align = (bytes: number, to = 64): number => Math.ceil(bytes / to) * to;

/** Where the fields of the owner's scratch memory lie; offset 0 stands for "none". */
export const ownerScratchAt = 64;

/** The table of the reader slots, u32: where both ranges begin, 0 for none, and for how many terms and results the second one is. */
const slotTableAt = align(ownerScratchAt + scratchBytes);
const slotEntry = { small: 0, large: 1, terms: 2, k: 3 } as const;
const slotWords = 4;

/** Reading threads besides the owner, whose slots are from 1 on. */
export const readerSlotsMax = 63;

/** Where allocations begin. */
export const firstAllocationAt = align(slotTableAt + 4 * slotWords * (readerSlotsMax + 1));

/** What every search needs. */
export const fixedFields = {
  sums: 4 * windowRecords,
  marks: windowRecords / 8,
  found: 2 * windowRecords * foundBytes,
} as const;

/** Bits of the records that a search must not find. */
export const hiddenBytes = segmentRecordsMax / 8;

/** Bytes that each term of a search needs. */
export const termFields = { terms: termBytes, order: 4, sorted: 4, query: queryTermBytes } as const;

/** The views and the scratch memory of a thread. */
export abstract class SegmentMemory {
  bytes: Uint8Array = new Uint8Array(0);
  halves: Uint16Array = new Uint16Array(0);
  words: Uint32Array = new Uint32Array(0);
  floats: Float32Array = new Float32Array(0);
  doubles: Float64Array = new Float64Array(0);
  readonly kernels: PostingsKernels;
  readonly memory: WebAssembly.Memory;
  /** Where the fields of the thread's scratch memory lie. */
  abstract readonly scratch: number;
  /** One bit for each record of a segment: a search sets the bits of the records that it must not find. */
  abstract readonly hiddenAt: number;

  constructor(memory: WebAssembly.Memory, debug: boolean) {
    this.memory = memory;
    this.kernels = instantiatePostings(memory, { debug });
    this.look();
  }

  /** Makes room for a search of so many terms and the k best. @returns whether there is any */
  abstract reserve(terms: number, k: number): boolean;

  /** Makes room for the sums of a segment of so many records. @returns whether there is any */
  abstract reserveRecords(records: number): boolean;

  /** The value of a field of the scratch memory. */
  field(name: keyof typeof scratch): number {
    return this.words[(this.scratch + scratch[name]) >>> 2];
  }

  protected setField(name: keyof typeof scratch, value: number): void {
    this.words[(this.scratch + scratch[name]) >>> 2] = value;
  }

  /** Makes views of the whole memory. */
  protected look(): void {
    const { buffer } = this.memory;
    this.bytes = new Uint8Array(buffer);
    this.halves = new Uint16Array(buffer);
    this.words = new Uint32Array(buffer);
    this.floats = new Float32Array(buffer);
    this.doubles = new Float64Array(buffer);
  }

  /** Lets the memory grow by so many pages. @returns where they begin; undefined where there are no more */
  protected grow(pages: number): number | undefined {
    try {
      return this.memory.grow(pages) * pageBytes;
    } catch (error) {
      // The memory is as large as it may be, or the system has no more to give.
      if (error instanceof RangeError) return undefined;
      throw error;
    }
  }
}

/** Terms and results that there is room for in the first range of a reader slot. */
const smallTerms = 64;
const smallK = 1_024;

const termsBytes = (terms: number): number =>
  Object.values(termFields).reduce((sum, bytes) => sum + align(bytes * terms), 0);

const smallBytes =
  align(scratchBytes) +
  Object.values(fixedFields).reduce((sum, bytes) => sum + align(bytes), 0) +
  align(hiddenBytes) +
  termsBytes(smallTerms) +
  align(8 * smallK);

/** ... in the second one, at least. */
const largeTerms = 2_048;
const largeK = 2 * limits.topKMax;

const largeBytes = (terms: number, k: number): number =>
  termsBytes(terms) + align(8 * k) + recordSumsBytes(segmentRecordsMax) + candidatesBytes(segmentRecordsMax);

/** An arena of another thread, which a thread with a reader slot searches. */
export class ArenaReader extends SegmentMemory {
  readonly scratch: number;
  readonly hiddenAt: number;
  /** The first word of the slot's entry in the table. Only the thread that has the slot reads or writes it. */
  readonly #entry: number;
  #terms = smallTerms;
  #k = smallK;
  #hasRecords = false;

  constructor({ memory, debug }: SharedArena, slot: number) {
    super(memory, debug);
    invariant(slot >= 1 && slot <= readerSlotsMax, `an arena has no reader slot ${slot}`);
    this.#entry = slotTableAt / 4 + slotWords * slot;
    const range = this.#range("small", smallBytes);
    invariant(range !== undefined, "there is no memory for the searches of another thread");
    this.scratch = range;
    let at = range + align(scratchBytes);
    for (const [field, bytes] of Object.entries(fixedFields)) {
      this.setField(field as keyof typeof fixedFields, at);
      at += align(bytes);
    }
    this.hiddenAt = at;
    this.setField("heap", this.#setTerms(at + align(hiddenBytes), smallTerms));
  }

  /** Makes the views cover what the owner has put there until now. @param end where that ends, at most */
  refresh(end: number): void {
    if (this.bytes.length >= end) return;
    // Growing by nothing tells this thread of what the owner has grown.
    this.grow(0);
    this.look();
    invariant(
      this.bytes.length >= end,
      () => `an arena of ${this.bytes.length} bytes was described with something up to ${end}`,
    );
  }

  reserve(terms: number, k: number): boolean {
    return (terms <= this.#terms && k <= this.#k) || this.#enlarge(terms, k);
  }

  reserveRecords(): boolean {
    return this.#hasRecords || this.#enlarge(0, 0);
  }

  #enlarge(terms: number, k: number): boolean {
    const [termsAt, kAt] = [this.#entry + slotEntry.terms, this.#entry + slotEntry.k];
    let [termsMax, kMax] = [this.words[termsAt], this.words[kAt]];
    if (termsMax === 0 || terms > termsMax || k > kMax) {
      termsMax = Math.max(largeTerms, terms > termsMax ? 2 * terms : termsMax);
      kMax = Math.max(largeK, k, kMax);
      this.words[this.#entry + slotEntry.large] = 0;
      this.words[termsAt] = termsMax;
      this.words[kAt] = kMax;
    }
    const range = this.#range("large", largeBytes(termsMax, kMax));
    if (range === undefined) return false;
    let at = this.#setTerms(range, termsMax);
    this.setField("heap", at);
    at += align(8 * kMax);
    this.setField("recordSums", at);
    at += recordSumsBytes(segmentRecordsMax);
    this.setField("touched", at);
    [this.#terms, this.#k, this.#hasRecords] = [termsMax, kMax, true];
    return true;
  }

  #setTerms(from: number, terms: number): number {
    let at = from;
    for (const [field, bytes] of Object.entries(termFields)) {
      this.setField(field as keyof typeof termFields, at);
      at += align(bytes * terms);
    }
    return at;
  }

  /** A range of the slot, all zeros: a thread that has died may have left anything there. */
  #range(name: "small" | "large", bytes: number): number | undefined {
    const entry = this.#entry + slotEntry[name];
    let at: number | undefined = this.words[entry];
    if (at === 0) {
      at = this.grow(Math.ceil(bytes / pageBytes));
      if (at === undefined) return undefined;
      this.words[entry] = at;
    }
    invariant(at % pageBytes === 0, `the table of the reader slots has a range at ${at}`);
    this.refresh(at + bytes);
    this.bytes.fill(0, at, at + bytes);
    return at;
  }
}
