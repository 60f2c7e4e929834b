// How do a node's requests become log entries, and in which order?
//
// This is the sequencer of a node alone. It turns all queued requests into one entry (group commit). Requests that a replicated log has
// ordered become entries in ordered.ts, by the same trial.
//
//   queued requests ---> trial ---> entry ---> durable ---> responses
//                          | refused: not in the entry, no trace
//
// The trial runs inside the store write that makes the entry durable. It accepts or refuses each request in the state that the previous
// requests left, and applies it if accepted. When the store write is durable, the entry exists and its requests get their
// responses. Until then a failure undoes the whole write:
//
//   - If a request fails half-way (damaged data, a commit beyond max_vectors), the trial is rolled back. The requests before it become
//     an entry without it, and those after it another.
//   - `storage_full` is detected before anything is durable. Then each request of the group is tried alone, because small ones may
//     still fit.
//   - Any other failure of the write fails every request of the group. The sequencer does not retry them one by one on a disk that has
//     just failed a sync. If it is unknown whether the entry was applied (`details.applied`), it is unknown for all of them.
//
// A commit is an entry of its own, and therefore a version of its own.

import { isQuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import {
  accept,
  isAlone,
  type LoggedRequest,
  requireVersion,
  requireWithinLimits,
  type WriteRequest,
} from "../collection/accept.ts";
import { type Answer, answerTo, keepAnswer, requireRoomForAnswer } from "../collection/answers.ts";
import { Application, type LogOperation } from "../collection/apply.ts";
import { readHead } from "../collection/head.ts";
import { readOperations } from "../collection/record.ts";
import type { Shard } from "../collection/shard.ts";
import { noteIndexed } from "../collection/transaction.ts";
import type { Store, Writer } from "../storage/store.ts";

/** The outcome of a request; `version` is the current version after it. */
export type WriteOutcome = { ok: true; version: number; value: unknown } | { ok: false; error: unknown };

export type TrialOptions = {
  /** How many versions this node keeps. */
  versionsKept: number;
  /** The most live records that the collection may have; null for no limit. */
  maxVectors: number | null;
  /** Whose records the store keeps; undefined: all. */
  shard?: Shard | undefined;
};

export type SequencerOptions = TrialOptions & {
  /** The time of entries. */
  clock(): number;
  /** 32 hex characters that no other entry has. */
  newOpId(): string;
};

/** The result of a trial. A failure concerns the request at `position`, or all requests if there is no position. */
type Tried =
  | { ok: true; outcomes: WriteOutcome[] }
  | { ok: false; error: unknown; position: number | undefined };

/** A new opId: a random UUID, because Node.js buffers the randomness for UUIDs and so makes fewer system calls than for random bytes. */
export function randomOpId(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

export class LocalSequencer {
  readonly #store: Store;
  readonly #options: SequencerOptions;

  constructor(store: Store, options: SequencerOptions) {
    this.#store = store;
    this.#options = options;
  }

  /**
   * Turns requests into entries, in order.
   * @returns the outcomes of the requests, in order. Each part has the outcomes of one durable entry. The next entry is made when the
   * caller asks for the next part
   */
  *write(requests: readonly WriteRequest[]): Generator<WriteOutcome[]> {
    for (let from = 0; from < requests.length; ) {
      const end = groupEnd(requests, from);
      yield* this.#writeGroup(requests.slice(from, end));
      from = end;
    }
  }

  *#writeGroup(group: readonly WriteRequest[]): Generator<WriteOutcome[]> {
    for (let rest = group; rest.length > 0; ) {
      const tried = this.#try(rest);
      if (tried.ok) {
        yield tried.outcomes;
        return;
      }
      const { error, position } = tried;
      if (isQuiverError(error, "storage_full") && rest.length > 1) {
        for (const request of rest) yield this.#outcomesOf([request]);
        return;
      }
      if (position === undefined) {
        yield failed(rest, error);
        return;
      }
      if (position > 0) yield this.#outcomesOf(rest.slice(0, position));
      this.#endTransaction(rest[position], error);
      yield failed([rest[position]], error);
      rest = rest.slice(position + 1);
    }
  }

  #outcomesOf(group: readonly WriteRequest[]): WriteOutcome[] {
    const tried = this.#try(group);
    return tried.ok ? tried.outcomes : failed(group, tried.error);
  }

  /** Marks a transaction as failed after its commit met damaged data. If the mark cannot be written, the transaction stays open. */
  #endTransaction(request: WriteRequest, error: unknown): void {
    if (request.kind !== "commit" || !isQuiverError(error, "data_corrupted")) return;
    this.#try([{ kind: "fail", transactionId: request.transactionId, message: error.message }]);
  }

  #try(group: readonly WriteRequest[]): Tried {
    let trial: Trial | undefined;
    try {
      failpoint("write:begin");
      this.#store.write((writer) => {
        trial = new Trial(writer, this.#options.clock(), this.#options);
        for (const request of group) trial.request(request);
        failpoint("write:applied");
        if (!trial.isEmpty) trial.finish(this.#options.newOpId());
        failpoint("write:finished");
      });
    } catch (error) {
      return { ok: false, error, position: trial?.failedAt };
    }
    failpoint("write:durable");
    invariant(trial?.outcomes.length === group.length, "a request has no outcome");
    return { ok: true, outcomes: trial.outcomes };
  }
}

