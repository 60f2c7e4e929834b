// What do serving threads know of a collection without asking its owner?
//
// The version that every new read must see, and the owner learns that they search. One thread writes the version; all count searches.

/** Shared memory; can be posted. */
export type SharedWords = BigInt64Array<SharedArrayBuffer>;

const seenAt = 0;
const searchesAt = 1;

export class SharedState {
  readonly words: SharedWords;

  /** @param words of the owner; absent: of a new collection */
  constructor(words: SharedWords = new BigInt64Array(new SharedArrayBuffer(16))) {
    this.words = words;
  }

  /** The newest version that was acknowledged or returned to any client. */
  get seenVersion(): number {
    return Number(Atomics.load(this.words, seenAt));
  }

  set seenVersion(version: number) {
    Atomics.store(this.words, seenAt, BigInt(version));
  }

  /** Searches that serving threads have begun. */
  get searchesElsewhere(): number {
    return Number(Atomics.load(this.words, searchesAt));
  }

  countSearch(): void {
    Atomics.add(this.words, searchesAt, 1n);
  }
}
