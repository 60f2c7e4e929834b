// How do several threads keep one limit?
//
// What the keys hold is counted in shared memory: for each limit and each thread a row, with the total of the thread and what each account
// holds there. A thread writes its own rows only, and adds up all of them. When a thread dies, its rows are cleared.
//
// The owner of the database numbers the accounts (`AccountNumbers`); threads learn the number of a key with its lease (leases.ts).
//
// A row has one writer, and a number at a multiple of eight bytes is written and read whole by every processor that Node.js runs on. Another
// thread may read it a moment late. `FairShare.take` therefore counts first and looks afterwards.

import { invariant } from "@quiverdb/protocol/invariant";
import type { Counts } from "../fair-share.ts";

/** The limits that threads share. */
const sharedLimits = ["requests", "bodies", "answers", "connections"] as const;
export type SharedLimit = (typeof sharedLimits)[number];

/** Accounts beyond this number share those numbers. */
const accountsMax = 4_096;

/** The total is at the beginning of a row, then the accounts follow. */
const rowLength = 1 + accountsMax;

export type SharedCountsMemory = {
  readonly threads: number;
  readonly numbers: Float64Array<SharedArrayBuffer>;
};

/** @param threads that count, the owner's included */
export const newSharedCounts = (threads: number): SharedCountsMemory => ({
  threads,
  numbers: new Float64Array(new SharedArrayBuffer(8 * rowLength * threads * sharedLimits.length)),
});

const rowAt = ({ threads }: SharedCountsMemory, limit: SharedLimit, thread: number): number =>
  rowLength * (threads * sharedLimits.indexOf(limit) + thread);

/** What a thread had counted is not held any more: it has died. */
export function clearCounts(memory: SharedCountsMemory, thread: number): void {
  for (const limit of sharedLimits) {
    const at = rowAt(memory, limit, thread);
    memory.numbers.fill(0, at, at + rowLength);
  }
}

export class SharedCounts implements Counts {
  readonly #memory: SharedCountsMemory;
  readonly #limit: SharedLimit;
  readonly #thread: number;
  readonly #numberOf: (key: string) => number;

  /**
   * @param thread of this one: 0 for the owner's, then the slots
   * @param numberOf the number of the account of a key, from 0 to `accountsMax` - 1
   */
  constructor(
    memory: SharedCountsMemory,
    limit: SharedLimit,
    thread: number,
    numberOf: (key: string) => number,
  ) {
    invariant(thread < memory.threads, () => `thread ${thread} counts, of ${memory.threads}`);
    this.#memory = memory;
    this.#limit = limit;
    this.#thread = thread;
    this.#numberOf = numberOf;
  }

  get taken(): number {
    return this.#sum(0);
  }

  heldBy(key: string): number {
    return this.#sum(1 + this.#numberOf(key));
  }

  add(key: string, amount: number): void {
    const { numbers } = this.#memory;
    const at = rowAt(this.#memory, this.#limit, this.#thread);
    const place = at + 1 + this.#numberOf(key);
    numbers[place] += amount;
    numbers[at] += amount;
    invariant(numbers[place] >= 0, () => `'${key}' gives back ${-amount} more than this thread has`);
  }

  #sum(place: number): number {
    const { threads, numbers } = this.#memory;
    const first = rowAt(this.#memory, this.#limit, 0);
    let sum = 0;
    for (let thread = 0; thread < threads; thread++) sum += numbers[first + thread * rowLength + place];
    return sum;
  }
}

/** Numbers accounts in the order in which they appear. */
export class AccountNumbers {
  readonly #numbers = new Map<string, number>();

  of(key: string): number {
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.#numbers.size % accountsMax;
      this.#numbers.set(key, number);
    }
    return number;
  }
}