/** Builds an entry inside a store write. */
export class Trial {
  readonly #writer: Writer;
  readonly #options: TrialOptions;
  readonly #timeMs: number;
  readonly #application: Application;
  #operations = 0;
  readonly outcomes: WriteOutcome[] = [];
  /** Position of the request that failed half-way. */
  failedAt: number | undefined;

  /** @param timeMs of everything that the entry does */
  constructor(writer: Writer, timeMs: number, options: TrialOptions) {
    this.#writer = writer;
    this.#options = options;
    this.#timeMs = timeMs;
    this.#application = new Application(
      writer,
      readHead(writer),
      this.#timeMs,
      options.versionsKept,
      options.shard,
    );
  }

  /** Accepts and applies a request, or records its rejection. @throws the error of a request that fails after it was applied in part */
  request(request: WriteRequest): void {
    try {
      this.outcomes.push(this.#attempt(request));
    } catch (error) {
      this.failedAt = this.outcomes.length;
      throw error;
    }
  }

  /** Records that a request was refused elsewhere. */
  refuse(error: unknown): void {
    this.outcomes.push({ ok: false, error });
  }

  #attempt(request: WriteRequest): WriteOutcome {
    if (request.kind === "noteIndexed") {
      noteIndexed(this.#writer, request.transactions);
      return { ok: true, value: null, version: this.#application.version };
    }
    const accepted = this.#accept(request);
    if (!accepted.ok) return accepted;
    if ("earlier" in accepted) return { ok: true, ...accepted.earlier };
    const { operation } = accepted;
    const applied = operation && this.#application.apply(operation);
    const value =
      "matching" in request ? recordsOf(operation) : "told" in request ? (request.told ?? null) : applied;
    if (operation !== null) this.#operations++;
    requireWithinLimits(request, this.#application.head, this.#options.maxVectors);
    const answer = { value, version: this.#application.version };
    if (request.once !== undefined) {
      keepAnswer(this.#writer, request.once, this.#timeMs, answer);
      this.#operations++;
    }
    return { ok: true, ...answer };
  }

  #accept(
    request: LoggedRequest,
  ):
    | { ok: true; operation: LogOperation | null }
    | { ok: true; earlier: Answer }
    | { ok: false; error: unknown } {
    try {
      const { maxVectors } = this.#options;
      if (request.once !== undefined) {
        const earlier = answerTo(this.#writer, request.once, this.#timeMs);
        if (earlier !== undefined) return { ok: true, earlier };
        requireRoomForAnswer(this.#writer, this.#timeMs);
      }
      const operation = accept(this.#writer, this.#application.head, request, maxVectors);
      requireVersion(request, this.#application.version);
      return { ok: true, operation };
    } catch (error) {
      // Storage errors and corruption are not rejections.
      if (isQuiverError(error) && error.status < 500) return { ok: false, error };
      throw error;
    }
  }

  /** Whether nothing was accepted that changes anything. */
  get isEmpty(): boolean {
    return this.#operations === 0;
  }

  /** Ends the trial. @param epoch default: that of the last entry, which is 0 where the log was never replicated */
  finish(opId: string, epoch = this.#application.head.epoch): void {
    this.#application.finish({ sequence: this.#application.head.sequence + 1, epoch, opId });
  }
}

/** How many records an operation changes. */
function recordsOf(operation: LogOperation | null): number {
  let records = 0;
  if (operation !== null && "batch" in operation) for (const _ of readOperations(operation.batch)) records++;
  return records;
}

const failed = (requests: readonly WriteRequest[], error: unknown): WriteOutcome[] =>
  requests.map(() => ({ ok: false, error }));

/** The end of the group that begins at `from`. A group has limited requests and bytes; a commit, for example, is a separate group (`isAlone`). */
function groupEnd(requests: readonly WriteRequest[], from: number): number {
  let end = from;
  let bytes = 0;
  do bytes += requestBytes(requests[end++]);
  while (
    end < requests.length &&
    !isAlone(requests[end - 1]) &&
    !isAlone(requests[end]) &&
    end - from < limits.groupCommitRequestsMax &&
    bytes + requestBytes(requests[end]) <= limits.groupCommitBytesMax
  );
  return end;
}

/** Bytes of a request, about. */
export function requestBytes(request: WriteRequest): number {
  return "batch" in request ? request.batch.length : 64;
}
