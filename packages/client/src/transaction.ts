// How does a caller use a transaction without leaving it open by accident?
//
//   open --commit--> committed        open --abort, or the end of `await using`--> aborted
//
// A commit or an abort whose response was lost is sent again. If the transaction is no longer open by then, its status shows whether the
// first request was executed.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { TransactionState } from "@quiverdb/protocol/shapes/transaction";
import { quiverError } from "./answer.ts";
import type { AnyMetadata } from "./filter-types.ts";
import { waitForIndexes } from "./indexes-ready.ts";
import type { RawRecord, RecordInput } from "./record.ts";
import type { BatchOptions, CallOptions, IfMatch, RequestParts, Transport } from "./transport.ts";
import { batchingOf, type Records, type UpsertResult, upsertInBatches } from "./upsert.ts";
import { type WaitOptions, waitFor } from "./wait.ts";

/** How a commit is waited for. */
export type CommitOptions = CallOptions & {
  /** Also waits until every index is ready with the changes. Searches see them even without this. */
  waitForIndex?: boolean | WaitOptions;
  /** Refuses the commit with `version_changed` unless this version is the current one; the transaction stays open. */
  ifVersion?: number;
};

/**
 * An open transaction: changes are buffered durably on the server and applied in one atomic step by `commit`. A collection has at most one.
 * Created by `collection.transaction()`.
 *
 * @example
 * ```ts no-run
 * import type { Collection } from "@quiverdb/client";
 * declare const collection: Collection;
 * await using tx = await collection.transaction();
 * await tx.upsert([{ id: "a", dense_values: [1, 0] }]);
 * await tx.delete("b");
 * await tx.commit();
 * // Without the commit, or when something throws before it, the end of the block aborts the transaction.
 * ```
 */
export class Transaction<Metadata = AnyMetadata> {
  /** The server's id of the transaction; `collection.resumeTransaction(id)` returns a new handle on it. */
  readonly id: string;
  /** ISO 8601; undefined on a handle that was created from an id. */
  readonly createdAt: string | undefined;
  readonly #transport: Transport;
  readonly #params: { collection_id: string; transaction_id: string };
  #ended = false;
  readonly #inDoubt = new Set<string>();

  constructor(transport: Transport, collection: string, id: string, createdAt?: string) {
    this.#transport = transport;
    this.#params = { collection_id: collection, transaction_id: id };
    this.id = id;
    this.createdAt = createdAt;
  }

  /**
   * Creates or replaces records by id, any number of them; within the transaction the last write to an id wins.
   * Splits them into requests as `collection.upsert` does. Repeating a request changes nothing.
   */
  upsert(records: Records<Metadata>, options: BatchOptions & CallOptions = {}): Promise<UpsertResult> {
    return upsertInBatches(records, batchingOf(options), this.#transport.form, (body) =>
      this.#transport.request("upsertVectors", { params: this.#params, ...body, call: options }),
    );
  }

  /** Creates or replaces one record, with the endpoint for a single record. */
  async add(record: RecordInput<Metadata> | RawRecord, call: CallOptions = {}): Promise<void> {
    const { form } = this.#transport;
    const body = form.single(form.record(record, null).part);
    await this.#transport.request("addVector", { params: this.#params, ...body, call });
  }

  /** Deletes a record. @throws QuiverError vector_not_found if the id is neither stored nor buffered */
  async delete(id: string, { ifMatch, ...call }: CallOptions & IfMatch = {}): Promise<void> {
    await this.#transport.request("deleteVectorInTransaction", {
      params: { ...this.#params, vector_id: id },
      query: { if_match: ifMatch?.toString() },
      call,
    });
  }

  /** Applies all changes atomically. When it resolves, they are durable and every search sees them. */
  async commit(options: CommitOptions = {}): Promise<void> {
    const { waitForIndex, ifVersion, ...call } = options;
    const query = ifVersion === undefined ? {} : { query: { if_version: String(ifVersion) } };
    await this.#end("commitTransaction", ["InProgress", "Complete"], call, query);
    if (waitForIndex) {
      const { signal, timeoutMs } = call;
      await this.waitForIndex(typeof waitForIndex === "object" ? waitForIndex : { signal, timeoutMs });
    }
  }

  /** Discards all changes. */
  async abort(call: CallOptions = {}): Promise<void> {
    await this.#end("abortTransaction", ["Aborted"], call);
  }

  /** The status as the REST interface returns it: an object with one key, the name of the state. */
  async status(call: CallOptions = {}): Promise<TransactionState> {
    const answer = await this.#transport.request("getTransactionStatus", { params: this.#params, call });
    return (answer as { status: TransactionState }).status;
  }

  /** Resolves when every index is ready with the committed changes: searches are as fast as they get. */
  async waitForIndex(options: WaitOptions = {}): Promise<void> {
    // Without changes no version was created.
    const version = await waitFor(
      `Indexing of transaction ${this.id}`,
      async (call) => {
        const status = await this.status(call);
        if ("InProgress" in status) return undefined;
        if ("Complete" in status) return status.Complete.stats.version_created ?? 0;
        throw this.#notOpen(status);
      },
      options,
      this.#transport.runtime,
    );
    await waitForIndexes(this.#transport, this.#params.collection_id, version, options);
  }

  /**
   * Aborts the transaction unless it was committed or aborted. Does not throw if the server is unreachable or the transaction has ended in
   * another way: the error that led here must not be hidden, and the server aborts idle transactions itself.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ended) return;
    try {
      await this.abort({ retries: 1 });
    } catch (error) {
      const harmless = [
        "connection_failed",
        "transaction_not_open",
        "transaction_not_found",
        "collection_not_found",
      ];
      if (error instanceof QuiverError && (error.retryable || harmless.includes(error.code))) return;
      throw error;
    }
  }

  /** Sends a commit or an abort; the states in `wanted` show that an earlier attempt was executed. */
  async #end(
    route: "commitTransaction" | "abortTransaction",
    wanted: readonly string[],
    call: CallOptions,
    query: Pick<RequestParts, "query"> = {},
  ): Promise<void> {
    try {
      await this.#transport.request(route, {
        params: this.#params,
        ...query,
        call,
        inDoubt: this.#inDoubt.has(route),
        settle: (error) => this.#settle(error, wanted, call),
      });
      this.#ended = true;
    } catch (error) {
      // The caller may call again; that call must remember that this attempt had no response.
      if (!(error instanceof QuiverError) || error.retryable) this.#inDoubt.add(route);
      throw error;
    }
  }

  async #settle(error: QuiverError, wanted: readonly string[], { signal }: CallOptions): Promise<void> {
    if (error.code !== "transaction_not_open") throw error;
    const status = await this.status({ signal });
    if (wanted.some((state) => state in status)) return;
    throw this.#notOpen(status, error);
  }

  #notOpen(status: TransactionState, cause?: QuiverError): QuiverError {
    const [[state, fields]] = Object.entries(status);
    const why = "message" in fields ? `: ${fields.message}` : "";
    return quiverError(
      "transaction_not_open",
      400,
      `Transaction ${this.id} is ${state}${why}; its changes are applied only if it is Complete or InProgress.`,
      { transaction_id: this.id, status },
      cause,
    );
  }
}
