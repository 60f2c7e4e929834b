// How do two threads of a process call each other?
//
// Over a message port, in both directions. A call has a number; its answer has the same one. Messages arrive in the order in which they were
// posted, and the handler of a call is started when its message arrives.
//
// An error keeps its code, message and details; of any other error than a `QuiverError`, the stack is kept for the log. The deadline of a
// call counts where the call is executed: the caller tells its milliseconds, and later that it is gone. So a write that was passed to the
// writer is never reported as stopped.

import type { MessagePort, Transferable, Worker } from "node:worker_threads";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { type CallLimits, Deadline } from "../../base/deadline.ts";
import { invariant } from "../../base/invariant.ts";

/** What a handler knows of its call besides the arguments. */
export type CallContext = {
  /** `timeoutMs` and `signal` of the caller. */
  readonly limits: Pick<CallLimits, "timeoutMs" | "signal">;
};

// biome-ignore lint/suspicious/noExplicitAny: each kind of call has its own arguments; both ends are in one program
export type Handlers = Readonly<Record<string, (args: any, context: CallContext) => unknown>>;

type WireError = { code: string | undefined; message: string; details: object | undefined; stack: string };
type Message =
  | { readonly call: number; readonly kind: string; readonly args: unknown; readonly timeoutMs: number }
  | { readonly answer: number; readonly value?: unknown; readonly error?: WireError }
  | { readonly cancel: number };

type Pending = { resolve(value: never): void; reject(reason: unknown): void };

export class Calls {
  readonly #port: MessagePort | Worker;
  readonly #handlers: Handlers;
  readonly #pending = new Map<number, Pending>();
  /** Of calls of the other side: how to tell their handlers that the caller is gone. */
  readonly #running = new Map<number, AbortController>();
  #last = 0;
  #ended: Error | undefined;

  constructor(port: MessagePort | Worker, handlers: Handlers) {
    this.#port = port;
    this.#handlers = handlers;
    port.on("message", (message: Message) => this.#receive(message));
  }

  /**
   * @param deadline of the caller
   * @param transfer buffers that belong to the other thread from now on
   */
  async call<T>(
    kind: string,
    args: unknown,
    deadline: Deadline = Deadline.none,
    transfer: readonly Transferable[] = [],
  ): Promise<T> {
    if (this.#ended !== undefined) throw this.#ended;
    const call = ++this.#last;
    const stopWatching = deadline.onGone(() => this.#post({ cancel: call }));
    try {
      return await new Promise<T>((resolve, reject) => {
        this.#pending.set(call, { resolve: resolve as Pending["resolve"], reject });
        this.#post({ call, kind, args, timeoutMs: deadline.leftMs }, transfer);
      });
    } finally {
      stopWatching();
    }
  }

  /** The same without an answer: its handler must not fail. */
  tell(kind: string, args: unknown): void {
    this.#post({ call: untold, kind, args, timeoutMs: Number.POSITIVE_INFINITY });
  }

  /** Rejects all calls that are not answered, and every further one: the other thread has ended. */
  end(reason: Error): void {
    this.#ended ??= reason;
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
    for (const running of this.#running.values()) running.abort(reason);
  }

  #post(message: Message, transfer: readonly Transferable[] = []): void {
    if (this.#ended === undefined) this.#port.postMessage(message, transfer);
  }

  #receive(message: Message): void {
    if ("call" in message) void this.#run(message);
    else if ("cancel" in message)
      this.#running.get(message.cancel)?.abort(new Error("the client disconnected"));
    else {
      const pending = this.#pending.get(message.answer);
      // After `end`, nobody waits for it.
      if (pending === undefined) return;
      this.#pending.delete(message.answer);
      if (message.error === undefined) pending.resolve(message.value as never);
      else pending.reject(errorOf(message.error));
    }
  }

  async #run({ call, kind, args, timeoutMs }: Extract<Message, { call: number }>): Promise<void> {
    const running = new AbortController();
    if (call !== untold) this.#running.set(call, running);
    try {
      const handler = this.#handlers[kind];
      invariant(handler !== undefined, `no handler for calls of the kind '${kind}'`);
      const limits = {
        signal: running.signal,
        timeoutMs: Number.isFinite(timeoutMs) ? Math.max(timeoutMs, leastMs) : undefined,
      };
      const value = await handler(args, { limits });
      if (call !== untold) this.#post({ answer: call, value });
    } catch (error) {
      if (call === untold) throw error;
      this.#post({ answer: call, error: wireOf(error) });
    } finally {
      this.#running.delete(call);
    }
  }
}

/** The number of calls without an answer. */
const untold = 0;

/** A deadline must be above 0. */
const leastMs = 0.001;

function wireOf(error: unknown): WireError {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  const { code, details } = isQuiverError(error) ? error : { code: undefined, details: undefined };
  return { code, message, details, stack: stack ?? message };
}

function errorOf({ code, message, details, stack }: WireError): Error {
  const error =
    code === undefined
      ? new Error(message)
      : new QuiverError(code as QuiverError["code"], message, details as QuiverError["details"]);
  error.stack = stack;
  return error;
}
