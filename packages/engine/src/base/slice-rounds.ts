// How do time slices fit into the rounds of the event loop?
//
// Between slices the event loop reads the bytes that have arrived:
//
//   arrivals | slice of A | arrivals | slice of B | arrivals | slice of A | ...
//
// The duration of a slice is measured when the event loop continues, so no task reports it. Reading the bytes that a task lets
// arrive also takes time, after the round. That is measured from round to round, and charged to the tasks whose bytes arrived;
// they report the bytes (`arrivedFor`). A round of the loop grants as many slices as fit into the length of one. The reason: reading
// may take longer than many small slices (64 connections that send 4 MB each: 5 to 50 ms a round). With one slice a round, 200
// slices of 0.1 ms of one client delayed all others by 600 ms.
//
// libuv (1.45 and later) accepts only one connection in each round of the event loop. So the code that accepts connections reports that
// something has `arrived`. The loop then runs without slices until a round brings nothing new, but for no longer than `arrivalsMs`, so
// that work continues too.

import { limits } from "@quiverdb/protocol/limits";
import { FairQueue, type KeyUse, type Waiting } from "./fair-queue.ts";
import { host } from "./host.ts";

/** The event loop, as the scheduler uses it. Tests pass their own. */
export type EventLoop = {
  now(): number;
  /** Calls back in the next round. Several pending calls run in one round, one after the other, with promises settled in between. */
  defer(act: () => void): void;
};

const realLoop: EventLoop = {
  now: () => performance.now(),
  // Deferred callbacks grant slices, which settle the promises of tasks, and never throw.
  defer(act) {
    host.defer(act);
  },
};

/** Slices in a round of the event loop, at most. */
const slicesPerRound = 64;

/**
 * Minimum cost of reading a byte (0.9 to 1.1 ms per MiB, measured with Node's server alone); a much higher value has other causes. The mean
 * is taken over about this many bytes.
 */
const arrivalMsPerByteMin = 1 / 2 ** 20;
const arrivalMsPerByteMax = 16 / 2 ** 20;
const arrivalBytesOver = 8 * 2 ** 20;

/** Milliseconds between two checks for tasks whose deadline is over. */
const sweepMs = 20;

/** Minimum charge of a slice, because a round of the event loop has a cost. */
const sliceMsMin = 0.02;

export class SliceRounds {
  readonly #loop: EventLoop;
  readonly #queue = new FairQueue();
  #isScheduled = false;
  #running: { task: Waiting; beganMs: number } | undefined;
  #arrivals = 0;
  #seen = 0;
  #arrivalsEndMs: number | undefined;
  /** When no further slice begins in this round. */
  #roundEndMs = 0;
  /** When the last round ended, where another one was to follow at once. */
  #roundEndedMs: number | undefined;
  /** Bytes that have been read since then, by the tasks that let them arrive. */
  #arriving = new Map<Waiting, number>();
  /** The recently measured cost of reading on this thread. */
  #msPerByte = arrivalMsPerByteMin;
  #sweptMs = Number.NEGATIVE_INFINITY;
  /** The longest slice since the last query. */
  #longestMs = 0;
  /** When the event loop is known to have turned last, and when it was asked to tell its next turn. */
  #turnedMs = Number.NEGATIVE_INFINITY;
  #askedMs: number | undefined;

  constructor(loop: EventLoop = realLoop) {
    this.#loop = loop;
  }

  /** Tasks that wait for a slice. */
  get waiting(): number {
    return this.#queue.waiting;
  }

  now(): number {
    return this.#loop.now();
  }

