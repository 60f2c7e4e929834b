// How does long work share this thread?
//
// All long work of a thread runs in time slices of a few milliseconds: a *task* runs its steps in the slices that it is granted.
// slice-rounds.ts grants slices in the rounds of the event loop, and fair-queue.ts decides which task is next, by key, collection and size.
//
// The scheduler knows nothing of HTTP. Work that waits for a builder, the disk or a client is not in its queues.

import { limits } from "@quiverdb/protocol/limits";
import type { Account, Interest, Waiting } from "./fair-queue.ts";
import { invariant } from "./invariant.ts";
import { SliceRounds } from "./slice-rounds.ts";
import type { Steps } from "./steps.ts";

const always: Interest = { isOver: false, reason: undefined, check() {} };

/** The scheduler of this thread. */
export const scheduler = new SliceRounds();

/** One piece of work, which runs in slices. */
export class Task implements Waiting {
  readonly account: Account;
  readonly interest: Interest;
  readonly #scheduler: SliceRounds;
  #expectedMs: number;
  /** Milliseconds of slices that it has had. */
  receivedMs = 0;
  #endMs: number;
  #waiting: { resolve(): void; reject(reason: unknown): void } | undefined;

  /** Its first slice starts now, because its creator is already working on it. @param interest called while it waits */
  constructor(account: Account, interest: Interest = always, of: SliceRounds = scheduler) {
    this.account = account;
    this.interest = interest;
    this.#scheduler = of;
    this.#expectedMs = account.expectedMs ?? 0;
    this.#endMs = of.now() + limits.sliceMs;
  }

  /** Its total work, as far as it is known. */
  get demandMs(): number {
    return Math.max(this.#expectedMs, this.receivedMs);
  }

  /** Updates the expected need of the task. */
  expect(ms: number): void {
    this.#expectedMs = ms;
  }

  /** Whether the slice is used up. */
  readonly isOver = (): boolean => this.#scheduler.now() >= this.#endMs;

  /** Reports bytes that were read for this task. */
  arrived(bytes: number): void {
    this.#scheduler.arrivedFor(this, bytes);
  }

  /** Waits for the next slice. @throws the interest's reason when that is over first */
  slice(): Promise<void> {
    invariant(this.#waiting === undefined, "a task waits for two slices at once");
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#scheduler.enter(this);
    });
  }

  /** Ends its waiting; `slice` rejects. @returns whether it waited */
  cancel(reason: unknown): boolean {
    if (!this.#scheduler.leave(this)) return false;
    this.refuse(reason);
    return true;
  }

  /** Waits for the next slice where this one is used up. */
  async pause(): Promise<void> {
    if (this.isOver()) await this.slice();
  }

  /**
   * Starts work in steps; returns its value if this slice is enough, because a promise for each part of a short search would take longer
   * than the parts. @throws what the work throws, at once or later; the interest's error
   */
  begin<T>(steps: Steps<T>): T | Promise<T> {
    for (;;) {
      const step = steps.next();
      if (step.done) return step.value;
      if (this.isOver()) return this.#goOn(steps);
    }
  }

  /** Runs work in steps to its end. */
  async finish<T>(steps: Steps<T>): Promise<T> {
    return this.begin(steps);
  }

  async #goOn<T>(steps: Steps<T>): Promise<T> {
    for (;;) {
      if (this.isOver())
        await this.slice().catch((error: unknown) => {
          // Work that is abandoned releases what it holds.
          steps.return(undefined as T);
          throw error;
        });
      const step = steps.next();
      if (step.done) return step.value;
    }
  }

  /** Called by the scheduler alone. */
  grant(): void {
    this.#endMs = this.#scheduler.now() + limits.sliceMs;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    try {
      this.interest.check();
    } catch (error) {
      waiting?.reject(error);
      return;
    }
    waiting?.resolve();
  }

  /** Called by the scheduler alone. */
  refuse(reason: unknown): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.reject(reason);
  }
}

/** The account of callers that name none, as in embedded use. */
export const anonymous: Account = { key: "" };

/**
 * Lets the event loop turn where it has not for a slice; undefined: it has. For the end of a call that may have been answered at once: what the
 * call was given is read by then, and it was made before anything that the caller does later.
 */
export const turned = (): Promise<void> | undefined =>
  scheduler.isHeld ? new Task(anonymous).slice() : undefined;

/** Reports an external event that was waiting to be handled by this thread. */
export function arrived(): void {
  scheduler.arrived();
}
