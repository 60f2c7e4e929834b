// How do two threads of a process call each other?
//
// All threads of the engine and of the server do it like this: the writer, builders, backups, checks and serving threads. Over a message
// port, in both directions. A call has a number; its answer has the same one. Messages arrive in the order in which they were posted, and
// the handler of a call is started when its message arrives. It returns the answer, or says `later` and gives it by its context.
//
// A message that the receiver cannot read back, such as an object that is nested thousands of levels deep, says nothing of the call that it
// belonged to: all calls in both directions fail that are not answered.
//
// An error keeps its code, message, stack and cause, and a `QuiverError` its details. The deadline of a
// call counts where the call is executed: the caller tells its milliseconds, and later that it is gone. So a write that was passed to the
// writer is never reported as stopped.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type MessagePort, type ResourceLimits, type Transferable, Worker } from "node:worker_threads";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { type CallLimits, Deadline } from "../base/deadline.ts";
import { invariant } from "../base/invariant.ts";

/** What a handler knows of its call besides the arguments. */
export type CallContext = {
  /** `timeoutMs` and `signal` of the caller. */
  readonly limits: Pick<CallLimits, "timeoutMs" | "signal">;
  /** Posts the answer at once. A handler that calls it, or `fail`, returns `later`. */
  answer(value: unknown, transfer?: readonly Transferable[]): void;
  fail(error: unknown): void;
};

/** What a handler returns that answers by its context. */
export const later = Symbol("answers later");

// biome-ignore lint/suspicious/noExplicitAny: each kind of call has its own arguments; both ends are in one program
export type Handlers = Readonly<Record<string, (args: any, context: CallContext) => unknown>>;

/** Errors travel as text, because some errors of WebAssembly and of the system cannot be posted. */
export type WireError = {
  readonly code: string | undefined;
  readonly message: string;
  /** Of a QuiverError. */
  readonly details: object | undefined;
  readonly stack: string;
  readonly cause: string | undefined;
};
type Message =
  | { readonly call: number; readonly kind: string; readonly args: unknown; readonly timeoutMs: number }
  | { readonly answer: number; readonly value?: unknown; readonly error?: WireError }
  | { readonly cancel: number }
  /** A message of the other side could not be read. */
  | { readonly unread: string };

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
    port.on("messageerror", ({ message }: Error) => {
      this.#post({ unread: message });
      this.#failAll(unreadError(message));
    });
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
        this.#post({ call, kind, args, timeoutMs: deadline.leftMs }, transfer);
        this.#pending.set(call, { resolve: resolve as Pending["resolve"], reject });
      });
    } finally {
      stopWatching();
    }
  }

  /** Calls of this side that are not answered. */
  get pending(): number {
    return this.#pending.size;
  }

  /** The same without an answer: its handler must not fail. */
  tell(kind: string, args: unknown): void {
    this.#post({ call: untold, kind, args, timeoutMs: Number.POSITIVE_INFINITY });
  }

  /** Rejects all calls that are not answered, and every further one: the other thread has ended. */
  end(reason: Error): void {
    this.#ended ??= reason;
    this.#failAll(reason);
    for (const running of this.#running.values()) running.abort(reason);
  }

  #failAll(reason: Error): void {
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  #post(message: Message, transfer: readonly Transferable[] = []): void {
    if (this.#ended === undefined) this.#port.postMessage(message, transfer);
  }

  #receive(message: Message): void {
    if ("call" in message) void this.#run(message);
    else if ("cancel" in message)
      this.#running.get(message.cancel)?.abort(new Error("the client disconnected"));
    else if ("unread" in message) this.#failAll(unreadError(message.unread));
    else {
      const pending = this.#pending.get(message.answer);
      // Nobody waits for it after `end`, or after another message was not read.
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
      const value = await handler(args, {
        limits,
        answer: (answer, transfer) => this.#answer({ answer: call, value: answer }, transfer),
        fail: (error) => this.#answer({ answer: call, error: wireOf(error) }),
      });
      if (call !== untold && value !== later) this.#answer({ answer: call, value });
    } catch (error) {
      if (call === untold) throw error;
      this.#answer({ answer: call, error: wireOf(error) });
    }
  }

  #answer(message: Extract<Message, { answer: number }>, transfer?: readonly Transferable[]): void {
    this.#running.delete(message.answer);
    this.#post(message, transfer);
  }
}

const unreadError = (why: string) => new Error(`A message between two threads could not be read: ${why}`);

/** The number of calls without an answer. */
const untold = 0;

/** A deadline must be above 0. */
const leastMs = 0.001;

export function wireOf(error: unknown): WireError {
  const { message, stack = message, cause } = error instanceof Error ? error : new Error(String(error));
  const { code } = error as NodeJS.ErrnoException;
  const details = isQuiverError(error) ? error.details : undefined;
  return { code, message, details, stack, cause: cause === undefined ? undefined : textOf(cause) };
}

const textOf = (cause: unknown) => (cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));

export function errorOf({ code, message, details, stack, cause }: WireError): Error {
  const options = cause === undefined ? undefined : { cause: new Error(cause) };
  const error =
    details === undefined
      ? Object.assign(new Error(message, options), code === undefined ? {} : { code })
      : new QuiverError(code as QuiverError["code"], message, details as QuiverError["details"], options);
  error.stack = stack;
  return error;
}

export type ThreadOptions = {
  readonly name: string;
  /** Its `workerData`. */
  readonly start: unknown;
  /** Of its calls to this thread. */
  readonly handlers?: Handlers;
  readonly resourceLimits?: ResourceLimits;
  /** Called once, when it has ended without `stop`. @returns what its calls are rejected with; default: the cause */
  onEnd?(cause: Error): Error;
};

/** A worker thread that is called. Its calls are rejected when it ends by itself, and never answered when it was stopped. */
export class CalledThread {
  readonly calls: Calls;
  readonly worker: Worker;
  #isStopped = false;

  /** @param file with its program, a sibling of the one that names it */
  constructor(
    file: URL,
    { name, start, handlers = {}, resourceLimits, onEnd = (cause) => cause }: ThreadOptions,
  ) {
    this.worker = new Worker(threadFile(file), {
      workerData: start,
      name: `quiver ${name}`,
      ...(resourceLimits && { resourceLimits }),
    });
    this.calls = new Calls(this.worker, handlers);
    let cause: Error | undefined;
    this.worker.on("error", (error) => {
      cause = error as Error;
    });
    this.worker.on("exit", (code) => {
      if (!this.#isStopped)
        this.calls.end(onEnd(cause ?? new Error(`the thread '${name}' has ended with exit code ${code}`)));
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.worker.terminate();
  }

  /** Makes one call, and stops the thread. */
  async callOnce<T>(kind: string, args: unknown): Promise<T> {
    try {
      return await this.calls.call<T>(kind, args);
    } finally {
      await this.stop();
    }
  }
}

/**
 * The file of a thread's program.
 * @throws Error if it is missing, as in a program that was bundled into one file
 */
function threadFile(url: URL): URL {
  if (existsSync(fileURLToPath(url))) return url;
  throw new Error(
    `The file of a thread is missing: ${fileURLToPath(url)}. A bundler that puts a program into one file must leave out ` +
      "@quiverdb/database (esbuild: --external:@quiverdb/database), which then is installed beside the program.",
  );
}
