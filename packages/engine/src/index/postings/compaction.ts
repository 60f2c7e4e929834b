// How does an index free the memory that merges and removals leave behind?
//
// A WebAssembly memory never shrinks, so the segments are copied into new arenas that they fill, a bounded piece at a time, while
// searches go on in the old ones; then the old arenas are dropped whole. The owner of a compaction drops it when the segments
// change meanwhile, but for removals: the bits of removed records are copied last.

import type { Arena } from "./arena.ts";
import { Segment } from "./segment.ts";

/** Less than this, and less than this share of the arenas, is not worth the copying. */
const wasteBytesMin = 128 * 1024;
const wasteShare = 1 / 16;

/** Whether the arenas waste enough memory to be worth copying. */
export function isWorthCompacting(arenas: readonly Arena[]): boolean {
  const bytes = arenas.reduce((sum, arena) => sum + arena.memoryBytes, 0);
  const taken = arenas.reduce((sum, arena) => sum + arena.takenBytes, 0);
  return bytes - taken > Math.max(wasteBytesMin, wasteShare * bytes);
}

export class Compaction {
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
