// Does an inverted index have exactly the postings of its records?
//
// For each record, the comparison sums a hash of every posting (index/postings/posting-hash.ts); the order does not matter. Postings of
// the index are added and those of the record are subtracted. A sum that is not zero at the end names a record that differs.

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

  /** Ignores an ordinal. */
  forget(ordinal: number): void {
    const chunk = this.#chunks.get(ordinal >>> 16);
    if (chunk !== undefined) chunk[ordinal & 0xffff] = 0;
  }

  /** Ordinals for which the index and the record differ. */
  *notZero(): Generator<number> {
    for (const [number, chunk] of this.#chunks)
      for (let at = 0; at < chunk.length; at++) if (chunk[at] !== 0) yield number * 65_536 + at;
  }
}
