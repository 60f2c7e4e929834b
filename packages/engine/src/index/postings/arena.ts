// Where do segments lie, and where is the scratch memory of a search?
//
// In one shared WebAssembly memory, so that the kernel reaches all of it. Allocation is first fit: allocations are few (one for each
// segment) and large. A memory ends at 4 GiB; then the index opens another arena.
//
// Memory only grows. Views of a shared memory stay valid when it grows, but do not cover the new part: read `bytes` and the other
// views again after an allocation.

import { pageBytes, pagesMax } from "@quiver/kernels/loader";
import {
  foundBytes,
  instantiatePostings,
  type PostingsKernels,
  queryTermBytes,
  scratch,
  scratchBytes,
  segmentRecordsMax,
  termBytes,
  windowRecords,
} from "@quiver/kernels/postings";
import { invariant } from "../../base/invariant.ts";

export type ArenaOptions = {
  /** At most 4 GiB; less for tests. */
  readonly memoryBytesMax?: number;
  /** With assertions in the kernel. */
  readonly debug?: boolean;
};

/** A range of memory. */
type Allocation = { at: number; bytes: number };

/** Fields that point to memory whose size depends on the query. */
type Reserved = "terms" | "order" | "sorted" | "query" | "heap" | "recordSums" | "touched";

const align = (bytes: number, to = 64): number => Math.ceil(bytes / to) * to;

/** Where the scratch memory of searches lies; offset 0 stands for "none". */
const scratchAt = 64;

/** Bytes of an arena with segments of these lengths. */
export function arenaBytes(segments: readonly number[]): number {
  const fixed = [
    scratchAt + scratchBytes,
    4 * windowRecords,
    windowRecords / 8,
    2 * windowRecords * foundBytes,
  ];
  let bytes = align(segmentRecordsMax / 8);
  for (const length of [...fixed, ...segments]) bytes += align(length);
  return Math.ceil(bytes / pageBytes) * pageBytes;
}

export class Arena {
  readonly kernels: PostingsKernels;
  bytes: Uint8Array;
  halves: Uint16Array;
  words: Uint32Array;
  floats: Float32Array;
  doubles: Float64Array;
  readonly #memory: WebAssembly.Memory;
  readonly #pagesMax: number;
  /** Free gaps below the top, by offset; no two are adjacent. */
  readonly #gaps: Allocation[] = [];
  readonly #taken = new Map<number, number>();
  /** One bit for each record of a segment: a search sets the bits of the records that it must not find. */
  readonly hiddenAt: number;
  #top = align(scratchAt + scratchBytes);
  #termsMax = 0;
  #heapMax = 0;
  #recordsMax = 0;

