// When must work on a request stop?
//
// A deadline accompanies all work on a request. Work in steps calls `check` between steps; work that waits for something waits through
// `race`. A deadline is over when its time has passed or its caller is gone. Then `check` throws, and the work ends. The last check of a
// write comes before it goes to the writer: from then on the write is completed and awaited.

import { fieldError, QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import type { Account } from "./fair-queue.ts";
import { inBackground, type Timer } from "./host.ts";
import { anonymous, Task } from "./scheduler.ts";

/** Options of every call that may take long: how long the caller waits. */
export type CallOptions = Deadline | CallLimits;

export type CallLimits = {
  /** Milliseconds, above 0, after which the call fails with `deadline_exceeded`. Default: no limit. */
  readonly timeoutMs?: number | undefined;
  /** Cancels the call when it aborts; the call then rejects with its reason. */
  readonly signal?: CancelSignal | undefined;
  /** Called at every step. Throws if the caller is no longer allowed to continue, for example because its key was revoked. */
  readonly recheck?: (() => void) | undefined;
  /** Milliseconds of time slices, above 0, after which the call fails with `deadline_exceeded`. Default: no limit. */
  readonly workMs?: number | undefined;
  /** Receives the steps of the call. Default: nobody. */
  readonly trace?: Trace | undefined;
  /** The account that is charged for the call's time slices. Default: one account for all callers that name none. */
  readonly account?: Account | undefined;
  /**
   * Of a write, 1 to 255 characters: a write with the same key is answered alike for 24 hours, and not done again. Default: none.
   * A request is refused if it has the key of another (`idempotency_key_reused`).
   */
  readonly idempotencyKey?: string | undefined;
  /** Of a part of a call that several shards answer: the version that all of them read (database/collection/exact-versions.ts). */
  readonly atVersion?: number | undefined;
};

/** What a deadline uses of an AbortSignal. */
export type CancelSignal = {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", act: () => void, options?: { once: boolean }): void;
  removeEventListener(type: "abort", act: () => void): void;
};

const optionNames = [
  "timeoutMs",
  "signal",
  "recheck",
  "account",
  "workMs",
  "trace",
  "idempotencyKey",
  "atVersion",
];

export class Deadline {
  readonly #endMs: number;
  readonly #timeoutMs: number;
  readonly #signal: CancelSignal | undefined;
  readonly #recheck: (() => void) | undefined;
  readonly #account: Account | undefined;
  readonly #workMs: number;
  #task: Task | undefined;
  /** Receives the steps of the call, if somebody does. */
  readonly trace: Trace | undefined;
  /** Of a write that is done once. */
  readonly idempotencyKey: string | undefined;
  /** The version that is read; undefined: the newest. */
  readonly atVersion: number | undefined;

  private constructor({
    timeoutMs = Number.POSITIVE_INFINITY,
    signal,
    recheck,
    account,
    workMs = Number.POSITIVE_INFINITY,
    trace,
    idempotencyKey,
    atVersion,
  }: CallLimits) {
    this.trace = trace;
    this.atVersion = atVersion;
    this.idempotencyKey = idempotencyKey;
    this.#account = account;
    this.#workMs = workMs;
    this.#timeoutMs = timeoutMs;
    this.#endMs = performance.now() + timeoutMs;
    this.#signal = signal;
    this.#recheck = recheck;
  }

  /** A deadline that is never over. */
  static readonly none = new Deadline({});

  /** A deadline that starts now. @throws unknown_field */
  static of(options: CallOptions = {}): Deadline {
    if (options instanceof Deadline) return options;
    refuseUnknownOptions(options, optionNames);
    const { idempotencyKey } = options;
    if (idempotencyKey !== undefined && !/^[\x20-\x7e]{1,255}$/.test(idempotencyKey))
      throw fieldError(
        "idempotency-key",
        "1 to 255 printable ASCII characters",
        "something else",
        "The Idempotency-Key is not 1 to 255 printable ASCII characters, such as a random UUID.",
      );
    if (Object.values(options).every((option) => option === undefined)) return Deadline.none;
    return new Deadline(options);
  }

  /** The task in whose time slices the work runs: one for the whole call, if the call has its own deadline. */
  get task(): Task {
    if (this === Deadline.none) return new Task(anonymous);
    this.#task ??= new Task(this.#account ?? anonymous, this);
    return this.#task;
  }

  /** A deadline of the same call and task that is over in so many milliseconds at the latest. */
  within(timeoutMs: number): Deadline {
    const sooner = new Deadline({ ...this.limits, timeoutMs: Math.min(timeoutMs, this.leftMs) });
    sooner.#task = this.task;
    return sooner;
  }

  /** Options of a part of the call, in the time that is left. */
  get limits(): CallLimits {
    return {
      timeoutMs: this.#endMs === Number.POSITIVE_INFINITY ? undefined : this.leftMs,
      signal: this.#signal,
      recheck: this.#recheck,
      account: this.#account,
      workMs: this.#workMs === Number.POSITIVE_INFINITY ? undefined : this.#workMs,
      trace: this.trace,
      idempotencyKey: this.idempotencyKey,
      atVersion: this.atVersion,
    };
  }

  /** Remaining milliseconds, 0 or more. */
  get leftMs(): number {
    return Math.max(0, this.#endMs - performance.now());
  }

  get isOver(): boolean {
    return this.#signal?.aborted === true || performance.now() >= this.#endMs || this.#isWorkOver;
  }

  get #isWorkOver(): boolean {
    return (this.#task?.receivedMs ?? 0) > this.#workMs;
  }

  /** @throws deadline_exceeded, the reason of the caller's signal, or the error of the caller's recheck */
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
        `The request exceeded the limit of work: it took ${this.#workMs} ms of processor time and was stopped; nothing was ` +
          "changed. Ask for less at a time.",
        { work_ms: this.#workMs },
      );
    return new QuiverError(
      "deadline_exceeded",
      `The request was not done within its ${this.#timeoutMs} ms, and was stopped; nothing was changed. ` +
        "Give it more time, or make it smaller.",
      { timeout_ms: this.#timeoutMs },
    );
  }

  /**
   * Calls back once, when the deadline is over, or immediately if it already is.
   * @returns a function that cancels the callback
   */
  onOver(act: (reason: unknown) => void): () => void {
    if (this.isOver) {
      act(this.reason);
      return () => {};
    }
    let timer: Timer | undefined;
    const end = () => {
      clearTimeout(timer);
      this.#signal?.removeEventListener("abort", over);
    };
    const over = () => {
      end();
      act(this.reason);
    };
    const watch = () => {
      // Timers have a resolution of a millisecond, and an upper limit.
      if (this.isOver) over();
      else
        timer = inBackground(
          setTimeout(watch, Math.min(Math.ceil(this.leftMs), limits.requestDeadlineMsMax)),
        );
    };
    if (this.#endMs !== Number.POSITIVE_INFINITY) watch();
    this.#signal?.addEventListener("abort", over, { once: true });
    return end;
  }

  /** Calls back once when the caller is gone; its time is not watched. @returns a function that cancels the callback */
  onGone(act: () => void): () => void {
    const signal = this.#signal;
    if (signal === undefined) return () => {};
    if (signal.aborted) {
      act();
      return () => {};
    }
    signal.addEventListener("abort", act, { once: true });
    return () => signal.removeEventListener("abort", act);
  }

  /** The account that is charged for its slices. */
  get account(): Account {
    return this.#account ?? anonymous;
  }

  /** Milliseconds of time slices that the work may take. */
  get workMs(): number {
    return this.#workMs;
  }

  /** The outcome of the promise, or a rejection if the deadline is over first. The promise must not hold a resource that needs releasing. */
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

export type TraceAttributes = Readonly<Record<string, string | number | boolean>>;

/** A step that has begun. One that fails is not ended: the trace ends with the request. */
export interface TraceSpan {
  end(attributes?: TraceAttributes): void;
}

/**
 * Receives the steps of one request. A caller that wants them passes a trace with the call (`CallOptions`), as the server does for
 * OpenTelemetry; without a trace, each step costs a comparison.
 */
export interface Trace {
  /** A step begins now. @param name such as `plan`, `leg`, `fetch` or `store` */
  begin(name: string, attributes?: TraceAttributes): TraceSpan;
}