  /**
   * Whether this thread has been busy for a slice without a turn of the event loop. What is answered at once settles its promise in the
   * same turn, so a caller that awaits one answer after the other would keep the loop from everything else.
   */
  get isHeld(): boolean {
    const nowMs = this.#loop.now();
    if (this.#askedMs !== undefined) return nowMs >= this.#askedMs + limits.sliceMs;
    if (nowMs >= this.#turnedMs + limits.sliceMs) {
      this.#askedMs = nowMs;
      this.#loop.defer(() => {
        this.#askedMs = undefined;
        this.#turnedMs = this.#loop.now();
      });
    }
    return false;
  }

  /** Reports an external event that was waiting to be handled. */
  arrived(): void {
    this.#arrivals++;
  }

  /** Reports bytes that were read for a task. */
  arrivedFor(task: Waiting, bytes: number): void {
    this.#arriving.set(task, (this.#arriving.get(task) ?? 0) + bytes);
  }

  /** The time that a key has received; zero for an unknown key. */
  useOf(key: string): KeyUse {
    return this.#queue.useOf(key);
  }

  /** Milliseconds of the longest slice since the last call. */
  takeLongestMs(): number {
    const longest = this.#longestMs;
    this.#longestMs = 0;
    return longest;
  }

  /** Queues a task for its next slice. The task is `granted` it in a later round, or `refused` if its deadline is over. */
  enter(task: Waiting): void {
    this.#queue.enter(task);
    this.#schedule();
  }

  /** Takes a waiting task out. @returns whether it waited */
  leave(task: Waiting): boolean {
    return this.#queue.leave(task);
  }

  #schedule(): void {
    if (this.#isScheduled || this.#queue.waiting === 0) return;
    this.#isScheduled = true;
    this.#loop.defer(() => this.#beginRound());
    for (let slots = Math.min(this.#queue.waiting, slicesPerRound) - 1; slots > 0; slots--)
      this.#loop.defer(() => this.#goOn());
    this.#loop.defer(() => this.#endRound());
  }

  #beginRound(): void {
    const nowMs = this.#loop.now();
    this.#chargeArrivals(nowMs);
    if (nowMs >= this.#sweptMs + sweepMs) {
      this.#sweptMs = nowMs;
      this.#queue.sweep();
    }
    this.#roundEndMs = nowMs + limits.sliceMs;
    if (this.#arrivals !== this.#seen) {
      this.#seen = this.#arrivals;
      this.#arrivalsEndMs ??= nowMs + limits.arrivalsMs;
      if (nowMs < this.#arrivalsEndMs) {
        this.#roundEndMs = nowMs;
        return;
      }
    }
    this.#arrivalsEndMs = undefined;
    this.#grant();
  }

  #goOn(): void {
    this.#account();
    if (this.#loop.now() < this.#roundEndMs) this.#grant();
  }

  #grant(): void {
    const task = this.#queue.take();
    if (task === undefined) return;
    this.#running = { task, beganMs: this.#loop.now() };
    task.grant();
  }

  #endRound(): void {
    this.#account();
    this.#isScheduled = false;
    // If something waits, the loop starts its next round as soon as it has read the available data.
    this.#roundEndedMs = this.#queue.waiting > 0 ? this.#loop.now() : undefined;
    this.#schedule();
  }

  /** Books the time since the last round for those whose bytes were read in it. */
  #chargeArrivals(nowMs: number): void {
    if (this.#arriving.size === 0) return;
    const [arriving, beganMs] = [this.#arriving, this.#roundEndedMs];
    // Not cleared: a table of V8 that a map has left refers to the one that it has next. Once one is in the old generation, so are all that
    // follow, with what they held when the map was cleared, until a full collection.
    this.#arriving = new Map();
    if (beganMs === undefined) return;
    const ms = nowMs - beganMs;
    const bytes = arriving.values().reduce((sum, each) => sum + each, 0);
    for (const [task, each] of arriving) this.#queue.charge(task, (ms * each) / bytes);
    const measured = Math.min(arrivalMsPerByteMax, Math.max(arrivalMsPerByteMin, ms / bytes));
    const weight = Math.min(1, bytes / arrivalBytesOver);
    this.#msPerByte += weight * (measured - this.#msPerByte);
  }

  /** Charges the duration of the last granted slice, whose promise callbacks have all run. */
  #account(): void {
    const running = this.#running;
    this.#running = undefined;
    if (running !== undefined) {
      const ms = Math.max(sliceMsMin, this.#loop.now() - running.beganMs);
      this.#longestMs = Math.max(this.#longestMs, ms);
      this.#roundEndMs -= (running.task.account.arrivingBytes ?? 0) * this.#msPerByte;
      this.#queue.charge(running.task, ms);
    }
  }
}
