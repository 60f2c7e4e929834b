// How does a search share the thread with other requests?
//
// Searches and measurements run in the request thread, in time slices of the cooperative scheduler (base/scheduler.ts). Between two slices
// they check their deadline.

import { Deadline } from "../base/deadline.ts";
import type { Task } from "../base/scheduler.ts";

/** The time slices of one piece of work. */
export class Slices {
  readonly #task: Task;
  readonly #deadline: Deadline;
  #beganMs = performance.now();
  #heldMs = 0;

  /** @param deadline of the work, checked before every slice. Its task is charged for the slices */
  constructor(deadline: Deadline = Deadline.none) {
    this.#deadline = deadline;
    this.#task = deadline.task;
  }

  /** Whether the slice is used up. */
  readonly isOver = (): boolean => this.#task.isOver();

  /** Milliseconds for which the work has held the event loop. */
  get heldMs(): number {
    return this.#heldMs + performance.now() - this.#beganMs;
  }

  /** Waits for the next slice; visibility must be tested again afterwards. @throws the error of the deadline */
  async next(): Promise<void> {
    this.#heldMs += performance.now() - this.#beganMs;
    await this.#task.slice();
    this.#beganMs = performance.now();
    this.#deadline.check();
  }

  /** Waits for the next slice if this one is used up. @throws the error of the deadline */
  async pause(): Promise<void> {
    this.#deadline.check();
    if (this.isOver()) await this.next();
  }

  /** Runs work in steps to its end. */
  async finish<T>(steps: Generator<void, T>): Promise<T> {
    let isDone = false;
    try {
      for (;;) {
        const step = steps.next();
        isDone = step.done === true;
        if (step.done) return step.value;
        if (this.isOver()) await this.next();
      }
    } finally {
      // A generator that is abandoned releases what it holds.
      if (!isDone) steps.return(undefined as T);
    }
  }
}
