// Where do segments lie, and where is the scratch memory of a search?
//
// In one shared WebAssembly memory, so that the kernel reaches all of it. Allocation is first fit: allocations are few (one for each
// segment) and large. A memory ends at 4 GiB; then the index opens another arena.
//
// Memory only grows. Views of a shared memory stay valid when it grows, but do not cover the new part: read `bytes` and the other
// views again after an allocation. Threads with a reader slot let it grow too, for scratch memory of their own (segment-memory.ts).

import { pageBytes, pagesMax } from "@quiverdb/kernels/loader";
import { candidatesBytes, recordSumsBytes, segmentRecordsMax } from "@quiverdb/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import { nextMemoryId } from "../../base/shared-memory.ts";
import {
  align,
  firstAllocationAt,
  fixedFields,
  hiddenBytes,
  ownerScratchAt,
  SegmentMemory,
  type SharedArena,
  termFields,
} from "./segment-memory.ts";

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

/** Bytes of an arena with segments of these lengths. */
export function arenaBytes(segments: readonly number[]): number {
  let bytes = firstAllocationAt + align(hiddenBytes);
  for (const length of [...Object.values(fixedFields), ...segments]) bytes += align(length);
  return Math.ceil(bytes / pageBytes) * pageBytes;
}

export class Arena extends SegmentMemory {
  readonly #pagesMax: number;
  readonly #debug: boolean;
  readonly #id = nextMemoryId();
  /** What is free below the top, by place; no two touch. */
  readonly #gaps: Allocation[] = [];
  readonly #taken = new Map<number, number>();
  readonly hiddenAt: number;
  #top = firstAllocationAt;
  /** Where the memory ends that the owner has let it grow to. What is behind belongs to other threads. */
  #end = pageBytes;
  #termsMax = 0;
  #heapMax = 0;
  #recordsMax = 0;

  constructor({ memoryBytesMax = pagesMax * pageBytes, debug = false }: ArenaOptions = {}) {
    const maximum = Math.min(pagesMax, Math.floor(memoryBytesMax / pageBytes));
    super(new WebAssembly.Memory({ initial: 1, maximum, shared: true }), debug);
    this.#pagesMax = maximum;
    this.#debug = debug;
    for (const [field, bytes] of Object.entries(fixedFields))
      this.setField(field as keyof typeof fixedFields, this.#mustAllocate(bytes));
    this.hiddenAt = this.#mustAllocate(hiddenBytes);
  }

  /** What another thread needs to search it. */
  get shared(): SharedArena {
    return { id: this.#id, memory: this.memory, debug: this.#debug };
  }

  get scratch(): number {
    return ownerScratchAt;
  }

  get memoryBytes(): number {
    return this.memory.buffer.byteLength;
  }

  /** Bytes of what lies in it. */
  get takenBytes(): number {
    let bytes = firstAllocationAt + this.memoryBytes - this.#end;
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
      if (!this.#reach(wanted, topMax)) return undefined;
      at = this.#top;
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
      for (const [field, bytes] of Object.entries(termFields))
        if (!this.#replace(field as keyof typeof termFields, bytes * length)) return false;
      this.#termsMax = length;
    }
    if (k > this.#heapMax) {
      const length = Math.max(64, k);
      if (!this.#replace("heap", 8 * length)) return false;
      this.#heapMax = length;
    }
    return true;
  }

  /** Allocates room for the sums of a segment of the given number of records. @returns whether there is room */
  reserveRecords(records: number): boolean {
    if (records <= this.#recordsMax) return true;
    const length = Math.min(segmentRecordsMax, 2 * records);
    // If only one of the two gets its memory, neither is used.
    this.#recordsMax = 0;
    const sumsBytes = recordSumsBytes(length);
    if (!this.#replace("recordSums", sumsBytes) || !this.#replace("touched", candidatesBytes(length)))
      return false;
    const sumsAt = this.field("recordSums");
    this.bytes.fill(0, sumsAt, sumsAt + sumsBytes);
    this.#recordsMax = length;
    return true;
  }

  check(): void {
    const allocations = [...this.#gaps, ...[...this.#taken].map(([at, bytes]) => ({ at, bytes }))];
    allocations.sort((a, b) => a.at - b.at);
    let end = firstAllocationAt;
    for (const { at, bytes } of allocations) {
      invariant(at === end, `the allocation at ${at} does not begin where the one before ends, ${end}`);
      end += bytes;
    }
    invariant(end === this.#top && end <= this.#end, `allocations end at ${end}, the top is ${this.#top}`);
  }

  #replace(name: Reserved, bytes: number): boolean {
    const at = this.#take(bytes);
    if (at === undefined) return false;
    const before = this.field(name);
    if (before !== 0) this.free(before);
    this.setField(name, at);
    return true;
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

  /** Makes sure that so many bytes are there behind the top, and end at `topMax` at most. */
  #reach(bytes: number, topMax: number): boolean {
    for (;;) {
      const end = this.#top + bytes;
      if (end > topMax) return false;
      if (end <= this.#end) return true;
      const pages = Math.ceil((end - this.#end) / pageBytes);
      const begin = this.grow(pages);
      if (begin === undefined) return false;
      this.look();
      if (begin > this.#end) this.#leaveOut(this.#end, begin);
      this.#end = begin + pages * pageBytes;
    }
  }

  /** Pages that another thread has let the memory grow by stay its own: allocations go on behind them. */
  #leaveOut(from: number, to: number): void {
    const gap = { at: this.#top, bytes: from - this.#top };
    this.#taken.set(from, to - from);
    this.#top = to;
    this.#release(gap);
  }
}
