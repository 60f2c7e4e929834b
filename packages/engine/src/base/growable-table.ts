// How is a compact map from u32 to u32 stored?
//
// It is a hash table in two typed arrays, 11 to 23 bytes per entry, with open addressing and linear probing. Deleting an entry moves later
// entries of its cluster up, so there are no tombstones. The hash has a random seed, so that nobody can choose keys that all collide.
// Only the running time depends on the seed.

/** The result of `get` for an absent key, and the one value that cannot be stored. */
export const missing = 0xffff_ffff;

const capacityMin = 16;

export class GrowableTable {
  #keys = new Uint32Array(capacityMin);
  #values = new Uint32Array(capacityMin).fill(missing);
  #size = 0;
  readonly #seed = Math.floor(Math.random() * 2 ** 32);

  get size(): number {
    return this.#size;
  }

  get(key: number): number {
    return this.#values[this.#find(key)];
  }

  /** Sets or replaces the value of a key. */
  set(key: number, value: number): void {
    let at = this.#find(key);
    if (this.#values[at] === missing) {
      if (10 * (this.#size + 1) > 7 * this.#keys.length) {
        this.#rehash(2 * this.#keys.length);
        at = this.#find(key);
      }
      this.#size++;
      this.#keys[at] = key;
    }
    this.#values[at] = value;
  }

  /** Removes a key, if it is present. */
  delete(key: number): void {
    const mask = this.#keys.length - 1;
    let gap = this.#find(key);
    if (this.#values[gap] === missing) return;
    this.#size--;
    // An entry may move up to the gap unless its hash is cyclically after the gap, where a search for it starts.
    for (let at = (gap + 1) & mask; this.#values[at] !== missing; at = (at + 1) & mask) {
      const home = this.#hash(this.#keys[at]) & mask;
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      this.#keys[gap] = this.#keys[at];
      this.#values[gap] = this.#values[at];
      gap = at;
    }
    this.#values[gap] = missing;
    if (this.#keys.length > capacityMin && 5 * this.#size < this.#keys.length) {
      this.#rehash(this.#keys.length / 2);
    }
  }

  /** All keys and values, in no particular order. The table must not change meanwhile. */
  *entries(): Generator<[key: number, value: number]> {
    for (let at = 0; at < this.#keys.length; at++) {
      if (this.#values[at] !== missing) yield [this.#keys[at], this.#values[at]];
    }
  }

  get memoryBytes(): number {
    return this.#keys.byteLength + this.#values.byteLength;
  }

  /** The slot of a key, or the free slot where it would go. */
  #find(key: number): number {
    const mask = this.#keys.length - 1;
    let at = this.#hash(key) & mask;
    while (this.#values[at] !== missing && this.#keys[at] !== key) at = (at + 1) & mask;
    return at;
  }

  /** The finalizer of MurmurHash3, which spreads every bit of the key over all bits of the hash. */
  #hash(key: number): number {
    let hash = key ^ this.#seed;
    hash = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2_ae35);
    return hash ^ (hash >>> 16);
  }

  #rehash(capacity: number): void {
    const keys = this.#keys;
    const values = this.#values;
    this.#keys = new Uint32Array(capacity);
    this.#values = new Uint32Array(capacity).fill(missing);
    for (let i = 0; i < keys.length; i++) {
      if (values[i] === missing) continue;
      const at = this.#find(keys[i]);
      this.#keys[at] = keys[i];
      this.#values[at] = values[i];
    }
  }
}
