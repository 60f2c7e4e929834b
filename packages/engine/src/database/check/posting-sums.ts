// Does an inverted index match its records exactly?
//
// For each record both are reduced to one number: the sum of a hash of every posting (index/postings/posting-hash.ts), which does not
// depend on order. The index adds, the records subtract, and a result other than zero identifies the record.

/** A sum for each ordinal. */
export class PostingSums {
  readonly #chunks = new Map<number, Uint32Array>();

  add(ordinal: number, hash: number): void {
    const number = ordinal >>> 16;
    let chunk = this.#chunks.get(number);
    if (chunk === undefined) {
      chunk = new Uint32Array(65_536);
      this.#chunks.set(number, chunk);
    }
    chunk[ordinal & 0xffff] += hash;
  }

  /** Skips ordinals that are already known. */
  forget(ordinal: number): void {
    const chunk = this.#chunks.get(ordinal >>> 16);
    if (chunk !== undefined) chunk[ordinal & 0xffff] = 0;
  }

  /** Ordinals of which index and record differ. */
  *notZero(): Generator<number> {
    for (const [number, chunk] of this.#chunks)
      for (let at = 0; at < chunk.length; at++) if (chunk[at] !== 0) yield number * 65_536 + at;
  }
}
