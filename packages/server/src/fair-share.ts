// How much of a shared resource may one key hold?
//
// At most twice as much as then remains free (the "dynamic threshold" of Choudhury and Hahne, IEEE/ACM Transactions on Networking, 1998).
// One key alone can hold two thirds, two keys two fifths each, and so on: however many keys take their maximum, something remains free for
// the next one. No key has to be known in advance, and nothing is reserved for keys that never appear.

import { invariant } from "@quiver/protocol/invariant";

/** A key may hold this multiple of the free amount. */
const heldPerFree = 2;

export class FairShare {
  readonly max: number;
  readonly #keyMax: number;
  readonly #held = new Map<string, number>();
  #taken = 0;

  /**
   * @param max of all keys together
   * @param keyMax of one key, whatever is free
   */
  constructor(max: number, keyMax = Number.POSITIVE_INFINITY) {
    this.max = max;
    this.#keyMax = keyMax;
  }

  /** Total of all keys. */
  get taken(): number {
    return this.#taken;
  }

  heldBy(key: string): number {
    return this.#held.get(key) ?? 0;
  }

  /** Whether the key may hold this much more. If nothing is held, any amount is allowed: a limit must never reject everything. */
  hasRoom(key: string, amount: number): boolean {
    const held = this.heldBy(key) + amount;
    if (this.#taken === 0) return true;
    return held <= this.#keyMax && held <= heldPerFree * (this.max - this.#taken - amount);
  }

  /** Takes the amount; false, and nothing taken, if there is no room. */
  take(key: string, amount = 1): boolean {
    if (!this.hasRoom(key, amount)) return false;
    this.force(key, amount);
    return true;
  }

  /** Counts an amount that exists already, even if it exceeds the limit. */
  force(key: string, amount: number): void {
    invariant(amount >= 0, () => `'${key}' takes ${amount}`);
    this.#taken += amount;
    this.#held.set(key, this.heldBy(key) + amount);
  }

  giveBack(key: string, amount = 1): void {
    const held = this.heldBy(key) - amount;
    invariant(held >= 0, () => `'${key}' gives back ${amount} of ${held + amount} that it has`);
    this.#taken -= amount;
    invariant(this.#taken >= held, () => `'${key}' has ${held} of ${this.#taken} that all keys have`);
    if (held > 0) this.#held.set(key, held);
    else this.#held.delete(key);
  }
}