  constructor({ memoryBytesMax = pagesMax * pageBytes, debug = false }: ArenaOptions = {}) {
    this.#pagesMax = Math.min(pagesMax, Math.floor(memoryBytesMax / pageBytes));
    this.#memory = new WebAssembly.Memory({ initial: 1, maximum: this.#pagesMax, shared: true });
    this.kernels = instantiatePostings(this.#memory, { debug });
    this.bytes = new Uint8Array(0);
    this.halves = new Uint16Array(0);
    this.words = new Uint32Array(0);
    this.floats = new Float32Array(0);
    this.doubles = new Float64Array(0);
    this.#look();
    const fixed = [
      ["sums", 4 * windowRecords],
      ["marks", windowRecords / 8],
      ["found", 2 * windowRecords * foundBytes],
    ] as const;
    for (const [field, bytes] of fixed) this.#setField(field, this.#mustAllocate(bytes));
    this.hiddenAt = this.#mustAllocate(segmentRecordsMax / 8);
  }

  /** The scratch memory of searches. */
  get scratch(): number {
    return scratchAt;
  }

  get memoryBytes(): number {
    return this.bytes.byteLength;
  }

  /** Bytes of what lies in it. */
  get takenBytes(): number {
    let bytes = align(scratchAt + scratchBytes);
    for (const taken of this.#taken.values()) bytes += taken;
    return bytes;
  }

  /**
   * Allocates a segment of the given size, aligned to 64 and not cleared; undefined if the memory is full, of which a sixteenth is reserved
   * for searches.
   */
  allocate(bytes: number): number | undefined {
    return this.#take(bytes, Math.floor((this.#pagesMax * pageBytes * 15) / 16));
  }

  #take(bytes: number, topMax = this.#pagesMax * pageBytes): number | undefined {
    const wanted = align(Math.max(1, bytes));
    const number = this.#gaps.findIndex((gap) => gap.bytes >= wanted);
    let at = this.#top;
    if (number >= 0) {
      const gap = this.#gaps[number];
      at = gap.at;
      gap.at += wanted;
      gap.bytes -= wanted;
      if (gap.bytes === 0) this.#gaps.splice(number, 1);
    } else {
      if (at + wanted > topMax || !this.#reach(at + wanted)) return undefined;
      this.#top += wanted;
    }
    this.#taken.set(at, wanted);
    return at;
  }

  /** Frees the part of an allocation after its first `bytes` bytes. */
  shrink(at: number, bytes: number): void {
    const taken = this.#taken.get(at);
    const kept = align(Math.max(1, bytes));
    invariant(taken !== undefined && kept <= taken, `no allocation of ${bytes} bytes or more at ${at}`);
    this.#taken.set(at, kept);
    this.#release({ at: at + kept, bytes: taken - kept });
  }

  free(at: number): void {
    const bytes = this.#taken.get(at);
    invariant(bytes !== undefined, `there is no allocation at ${at} to free`);
    this.#taken.delete(at);
    this.#release({ at, bytes });
  }

  /** Allocates room for a search of the given number of terms and the k best. @returns whether there is room */
  reserve(terms: number, k: number): boolean {
    if (terms > this.#termsMax) {
      const length = Math.max(16, 2 * terms);
      const sizes = { terms: termBytes, order: 4, sorted: 4, query: queryTermBytes };
      for (const [field, bytes] of Object.entries(sizes))
        if (!this.#replace(field as keyof typeof sizes, bytes * length)) return false;
      this.#termsMax = length;
    }
    if (k > this.#heapMax) {
      const length = Math.max(64, k);
      if (!this.#replace("heap", 8 * length)) return false;
      this.#heapMax = length;
    }
    return true;
  }

  /** Allocates room for gathering from a segment of the given number of records. @returns whether there is room */
  reserveRecords(records: number): boolean {
    if (records <= this.#recordsMax) return true;
    const length = Math.min(segmentRecordsMax, 2 * records);
    if (!this.#replace("recordSums", 4 * length) || !this.#replace("touched", 2 * (length + 1))) return false;
    this.floats.fill(0, this.field("recordSums") >>> 2, (this.field("recordSums") >>> 2) + length);
    this.#recordsMax = length;
    return true;
  }

  /** The value of a field of the scratch memory. */
  field(name: keyof typeof scratch): number {
    return this.words[(scratchAt + scratch[name]) >>> 2];
  }

  check(): void {
    const allocations = [...this.#gaps, ...[...this.#taken].map(([at, bytes]) => ({ at, bytes }))];
    allocations.sort((a, b) => a.at - b.at);
    let end = align(scratchAt + scratchBytes);
    for (const { at, bytes } of allocations) {
      invariant(at === end, `the allocation at ${at} does not begin where the one before ends, ${end}`);
      end += bytes;
    }
    invariant(
      end === this.#top && end <= this.bytes.length,
      `allocations end at ${end}, the top is ${this.#top}`,
    );
  }

  #replace(name: Reserved, bytes: number): boolean {
    const at = this.#take(bytes);
    if (at === undefined) return false;
    const before = this.field(name);
    if (before !== 0) this.free(before);
    this.#setField(name, at);
    return true;
  }

  #setField(name: keyof typeof scratch, value: number): void {
    this.words[(scratchAt + scratch[name]) >>> 2] = value;
  }

  #mustAllocate(bytes: number): number {
    const at = this.#take(bytes);
    invariant(at !== undefined, `an arena of ${this.#pagesMax} pages has no room for a search`);
    return at;
  }

  #release(allocation: Allocation): void {
    if (allocation.bytes === 0) return;
    let number = this.#gaps.findIndex((gap) => gap.at > allocation.at);
    if (number < 0) number = this.#gaps.length;
    this.#gaps.splice(number, 0, allocation);
    this.#join(number);
    this.#join(number - 1);
    const last = this.#gaps.at(-1);
    if (last === undefined || last.at + last.bytes < this.#top) return;
    this.#top = last.at;
    this.#gaps.pop();
  }

  /** Merges a gap with the next one if they are adjacent. */
  #join(number: number): void {
    const [gap, next] = this.#gaps.slice(Math.max(0, number), number + 2);
    if (number < 0 || next === undefined || gap.at + gap.bytes < next.at) return;
    gap.bytes += next.bytes;
    this.#gaps.splice(number + 1, 1);
  }

  /** Lets the memory grow up to an end. */
  #reach(end: number): boolean {
    const missing = Math.ceil((end - this.bytes.length) / pageBytes);
    if (missing <= 0) return true;
    if (this.bytes.length / pageBytes + missing > this.#pagesMax) return false;
    try {
      this.#memory.grow(missing);
    } catch (error) {
      // The system has no more memory: treated as full.
      if (error instanceof RangeError) return false;
      throw error;
    }
    this.#look();
    return true;
  }

  #look(): void {
    const { buffer } = this.#memory;
    this.bytes = new Uint8Array(buffer);
    this.halves = new Uint16Array(buffer);
    this.words = new Uint32Array(buffer);
    this.floats = new Float32Array(buffer);
    this.doubles = new Float64Array(buffer);
  }
}
