// How do threads of a process exclude each other for a short while?

import { getEnvironmentData, setEnvironmentData } from "node:worker_threads";
import { invariant } from "../base/invariant.ts";

const free = 0;
const held = 1;
/** Held, and other threads may be waiting. */
const awaited = 2;

/** A mutual exclusion on a number in shared memory. It blocks the thread while another one holds it. */
export class SharedMutex {
  readonly #states: Int32Array;
  readonly #at: number;
  /** Whether this thread holds it. */
  #isHeld = false;

  /** @param states free at the beginning */
  constructor(states: Int32Array, at: number) {
    invariant(at >= 0 && at < states.length, `mutex ${at} of ${states.length}`);
    this.#states = states;
    this.#at = at;
  }

  /** Mutexes that a thread shares with all threads that it starts afterwards, and those with theirs. */
  static ofProcess(name: string, count: number): SharedMutex[] {
    const known: unknown = getEnvironmentData(name);
    const memory = known instanceof SharedArrayBuffer ? known : new SharedArrayBuffer(4 * count);
    if (memory !== known) setEnvironmentData(name, memory);
    const states = new Int32Array(memory);
    return Array.from({ length: states.length }, (_, at) => new SharedMutex(states, at));
  }

  /** Runs an action while no other thread holds the mutex. An action may hold it again. */
  hold<T>(action: () => T): T {
    if (this.#isHeld) return action();
    if (Atomics.compareExchange(this.#states, this.#at, free, held) !== free)
      while (Atomics.exchange(this.#states, this.#at, awaited) !== free)
        Atomics.wait(this.#states, this.#at, awaited);
    this.#isHeld = true;
    try {
      return action();
    } finally {
      this.#isHeld = false;
      if (Atomics.exchange(this.#states, this.#at, free) === awaited)
        Atomics.notify(this.#states, this.#at, 1);
    }
  }
}
