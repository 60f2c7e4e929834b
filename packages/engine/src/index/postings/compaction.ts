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
  readonly #rooms: { readonly arena: Arena; readonly at: number }[] = [];
  /** The target of the segment that is being copied, and the bytes copied so far. */
  #image: Uint8Array | undefined;
  #copied = 0;

  /** @param makeArena makes an empty one */
  constructor(sources: readonly Segment[], makeArena: () => Arena) {
    this.#sources = sources;
    this.#makeArena = makeArena;
  }

  /** Copies about the given number of bytes. @returns whether all are copied */
  step(bytes: number): boolean {
    for (let left = bytes; left > 0; ) {
      const image = this.#image ?? this.#begin();
      if (image === undefined) return true;
      const source = this.#sources[this.#rooms.length - 1].image;
      const piece = source.subarray(this.#copied, this.#copied + Math.ceil(left));
      image.set(piece, this.#copied);
      this.#copied += piece.length;
      left -= piece.length;
      if (this.#copied === source.length) this.#image = undefined;
    }
    return this.#image === undefined && this.#rooms.length === this.#sources.length;
  }

  /** The copies, in the order of the segments. */
  finish(): Segment[] {
    return this.#rooms.map(({ arena, at }, i) => {
      const { removedBits, at: from } = this.#sources[i];
      arena.bytes.set(removedBits, at + removedBits.byteOffset - from);
      return Segment.restored(arena, at);
    });
  }

  /** Allocates the copy of the next segment; undefined when no segment is left. */
  #begin(): Uint8Array | undefined {
    const source = this.#sources[this.#rooms.length];
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
    this.#rooms.push(room);
    this.#copied = 0;
    this.#image = room.image;
    return room.image;
  }
}
