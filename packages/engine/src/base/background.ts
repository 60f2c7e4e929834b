// What handles the failures of background work?
//
// Background work has no caller to throw to. A rejected promise, or a timer or message handler that throws, would end the process. So
// each piece of background work is a *task* of a Background, which turns its failure into a state:
//
//      run --done--> (nothing)
//       |
//      failed --> failing: logged once, listed in `failing`, and retried after retryMsMin, twice that, ... retryMsMax
//                    |
//                  done --> (nothing): logged once
//
// A failing task degrades the service of its owner only: a collection's indexing, a checkpoint, the opening of a store. A caller that
// needs its result gets the error from that owner. Only the loss of the writer thread is not retried (runtime/writer.ts): then all
// writes are refused.
//
// No other file of the engine drops a promise or leaves a timer callback unguarded: background.test.ts checks the sources for that.

import { inBackground, type Timer } from "./host.ts";

const retryMsMin = 100;
const retryMsMax = 10_000;

/** A task that has failed and is being retried. */
export type FailingTask = {
  /** A description, unique for its owner. */
  readonly task: string;
  readonly error: unknown;
  /** Failures in a row. */
  readonly attempts: number;
};

export type BackgroundEvents = {
  /** A task has failed, for the first time in a row or in another way than before. */
  onFailed(failing: FailingTask): void;
  /** A failing task has succeeded. */
  onRecovered(task: string): void;
};

type Act = () => unknown;
type Entry = FailingTask & {
  act: Act;
  /** Timer of the next attempt; undefined while one is under way. */
  timer: Timer | undefined;
  /** Whether `act` was requested during an attempt. */
  isAsked: boolean;
};

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

export class Background {
  readonly #events: BackgroundEvents;
  readonly #failing = new Map<string, Entry>();
  readonly #timers = new Set<Timer>();
  #isStopped = false;

  constructor(events: BackgroundEvents) {
    this.#events = events;
  }

  /** The tasks that are failing now. */
  get failing(): readonly FailingTask[] {
    return [...this.#failing.values()];
  }

  /**
   * Runs `act`, which may be asynchronous, and handles its failure. While the task is failing, attempts run one at a time, and `act` is
   * the next one. Never throws.
   */
  run(task: string, act: Act): void {
    const failing = this.#failing.get(task);
    if (failing === undefined) {
      this.#attempt(task, act);
      return;
    }
    failing.act = act;
    failing.isAsked ||= failing.timer === undefined;
  }

  /** Runs once an act that handles its own failures. An unexpected failure is logged but does not become a state. Never throws. */
  once(task: string, act: Act): void {
    const failed = (error: unknown) => this.#tell(() => this.#events.onFailed({ task, error, attempts: 1 }));
    try {
      Promise.resolve(act()).catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  /** Runs a task at intervals until it is stopped. Does not keep the process alive. @returns a function that stops it */
  every(task: string, ms: number, act: Act): () => void {
    const timer = inBackground(setInterval(() => this.run(task, act), ms));
    this.#timers.add(timer);
    return () => {
      clearInterval(timer);
      this.#timers.delete(timer);
    };
  }

  /** Runs a task once after a time, unless everything is stopped before. Does not keep the process alive. */
  after(task: string, ms: number, act: Act): void {
    const timer = inBackground(
      setTimeout(() => {
        this.#timers.delete(timer);
        this.run(task, act);
      }, ms),
    );
    this.#timers.add(timer);
  }

  /** Handles the failure of a task. @param again runs it again */
  failed(task: string, error: unknown, again: Act): void {
    if (this.#isStopped) return;
    const before = this.#failing.get(task);
    clearTimeout(before?.timer);
    const attempts = (before?.attempts ?? 0) + 1;
    const act = before?.isAsked ? before.act : again;
    const entry: Entry = { task, error, attempts, act, timer: undefined, isAsked: false };
    const retry = () => {
      entry.timer = undefined;
      this.#attempt(task, entry.act);
    };
    entry.timer = inBackground(setTimeout(retry, Math.min(retryMsMax, retryMsMin * 2 ** (attempts - 1))));
    this.#failing.set(task, entry);
    if (before === undefined || messageOf(before.error) !== messageOf(error))
      this.#tell(() => this.#events.onFailed(entry));
  }

  /** Handles the success of a task: acts that wait for a retry, or were requested meanwhile, run at once. */
  succeeded(task: string): void {
    const failing = this.#failing.get(task);
    if (failing === undefined) return;
    this.#failing.delete(task);
    this.#tell(() => this.#events.onRecovered(task));
    const isWaiting = failing.timer !== undefined;
    clearTimeout(failing.timer);
    if (isWaiting || failing.isAsked) this.#attempt(task, failing.act);
  }

  /** Stops retrying a task, because its object is gone. */
  forget(task: string): void {
    clearTimeout(this.#failing.get(task)?.timer);
    this.#failing.delete(task);
  }

  /** Starts and logs nothing more. Running acts end by themselves. */
  stop(): void {
    this.#isStopped = true;
    for (const { timer } of this.#failing.values()) clearTimeout(timer);
    for (const timer of this.#timers) clearInterval(timer);
    this.#failing.clear();
    this.#timers.clear();
  }

  #attempt(task: string, act: Act): void {
    if (this.#isStopped) return;
    let result: unknown;
    try {
      result = act();
    } catch (error) {
      this.failed(task, error, act);
      return;
    }
    Promise.resolve(result).then(
      () => this.succeeded(task),
      (error: unknown) => this.failed(task, error, act),
    );
  }

  /** Calls a listener, which may be the user's logger. If it throws, nobody is left to report that to. */
  #tell(act: () => void): void {
    try {
      act();
    } catch {
      // The state remains visible in the status.
    }
  }
}
