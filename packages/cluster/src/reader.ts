// How are the messages of a stream read, each once and in order, whatever happens to servers and connections?
//
// An ordered consumer is created anew by its client when messages are missing. Here it is created again, behind the last message that was
// read, when it ends for another reason, and when nothing is heard of it: the client looks for a lost one every half minute only. Each time it
// is found whether the stream still has what comes next.

import { setTimeout as delay } from "node:timers/promises";
import { type ConsumerMessages, DeliverPolicy, type JsMsg } from "@nats-io/jetstream";
import type { DatabaseLog } from "@quiverdb/engine/database/options";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import type { Connection } from "./connection.ts";
import { stopping } from "./errors.ts";

/** Messages that are applied together. */
const messagesMax = 256;
/** Bytes that wait to be applied. */
const waitingBytesMax = 64 * 1024 * 1024;
const againMs = 250;
const heartbeatMs = 1_000;
/** A consumer of which nothing was heard for so long is created again. */
const silentMs = 3_000;

export class StreamReader {
  readonly #connection: Pick<Connection, "jetstream" | "manager">;
  readonly #stream: string;
  readonly #apply: (messages: readonly JsMsg[]) => Promise<void>;
  readonly #onGone: (first: number) => Promise<number> | number;
  readonly #log: DatabaseLog;
  #next: number;
  #messages: ConsumerMessages | undefined;
  #isStopped = false;
  #isFailing = false;
  #done: Promise<void> = Promise.resolve();
  /** Calls that wait for a position, and which. */
  #waiting: { position: number; resolve: () => void; reject: (error: QuiverError) => void }[] = [];
  /** Why this program cannot read on. */
  #tooNew: QuiverError | undefined;

  /**
   * @param after position of the last message that was applied
   * @param apply applies messages; if it throws, they are read again
   * @param onGone called where the stream begins behind what comes next; gives the position behind which reading goes on
   */
  constructor(
    connection: Pick<Connection, "jetstream" | "manager">,
    stream: string,
    after: number,
    apply: (messages: readonly JsMsg[]) => Promise<void>,
    onGone: (first: number) => Promise<number> | number,
    log: DatabaseLog,
  ) {
    this.#connection = connection;
    this.#stream = stream;
    this.#next = after + 1;
    this.#apply = apply;
    this.#onGone = onGone;
    this.#log = log;
  }

  /** All messages up to this position are applied. */
  get position(): number {
    return this.#next - 1;
  }

  /** Whether it could not be read, or its next message not be applied, and nothing has come since. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  start(): void {
    this.#done = this.#read();
  }

  /** Resolves when all messages up to a position are applied, which can be never. @throws not_ready where this program cannot read on */
  reached(position: number): Promise<void> | undefined {
    if (position <= this.position) return undefined;
    if (this.#isStopped) return Promise.reject(stopping());
    if (this.#tooNew !== undefined) return Promise.reject(this.#tooNew);
    return new Promise((resolve, reject) => this.#waiting.push({ position, resolve, reject }));
  }

  get isTooNew(): boolean {
    return this.#tooNew !== undefined;
  }

  /** @throws not_ready where this program cannot read on */
  requireReadable(): void {
    if (this.#tooNew !== undefined) throw this.#tooNew;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#messages?.stop();
    // A log's message can wait for a change of the catalog that never comes.
    for (const { reject } of this.#waiting.splice(0)) reject(stopping());
    await this.#done;
  }

  async #read(): Promise<void> {
    while (!this.#isStopped) {
      try {
        const { state } = await this.#connection.manager.streams.info(this.#stream);
        if (state.first_seq > this.#next) this.#advance(await this.#onGone(state.first_seq));
        const consumer = await this.#connection.jetstream.consumers.get(this.#stream, {
          deliver_policy: DeliverPolicy.StartSequence,
          opt_start_seq: this.#next,
        });
        const messages = await consumer.consume({
          max_messages: 4 * messagesMax,
          idle_heartbeat: heartbeatMs,
        });
        this.#messages = messages;
        if (this.#isStopped) messages.stop();
        try {
          await this.#applyAll(messages);
        } finally {
          // The server removes one that nobody uses, too, after some minutes.
          consumer.delete().catch(() => {});
        }
      } catch (err) {
        this.#isFailing = true;
        if (isTooNew(err)) this.#stopAt(err);
        if (!this.#isStopped) this.#log.warn({ stream: this.#stream, err }, "a stream is read again");
      }
      if (!this.#isStopped) await delay(againMs);
    }
  }

  /** Applies what arrives; what arrives meanwhile is applied next, together. @throws what `apply` throws */
  async #applyAll(messages: ConsumerMessages): Promise<void> {
    const waiting: JsMsg[] = [];
    let bytes = 0;
    let applying: Promise<void> | undefined;
    let failure: unknown;
    let heardMs = performance.now();
    const heard = () => {
      heardMs = performance.now();
    };
    void (async () => {
      for await (const { type } of messages.status()) {
        if (type !== "heartbeat") continue;
        heard();
        // Nothing is there to read: what could not be read is gone.
        if (applying === undefined) this.#goesOn();
      }
    })();
    const silence = setInterval(() => {
      if (applying === undefined && performance.now() - heardMs > silentMs) messages.stop();
    }, heartbeatMs);
    const drain = async () => {
      while (waiting.length > 0 && !this.#isStopped) {
        const part = waiting.splice(0, messagesMax);
        for (const { data } of part) bytes -= data.length;
        await this.#apply(part);
        this.#advance((part.at(-1) as JsMsg).seq);
      }
      applying = undefined;
      heard();
    };
    try {
      for await (const message of messages) {
        heard();
        if (message.seq < this.#next) continue;
        waiting.push(message);
        bytes += message.data.length;
        applying ??= drain().catch((error: unknown) => {
          failure = error;
          messages.stop();
        });
        if (bytes > waitingBytesMax) await applying;
      }
    } finally {
      clearInterval(silence);
    }
    await applying;
    if (failure !== undefined) throw failure;
  }

  /** Those who wait for what a later program has written go to another node. */
  #stopAt(error: QuiverError): void {
    const why = `This node reads no further. ${error.message} Until then, send the request to another node.`;
    const details = { must_be_updated: true, retry_after_seconds: 1 };
    // One that waits for the catalog has its error already.
    this.#tooNew = error.code === "not_ready" ? error : new QuiverError("not_ready", why, details);
    for (const { reject } of this.#waiting.splice(0)) reject(this.#tooNew);
  }

  #goesOn(): void {
    this.#isFailing = false;
    this.#tooNew = undefined;
  }

  /** Also for messages that need not be applied. */
  #advance(position: number): void {
    this.#next = Math.max(this.#next, position + 1);
    this.#goesOn();
    const { reached = [], waiting = [] } = Object.groupBy(this.#waiting, (each) =>
      each.position <= position ? "reached" : "waiting",
    );
    this.#waiting = waiting;
    for (const { resolve } of reached) resolve();
  }
}

/** Whether what a later program has written cannot be read. */
export const isTooNew = (error: unknown): error is QuiverError =>
  isQuiverError(error) && (error.code === "format_too_new" || error.details.must_be_updated === true);
