// In which order, and in which entries, do a node's requests become its log?
//
// This is the local sequencer: it makes one entry of what has queued (group commit), for a collection whose log nobody else
// writes. A replicated log has another one, which reads its entries from a stream.
//
//   requests that wait ---> trial ---> entry ---> durable ---> answers
//                             | refused: not in the entry, no trace
//
// The trial runs inside the store write that is to make the entry durable. Each request is accepted or refused in the state that the
// requests before it have left, and what is accepted is applied. When the trial ends, the accepted operations are the entry. What
// the trial has written is exactly what applying the entry writes, so the write is kept and nothing is done twice. The entry exists
// once that write is durable; then its requests are answered. Until then there is nothing that could be split:
//
//   - A request fails half-way (damaged data, a commit beyond max_vectors): the trial is taken back. The requests before it become one
//     entry, the requests behind it another.
//   - `storage_full`: nothing is durable yet. Each request of the group is tried alone, because a small one can still have room.
//   - Any other failure of the write fails every request of the group. A disk that failed a sync is not asked again for each of them.
//     When nobody knows whether the entry is there (`details.applied` is `unknown`), every request is told so.
//
// A commit is an entry of its own, and so is a version of its own.

import { isQuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import { accept, type LoggedRequest, requireWithinLimits, type WriteRequest } from "../collection/accept.ts";
import { Application, type LogEntry, type LogOperation } from "../collection/apply.ts";
import { readHead } from "../collection/head.ts";
import { noteIndexed } from "../collection/indexed.ts";
import type { Store, Writer } from "../storage/store.ts";

/** What became of a request; `version` is the current one after it. */
export type WriteOutcome = { ok: true; version: number; value: unknown } | { ok: false; error: unknown };

export type SequencerOptions = {
  /** How many versions the log keeps. */
  versionsKept: number;
  /** How many live records the collection may have; null: no limit. */
  maxVectors: number | null;
  /** The time of entries. */
  clock(): number;
  /** 32 hex characters that no other entry has. */
  newOpId(): string;
  /**
   * Given each entry, in order, when it is durable and before its requests are answered; must not throw. An entry of which it is not
   * known whether it is durable is not given: the next one then shows the gap.
   */
  record?(entry: LogEntry): void;
};

/** What a trial has come to. A failure may be of the request at `position`; without one it is of all. */
type Tried =
  | { ok: true; outcomes: WriteOutcome[] }
  | { ok: false; error: unknown; position: number | undefined };

/** An opId that no other entry has: a random UUID, for which Node.js asks the system less often than for bytes. */
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
   * Makes entries of requests, in their order.
   * @returns the outcomes of the requests, in their order and in parts: each part when all of it is durable. The next entry is made when
   * the next part is asked for
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

  /** A transaction whose commit has met damaged data has failed. Where even that cannot be written, it stays open. */
  #endTransaction(request: WriteRequest, error: unknown): void {
    if (request.kind !== "commit" || !isQuiverError(error, "data_corrupted")) return;
    this.#try([{ kind: "fail", transactionId: request.transactionId, message: error.message }]);
  }

  #try(group: readonly WriteRequest[]): Tried {
    let trial: Trial | undefined;
    let entry: LogEntry | null;
    try {
      failpoint("write:begin");
      entry = this.#store.write((writer) => {
        trial = new Trial(writer, this.#options);
        for (const request of group) trial.request(request);
        failpoint("write:applied");
        const made = trial.finish();
        failpoint("write:finished");
        return made;
      });
    } catch (error) {
      return { ok: false, error, position: trial?.failedAt };
    }
    failpoint("write:durable");
    if (entry !== null) this.#options.record?.(entry);
    invariant(trial?.outcomes.length === group.length, "a request has no outcome");
    return { ok: true, outcomes: trial.outcomes };
  }
}

/** An entry in the making, inside a store write. */
class Trial {
  readonly #writer: Writer;
  readonly #options: SequencerOptions;
  readonly #timeMs: number;
  readonly #application: Application;
  readonly #operations: LogOperation[] = [];
  readonly outcomes: WriteOutcome[] = [];
  /** The request that has failed half-way. */
  failedAt: number | undefined;

  constructor(writer: Writer, options: SequencerOptions) {
    this.#writer = writer;
    this.#options = options;
    this.#timeMs = options.clock();
    this.#application = new Application(writer, readHead(writer), this.#timeMs, options.versionsKept);
  }

  /** Accepts and applies a request, or notes that it is refused. @throws what lets it fail half-way */
  request(request: WriteRequest): void {
    try {
      this.outcomes.push(this.#attempt(request));
    } catch (error) {
      this.failedAt = this.outcomes.length;
      throw error;
    }
  }

  #attempt(request: WriteRequest): WriteOutcome {
    if (request.kind === "noteIndexed") {
      noteIndexed(this.#writer, request.transactions);
      return { ok: true, value: null, version: this.#application.version };
    }
    const accepted = this.#accept(request);
    if (!accepted.ok) return accepted;
    const { operation } = accepted;
    const value = operation && this.#application.apply(operation);
    if (operation !== null) this.#operations.push(operation);
    requireWithinLimits(request, this.#application.head, this.#options.maxVectors);
    return { ok: true, value, version: this.#application.version };
  }

  #accept(
    request: LoggedRequest,
  ): { ok: true; operation: LogOperation | null } | { ok: false; error: unknown } {
    try {
      const { maxVectors } = this.#options;
      return { ok: true, operation: accept(this.#writer, this.#application.head, request, maxVectors) };
    } catch (error) {
      // Storage errors and corruption are no refusals.
      if (isQuiverError(error) && error.status < 500) return { ok: false, error };
      throw error;
    }
  }

  /** Ends the trial. @returns the entry; null where nothing was accepted that would be part of one */
  finish(): LogEntry | null {
    if (this.#operations.length === 0) return null;
    const { sequence, epoch } = this.#application.head;
    const entry: LogEntry = {
      sequence: sequence + 1,
      // 0, but for a collection that was once part of a replicated log.
      epoch,
      opId: this.#options.newOpId(),
      timeMs: this.#timeMs,
      operations: this.#operations,
    };
    this.#application.finish(entry);
    return entry;
  }
}

const failed = (requests: readonly WriteRequest[], error: unknown): WriteOutcome[] =>
  requests.map(() => ({ ok: false, error }));

/** Where the group ends that begins at `from`: at most so many requests and bytes, and a commit alone. */
function groupEnd(requests: readonly WriteRequest[], from: number): number {
  let end = from;
  let bytes = 0;
  do bytes += batchBytes(requests[end++]);
  while (
    end < requests.length &&
    requests[end - 1].kind !== "commit" &&
    requests[end].kind !== "commit" &&
    end - from < limits.groupCommitRequestsMax &&
    bytes + batchBytes(requests[end]) <= limits.groupCommitBytesMax
  );
  return end;
}

function batchBytes(request: WriteRequest): number {
  return "batch" in request ? request.batch.length : 64;
}
