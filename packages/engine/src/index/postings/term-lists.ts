// Which list of the mutable buffer does a term have?
//
// Numbers of terms and most dimensions are small: an array has them, at a third of the time of a Map. Others go to a Map.

const arrayMax = 2 ** 22;

export class TermLists {
  /** By term: the number of its list and 1; 0 for none. */
  #array = new Uint32Array(1_024);
  readonly #map = new Map<number, number>();
  readonly #terms: number[] = [];

  get size(): number {
    return this.#terms.length;
  }

  get(term: number): number | undefined {
    if (term >= arrayMax) return this.#map.get(term);
    const known = term < this.#array.length ? this.#array[term] : 0;
    return known === 0 ? undefined : known - 1;
  }

  /** Sets the list of a term that has none. */
  set(term: number, list: number): void {
    this.#terms.push(term);
    if (term >= arrayMax) {
      this.#map.set(term, list);
      return;
    }
    if (term >= this.#array.length) {
      const larger = new Uint32Array(Math.min(arrayMax, 2 * term + 1));
      larger.set(this.#array);
      this.#array = larger;
    }
    this.#array[term] = list + 1;
  }

  /** In the order in which they were set. */
  get terms(): readonly number[] {
    return this.#terms;
  }

  clear(): void {
    for (const term of this.#terms) if (term < arrayMax) this.#array[term] = 0;
    this.#map.clear();
    this.#terms.length = 0;
  }

  get memoryBytes(): number {
    return this.#array.byteLength + 8 * this.#terms.length + mapEntryBytes * this.#map.size;
  }
}

/** Of a Map of small numbers, as measured in V8. */
export const mapEntryBytes = 28;
