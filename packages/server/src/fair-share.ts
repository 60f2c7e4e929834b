// How much of a shared resource may one key hold?
//
// At most twice as much as then remains free (the "dynamic threshold" of Choudhury and Hahne, IEEE/ACM Transactions on Networking, 1998).
// One key alone can hold two thirds, two keys two fifths each, and so on: however many keys take their maximum, something remains free for
// the next one. No key has to be known in advance, and nothing is reserved for keys that never appear.

//
// The serving threads of a server have one limit together: their counts lie in shared memory (threads/shared-counts.ts).

import { invariant } from "@quiverdb/protocol/invariant";

/** A key may hold this multiple of the free amount. */
const heldPerFree = 2;

/** Who holds how much, in all threads. */
export interface Counts {
  readonly taken: number;
  heldBy(key: string): number;
  /** @param amount negative for what is given back; this thread gives back what it has added */
  add(key: string, amount: number): void;
}

export class FairShare {
  readonly max: number;
  readonly #keyMax: number;
  readonly #counts: Counts;

  /**
   * @param max of all keys together
   * @param keyMax of one key, whatever is free
   * @param counts default: of this thread alone
   */
  constructor(max: number, keyMax = Number.POSITIVE_INFINITY, counts: Counts = new OwnCounts()) {
    this.max = max;
    this.#keyMax = keyMax;
    this.#counts = counts;
  }

  /** Total of all keys. */
  get taken(): number {
    return this.#counts.taken;
  }

  heldBy(key: string): number {
    return this.#counts.heldBy(key);
  }

  /** Whether the key may hold this much more. If nothing is held, any amount is allowed: a limit must never reject everything. */
  hasRoom(key: string, amount: number): boolean {
    return this.#isWithin(this.#counts.heldBy(key) + amount, this.#counts.taken + amount, amount);
  }

  /** Takes the amount; false, and nothing taken, if there is no room. */
  take(key: string, amount = 1): boolean {
    // Taken first: of two threads that take the last place in the same moment, neither may go beyond the limit.
    this.force(key, amount);
    if (this.#isWithin(this.#counts.heldBy(key), this.#counts.taken, amount)) return true;
    this.giveBack(key, amount);
    return false;
  }

  /** Counts an amount that exists already, even if it exceeds the limit. */
  force(key: string, amount: number): void {
    invariant(amount >= 0, () => `'${key}' takes ${amount}`);
    this.#counts.add(key, amount);
  }

  giveBack(key: string, amount = 1): void {
    this.#counts.add(key, -amount);
  }

  /** @param held of the key, and `taken` of all, with the amount */
  #isWithin(held: number, taken: number, amount: number): boolean {
    if (taken === amount) return true;
    return held <= this.#keyMax && held <= heldPerFree * (this.max - taken);
  }
}

/** Of one thread. */
class OwnCounts implements Counts {
  readonly #held = new Map<string, number>();
  taken = 0;

  heldBy(key: string): number {
    return this.#held.get(key) ?? 0;
  }

  add(key: string, amount: number): void {
    const held = this.heldBy(key) + amount;
    invariant(held >= 0, () => `'${key}' gives back ${-amount} of ${held - amount} that it has`);
    this.taken += amount;
    invariant(this.taken >= held, () => `'${key}' has ${held} of ${this.taken} that all keys have`);
    if (held > 0) this.#held.set(key, held);
    else this.#held.delete(key);
  }
}
