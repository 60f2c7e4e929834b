// Who owns what nobody waits for?
//
// Work in the background has no caller to throw to. A promise of it that rejects, or a timer or message that throws, would end the
// process, so each piece of such work is a *task* of a Background, and its failure becomes a state in this one place:
//
//      run --done--> (nothing)
//       |
//      failed --> failing: told once, seen in `failing`, and tried again after retryMsMin, twice that, ... retryMsMax
//                    |
//                  done --> (nothing): told once
//
// A task that fails is degraded service, and of its owner alone: a collection's indexing, a checkpoint, the opening of a store. Who
// needs its result is told the error by whoever the task works for. Only the loss of the writer thread is not tried again
// (runtime/writer.ts): writes are refused then.
//
// Nothing in the engine drops a promise or leaves a timer's act to itself but this file: background.test.ts reads the sources.

const retryMsMin = 100;
const retryMsMax = 10_000;

/** A task that has failed and is tried again. */
export type FailingTask = {
  /** In words, unique for its owner. */
  readonly task: string;
  readonly error: unknown;
  /** Failures in a row. */
  readonly attempts: number;
};

export type BackgroundEvents = {
  /** A task has failed, for the first time in a row or in another way than before. */
  onFailed(failing: FailingTask): void;
  /** A task that was failing is done. */
  onRecovered(task: string): void;
};

type Act = () => unknown;
type Entry = FailingTask & {
  act: Act;
  /** Until the next attempt; undefined while one is being made. */
  timer: NodeJS.Timeout | undefined;
  /** Whether `act` was asked for during an attempt. */
  isAsked: boolean;
};

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

export class Background {
  readonly #events: BackgroundEvents;
  readonly #failing = new Map<string, Entry>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #isStopped = false;

  constructor(events: BackgroundEvents) {
    this.#events = events;
  }

  /** Tasks that fail at present. */
  get failing(): readonly FailingTask[] {
    return [...this.#failing.values()];
  }

  /**
   * Does `act`, which may be asynchronous, and sees to its failure. While the task is failing, there is one attempt at a time, and
   * `act` is the next one. Never throws.
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

  /** Does once what sees to its own failures; one that comes all the same is told, and is no state. Never throws. */
  once(task: string, act: Act): void {
    const failed = (error: unknown) => this.#tell(() => this.#events.onFailed({ task, error, attempts: 1 }));
    try {
      Promise.resolve(act()).catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  /** Runs a task again and again, until it is stopped. Does not keep the process alive. @returns stops it */
  every(task: string, ms: number, act: Act): () => void {
    const timer = setInterval(() => this.run(task, act), ms);
    timer.unref();
    this.#timers.add(timer);
    return () => {
      clearInterval(timer);
      this.#timers.delete(timer);
    };
  }

  /** A task has failed. @param again does it again */
  failed(task: string, error: unknown, again: Act): void {
    if (this.#isStopped) return;
    const before = this.#failing.get(task);
    clearTimeout(before?.timer);
    const attempts = (before?.attempts ?? 0) + 1;
    const act = before?.isAsked ? before.act : again;
    const entry: Entry = { task, error, attempts, act, timer: undefined, isAsked: false };
    entry.timer = setTimeout(
      () => {
        entry.timer = undefined;
        this.#attempt(task, entry.act);
      },
      Math.min(retryMsMax, retryMsMin * 2 ** (attempts - 1)),
    ).unref();
    this.#failing.set(task, entry);
    if (before === undefined || messageOf(before.error) !== messageOf(error))
      this.#tell(() => this.#events.onFailed(entry));
  }

  /** A task is done: what was to be tried again, or was asked for meanwhile, is done at once. */
  succeeded(task: string): void {
    const failing = this.#failing.get(task);
    if (failing === undefined) return;
    this.#failing.delete(task);
    this.#tell(() => this.#events.onRecovered(task));
    const isWaiting = failing.timer !== undefined;
    clearTimeout(failing.timer);
    if (isWaiting || failing.isAsked) this.#attempt(task, failing.act);
  }

  /** A task has lost its object: it is not tried again. */
  forget(task: string): void {
    clearTimeout(this.#failing.get(task)?.timer);
    this.#failing.delete(task);
  }

  /** Nothing more is begun or told; what runs ends by itself. */
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

  /** What is told is told to a log, which may be the user's; nobody is left to whom its failure could be told. */
  #tell(act: () => void): void {
    try {
      act();
    } catch {
      // The state stays, and is seen in the status.
    }
  }
}
