// How does a message get into the log, once?
//
// Publishing is tried again under the same id until the log has acknowledged the message, or this node has read it back, or patience ends.
// The server drops a repeated id within two minutes, and replicas one that they remember.
//
//   no responder      the stream has no leader just now: nothing was stored
//   no answer         it may have been stored
//   stream is full    nothing was stored

import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { JetStreamApiError, type JetStreamClient } from "@nats-io/jetstream";
import type { ObjectStore } from "@nats-io/obj";
import { errors, headers } from "@nats-io/transport-node";
import { QuiverError } from "@quiverdb/protocol/errors";
import { logUnavailable } from "./errors.ts";
import { catalogHeader } from "./names.ts";

/** A larger message goes to the object store, and its name to the log. */
export const messageBytesMax = 4 * 1024 * 1024;
/** The first byte of what stands for a large message; a message begins with its form, 1. */
const largeMark = 0x7b;

/** For so long a failure is told, if nothing was published since. */
const unansweredMs = 15_000;

export type PublisherOptions = {
  readonly jetstream: JetStreamClient;
  readonly large: ObjectStore;
  /** How long publishing is tried. */
  readonly patienceMs: number;
  readonly attemptMs: number;
};

export class Publisher {
  readonly #options: PublisherOptions;
  /** Milliseconds of the latest acknowledgements. */
  readonly lastMs: number[] = [];
  #failedMs = Number.NEGATIVE_INFINITY;

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /** Whether no message was left without an answer lately. */
  get isAnswered(): boolean {
    return performance.now() - this.#failedMs > unansweredMs;
  }

  /**
   * Resolves when the log has the message, or `isOver` says that it was read back.
   * @param catalog the position of the catalog that whoever applies the message needs
   * @throws log_unavailable, overloaded
   */
  async publish(
    subject: string,
    opId: string,
    bytes: Uint8Array,
    catalog: number,
    isOver: () => boolean,
  ): Promise<void> {
    const { patienceMs } = this.#options;
    const begun = performance.now();
    const body = bytes.length > messageBytesMax ? await this.#putLarge(opId, bytes) : bytes;
    let why = "";
    let isUncertain = false;
    for (let waitMs = 50; ; waitMs = Math.min(1_000, waitMs * 2)) {
      const leftMs = patienceMs - (performance.now() - begun);
      if (isOver()) return;
      if (leftMs <= 0) this.#failedMs = performance.now();
      if (leftMs <= 0) throw logUnavailable(why, isUncertain ? "unknown" : "no");
      try {
        const message = headers();
        message.set(catalogHeader, String(catalog));
        await this.#options.jetstream.publish(subject, body, {
          msgID: opId,
          headers: message,
          timeout: Math.max(50, Math.min(this.#options.attemptMs, leftMs)),
          retries: 0,
        });
        this.#failedMs = Number.NEGATIVE_INFINITY;
        this.lastMs.push(performance.now() - begun);
        if (this.lastMs.length > 256) this.lastMs.shift();
        return;
      } catch (error) {
        why = (error as Error).message;
        if (isFull(error)) {
          if (isUncertain) throw logUnavailable(why, "unknown");
          throw new QuiverError(
            "overloaded",
            `The cluster's log is full (${why}); nothing was changed. Give the streams more room, or let nodes that are away catch up.`,
            { retry_after_seconds: 5 },
          );
        }
        if (!isWithoutResponder(error)) isUncertain = true;
      }
      await delay(Math.min(waitMs, Math.max(1, leftMs)));
    }
  }

  async #putLarge(opId: string, bytes: Uint8Array): Promise<Uint8Array> {
    try {
      await this.#options.large.putBlob({ name: opId }, bytes, { timeout: this.#options.patienceMs });
    } catch (error) {
      throw logUnavailable((error as Error).message);
    }
    const sha256 = createHash("sha256").update(bytes).digest("hex");
    return Buffer.from(JSON.stringify({ large: opId, sha256 }));
  }
}

/** The bytes of a message, of a large one from the object store. @throws Error if they are not there, or not those that were published */
export async function wholeBytes(data: Uint8Array, large: ObjectStore): Promise<Uint8Array> {
  if (data[0] !== largeMark) return data;
  const { large: name, sha256 } = JSON.parse(Buffer.from(data).toString()) as Record<
    "large" | "sha256",
    string
  >;
  const bytes = await large.getBlob(name);
  if (bytes === null) throw new Error(`the object store no longer has the large message ${name}`);
  if (createHash("sha256").update(bytes).digest("hex") !== sha256)
    throw new Error(`the bytes of the large message ${name} have changed in the object store`);
  return bytes;
}

/** The client of JetStream wraps the error. */
function isWithoutResponder(error: unknown): boolean {
  const { cause } = error as Error;
  if (error instanceof errors.RequestError) return error.isNoResponders();
  return error instanceof errors.NoRespondersError || (cause instanceof Error && isWithoutResponder(cause));
}

/** Codes of JetStream: maximum bytes, maximum messages, and the account's or the server's storage. */
const fullCodes = new Set([10077, 10047, 10023, 10028]);
const isFull = (error: unknown): boolean => error instanceof JetStreamApiError && fullCodes.has(error.code);
