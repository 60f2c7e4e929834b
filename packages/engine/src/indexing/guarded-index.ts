// Is an index still consistent?

import type { Index } from "../index/contract.ts";

/** An index, and the error that stopped it in the middle of a change. */
export class GuardedIndex {
  /** Replaced only before the first change. */
  index: Index;
  #stuckBy: unknown;

  constructor(index: Index) {
    this.index = index;
  }

  /** Why a change of the index failed, after which it may be inconsistent; undefined if none did. */
  get stuckBy(): unknown {
    return this.#stuckBy;
  }

  /** Changes the index, and notes that it is stuck when that fails. */
  change<T>(act: (index: Index) => T): T {
    try {
      return act(this.index);
    } catch (error) {
      this.#stuckBy ??= error ?? new Error("an index failed");
      throw error;
    }
  }
}
