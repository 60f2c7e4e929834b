// How do requests of one collection share messages?
//
// While a message of a collection is being published, its further requests wait, and become the next message together: so a log that takes
// longer gets larger messages, without any timer. Some requests, as commits, are alone in their message.

import { randomUUID } from "node:crypto";
import {
  type AppliedMessage,
  encodeMessage,
  errorOf,
  isAlone,
  type LoggedRequest,
  type Written,
} from "@quiverdb/engine/database/replication";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";

type Waiting = {
  readonly request: LoggedRequest;
  readonly bytes: number;
  resolve(written: Written): void;
  reject(error: unknown): void;
};

/** A message of this node, until it is applied. */
export type OwnMessage = {
  readonly opId: string;
  readonly internalId: string;
  readonly bytes: Uint8Array;
  /** Whether it was applied, or has failed. */
  isOver: boolean;
  /** @param outcomes undefined: this node had applied it before, and has forgotten what became of it */
  applied(outcomes: AppliedMessage["outcomes"]): void;
  failed(error: unknown): void;
};

export class RequestGroups {
  readonly #publish: (internalId: string, message: OwnMessage) => Promise<void>;
  readonly #waiting = new Map<string, Waiting[]>();
  #bytes = 0;

  /** @param publish resolves when the next message of the collection may be published; tells the message if it fails */
  constructor(publish: (internalId: string, message: OwnMessage) => Promise<void>) {
    this.#publish = publish;
  }

  write(internalId: string, request: LoggedRequest): Promise<Written> {
    const bytes = ("batch" in request ? request.batch.length : 0) + 256;
    if (this.#bytes > 0 && this.#bytes + bytes > limits.writerQueueBytesMax)
      throw new QuiverError(
        "overloaded",
        "Too many writes wait for the cluster's log; nothing was changed. Send the request again later.",
      );
    const { promise, resolve, reject } = Promise.withResolvers<Written>();
    const waiting = { request, bytes, resolve, reject };
    this.#bytes += bytes;
    const queue = this.#waiting.get(internalId);
    if (queue !== undefined) queue.push(waiting);
    else {
      this.#waiting.set(internalId, [waiting]);
      queueMicrotask(() => void this.#drain(internalId));
    }
    return promise;
  }

  async #drain(internalId: string): Promise<void> {
    const queue = this.#waiting.get(internalId) ?? [];
    while (queue.length > 0) {
      const group = queue.splice(0, groupEnd(queue));
      await this.#publish(internalId, messageOf(internalId, group));
      for (const { bytes } of group) this.#bytes -= bytes;
    }
    this.#waiting.delete(internalId);
  }
}

function groupEnd(queue: readonly Waiting[]): number {
  let end = 1;
  let { bytes } = queue[0];
  while (
    end < queue.length &&
    !isAlone(queue[end - 1].request) &&
    !isAlone(queue[end].request) &&
    end < limits.groupCommitRequestsMax &&
    bytes + queue[end].bytes <= limits.groupCommitBytesMax
  )
    bytes += queue[end++].bytes;
  return end;
}

function messageOf(internalId: string, group: readonly Waiting[]): OwnMessage {
  const opId = randomUUID().replaceAll("-", "");
  const requests = group.map(({ request }) => request);
  const message: OwnMessage = {
    opId,
    internalId,
    bytes: encodeMessage({ epoch: 0, timeMs: Date.now(), opId, requests }),
    isOver: false,
    applied(outcomes) {
      message.isOver = true;
      for (const [i, { resolve, reject }] of group.entries()) {
        const outcome = outcomes?.[i];
        if (outcome === undefined) reject(appliedBefore());
        else if (outcome.ok) resolve({ version: outcome.version, value: outcome.value });
        else reject(errorOf(outcome.error));
      }
    },
    failed(error) {
      message.isOver = true;
      for (const { reject } of group) reject(error);
    },
  };
  return message;
}

const appliedBefore = () =>
  new QuiverError(
    "log_unavailable",
    "The request was published twice, and it is unknown what became of it first. Look, or send it again: a repeated upsert or delete changes nothing.",
    { applied: "unknown", retry_after_seconds: 1 },
  );
