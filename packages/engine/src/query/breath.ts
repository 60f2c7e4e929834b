// How does long work let others take their turn?
//
// Searches and measurements run in the thread that serves requests. After a slice of time they give the event loop a turn, and ask
// whether anybody still waits for them.

import { limits } from "@quiver/protocol/limits";
import { Deadline } from "../base/deadline.ts";
import { nextTurn } from "../base/turns.ts";
import type { Candidates } from "../index/contract.ts";
import type { SteppedSearch } from "../index/hnsw/exact-search.ts";

/** The slices of one piece of work. */
export class Breath {
  #begin = performance.now();
  #end = this.#begin + limits.searchSliceMs;
  #heldMs = 0;
  readonly #deadline: Deadline;

  /** @param deadline of the work: every turn asks it */
  constructor(deadline: Deadline = Deadline.none) {
    this.#deadline = deadline;
  }

  /** Whether the slice is over. */
  readonly isOver = (): boolean => performance.now() >= this.#end;

  /** Milliseconds for which the work has held the event loop. */
  get heldMs(): number {
    return this.#heldMs + performance.now() - this.#begin;
  }

  /** Gives the event loop a turn; what is visible has to be asked anew. @throws what the deadline says */
  async turn(): Promise<void> {
    this.#heldMs += performance.now() - this.#begin;
    await nextTurn();
    this.#begin = performance.now();
    this.#end = this.#begin + limits.searchSliceMs;
    this.#deadline.check();
  }

  /** Gives the event loop a turn where the slice is over. */
  async take(): Promise<void> {
    this.#deadline.check();
    if (this.isOver()) await this.turn();
  }

  /** Does work that comes in steps to its end. */
  async finish<T>(steps: Generator<void, T>): Promise<T> {
    for (;;) {
      const step = steps.next();
      if (step.done) return step.value;
      if (this.isOver()) await this.turn();
    }
  }

  /** Does a search to its end. */
  async run(search: SteppedSearch): Promise<Candidates[]> {
    try {
      while (!search.run(this.isOver)) await this.turn();
      return search.finish();
    } finally {
      search.end();
    }
  }
}
