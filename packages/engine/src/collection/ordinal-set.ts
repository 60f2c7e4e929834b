// How is a large set of clustered ordinals stored in little memory?

import { invariant } from "../base/invariant.ts";

const chunkBits = 65_536;

/** A set of ordinals as bitmaps: one for each block of 65,536 ordinals that has a member. */
export class OrdinalSet {
  readonly #chunks = new Map<number, Uint8Array>();

  has(ordinal: number): boolean {
    const chunk = this.#chunks.get(Math.floor(ordinal / chunkBits));
    const bit = ordinal % chunkBits;
    return chunk !== undefined && (chunk[bit >>> 3] & (1 << (bit & 7))) !== 0;
  }

  /** @returns whether it is new */
  add(ordinal: number): boolean {
    invariant(ordinal >>> 0 === ordinal, () => `${ordinal} is no ordinal`);
    if (this.has(ordinal)) return false;
    const number = Math.floor(ordinal / chunkBits);
    const chunk = this.#chunks.get(number) ?? new Uint8Array(chunkBits / 8);
    this.#chunks.set(number, chunk);
    const bit = ordinal % chunkBits;
    chunk[bit >>> 3] |= 1 << (bit & 7);
    return true;
  }
}
