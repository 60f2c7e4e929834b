// Until when is somebody interested in the answer?
//
// A deadline is carried through all of a request's work. What runs in steps asks it between two of them (`check`), what waits for
// others waits through it (`race`). It is over when its time is, or when its caller has gone: then `check` throws, and the work
// ends there. Whoever hands a write to the writer asks it for the last time: what was handed over is done and awaited.

import { QuiverError } from "@quiver/protocol/errors";
import { refuseUnknownOptions } from "@quiver/protocol/fields";
import { limits } from "@quiver/protocol/limits";
import { type Account, Task } from "./scheduler.ts";

/** How long a caller waits, of every call that may take long. */
export type CallOptions = Deadline | CallLimits;

export type CallLimits = {
  /** Milliseconds, above 0; then the call is refused with `deadline_exceeded`. Default: no limit. */
  readonly timeoutMs?: number | undefined;
  /** Ends the call when it aborts; the call then rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
  /** Asked at every step, with the deadline: throws when the caller may not go on, as with a key that was revoked. */
  readonly recheck?: (() => void) | undefined;
  /** Milliseconds of time slices that the call may take, above 0; then it is refused with `deadline_exceeded`. Default: no limit. */
  readonly workMs?: number | undefined;
  /** Who pays for the call's time slices. Default: one account for all callers that name none. */
  readonly account?: Account | undefined;
};

/** Of callers that name no account, as in embedded use. */
const anonymous: Account = { key: "" };

export class Deadline {
  readonly #endMs: number;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #recheck: (() => void) | undefined;
  readonly #account: Account | undefined;
  readonly #workMs: number;
  #task: Task | undefined;

  private constructor({
    timeoutMs = Number.POSITIVE_INFINITY,
    signal,
    recheck,
    account,
    workMs = Number.POSITIVE_INFINITY,
  }: CallLimits) {
    this.#account = account;
    this.#workMs = workMs;
    this.#timeoutMs = timeoutMs;
    this.#endMs = performance.now() + timeoutMs;
    this.#signal = signal;
    this.#recheck = recheck;
  }

  /** The one that never ends. */
  static readonly none = new Deadline({});

  /** Begins now. @throws unknown_field */
  static of(options: CallOptions = {}): Deadline {
    if (options instanceof Deadline) return options;
    refuseUnknownOptions(options, ["timeoutMs", "signal", "recheck", "account", "workMs"]);
    if (Object.values(options).every((option) => option === undefined)) return Deadline.none;
    return new Deadline(options);
  }

  /** The task whose slices the call's work runs in: one for all of the call, where the call has a deadline of its own. */
  get task(): Task {
    if (this === Deadline.none) return new Task(anonymous);
    this.#task ??= new Task(this.#account ?? anonymous, this);
    return this.#task;
  }

  /** Milliseconds that are left, 0 or more. */
  get leftMs(): number {
    return Math.max(0, this.#endMs - performance.now());
  }

  get isOver(): boolean {
    return this.#signal?.aborted === true || performance.now() >= this.#endMs || this.#isWorkOver;
  }

  get #isWorkOver(): boolean {
    return (this.#task?.receivedMs ?? 0) > this.#workMs;
  }

  /** @throws deadline_exceeded, the reason of the caller's signal, or what the caller's recheck throws */
  check(): void {
    if (this.isOver) throw this.reason;
    this.#recheck?.();
  }

  /** Why it is over. */
  get reason(): unknown {
    if (this.#signal?.aborted) return this.#signal.reason;
    if (this.#isWorkOver)
      return new QuiverError(
        "deadline_exceeded",
        `The request is more work than one may be: it took ${this.#workMs} ms of processor time, and was stopped; nothing was ` +
          "changed. Ask for less at a time.",
        { work_ms: this.#workMs },
      );
    return new QuiverError(
      "deadline_exceeded",
      `The request was not done within its ${this.#timeoutMs} ms, and was stopped; nothing was changed. ` +
        "Give it more time, or ask for less.",
      { timeout_ms: this.#timeoutMs },
    );
  }

  /**
   * Calls back once when it is over; at once where it is.
   * @returns to be called when nobody waits any more
   */
  onOver(act: (reason: unknown) => void): () => void {
    if (this.isOver) {
      act(this.reason);
      return () => {};
    }
    let timer: NodeJS.Timeout | undefined;
    const end = () => {
      clearTimeout(timer);
      this.#signal?.removeEventListener("abort", over);
    };
    const over = () => {
      end();
      act(this.reason);
    };
    const watch = () => {
      // Timers are exact to a millisecond, and take no more than so much.
      if (this.isOver) over();
      else timer = setTimeout(watch, Math.min(Math.ceil(this.leftMs), limits.requestDeadlineMsMax)).unref();
    };
    if (this.#endMs !== Number.POSITIVE_INFINITY) watch();
    this.#signal?.addEventListener("abort", over, { once: true });
    return end;
  }

  /** The promise's outcome, or a rejection when the time is over before. The promise must hold nothing that must be given back. */
  race<T>(promise: Promise<T>): Promise<T> {
    if (this.#endMs === Number.POSITIVE_INFINITY && this.#signal === undefined) return promise;
    return new Promise((resolve, reject) => {
      const end = this.onOver(reject);
      promise.then(
        (value) => {
          end();
          resolve(value);
        },
        (error: unknown) => {
          end();
          reject(error);
        },
      );
    });
  }
}
