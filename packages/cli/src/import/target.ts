// Where do an import's records go: into the collection at once, or into a transaction?
//
// Both ways can be resumed. A streaming import recognises its collection by a version that it has seen; a transactional one continues its
// transaction as long as that is open.

import {
  type CallOptions,
  type Collection,
  isQuiverError,
  QuiverError,
  RawRecord,
  type Transaction,
} from "@quiverdb/client";
import type { Item } from "@quiverdb/import/files/item";
import { CommandError } from "../exit-codes.ts";
import type { ImportState } from "./state.ts";

/** A commit may write far more data than fits into memory, so it may take long. */
const commitTimeoutMs = 6 * 3_600_000;
/** Versions are kept only for a while (by default 1,000 of them), so the saved one is renewed well before it expires. */
const requestsBetweenVersions = 200;

export type StatePart = Pick<ImportState, "transactionId" | "version">;

export interface Target {
  /** The data that a state needs to find this target again. */
  readonly statePart: StatePart;
  send(records: readonly Item[], signal: AbortSignal): Promise<void>;
  /** Called when all records are stored. */
  finish(): Promise<void>;
  /** Abandons the import. Returns what became of what was acknowledged; undefined if that is stored. */
  abandon(call?: CallOptions): Promise<string | undefined>;
}

/** The result of looking up the target of a state. */
export type Found =
  | { readonly kind: "usable"; readonly target: Target }
  /** The import had already ended; only the last response was lost. */
  | { readonly kind: "finished" }
  | { readonly kind: "unusable"; readonly why: string };

// One request per batch, because the batches already have the right size.
const whole = (records: readonly Item[], signal: AbortSignal) => ({
  batchRecords: Math.max(1, records.length),
  batchBytes: Number.MAX_SAFE_INTEGER,
  signal,
});
const raw = (records: readonly Item[]) => records.map(({ json }) => new RawRecord(json));

export class StreamingTarget implements Target {
  readonly #collection: Collection;
  #version: ImportState["version"];
  #requests = 0;

  constructor(collection: Collection, version: ImportState["version"]) {
    this.#collection = collection;
    this.#version = version;
  }

  static async open(collection: Collection): Promise<StreamingTarget> {
    return new StreamingTarget(collection, await versionOf(collection));
  }

  static async resume(collection: Collection, { version }: StatePart): Promise<Found> {
    if (!version) return { kind: "unusable", why: "it was interrupted before its first acknowledged batch" };
    try {
      await collection.version(version.hash);
    } catch (error) {
      if (!isQuiverError(error, "invalid_version_hash")) throw error;
      return {
        kind: "unusable",
        why: "the collection's versions do not show whether it is still the same collection",
      };
    }
    return { kind: "usable", target: await StreamingTarget.open(collection) };
  }

  get statePart(): StatePart {
    return { transactionId: null, version: this.#version };
  }

  async send(records: readonly Item[], signal: AbortSignal): Promise<void> {
    await this.#collection.upsert(raw(records), whole(records, signal));
    this.#requests++;
    if (this.#requests % requestsBetweenVersions === 0) this.#version = await versionOf(this.#collection);
  }

  async finish(): Promise<void> {}

  async abandon(): Promise<undefined> {}
}

export class TransactionTarget implements Target {
  readonly #transaction: Transaction;

  constructor(transaction: Transaction) {
    this.#transaction = transaction;
  }

  static async open(collection: Collection): Promise<TransactionTarget> {
    try {
      return new TransactionTarget(await collection.transaction());
    } catch (error) {
      if (!isQuiverError(error, "transaction_ongoing")) throw error;
      throw new CommandError(
        `${error.message} See it with: quiver transactions list ${collection.name} - and commit or abort it, or import with --streaming.`,
        { cause: error },
      );
    }
  }

  static async resume(collection: Collection, { transactionId }: StatePart): Promise<Found> {
    if (transactionId === null)
      return { kind: "unusable", why: "it was interrupted before its transaction was open" };
    const transaction = collection.resumeTransaction(transactionId);
    try {
      const status = await transaction.status();
      if ("NotStarted" in status) return { kind: "usable", target: new TransactionTarget(transaction) };
      if ("Complete" in status || "InProgress" in status) return { kind: "finished" };
      return { kind: "unusable", why: `its transaction is ${Object.keys(status)[0].toLowerCase()}` };
    } catch (error) {
      if (!isQuiverError(error, "transaction_not_found")) throw error;
      return { kind: "unusable", why: "its transaction no longer exists" };
    }
  }

  get statePart(): StatePart {
    return { transactionId: this.#transaction.id, version: null };
  }

  async send(records: readonly Item[], signal: AbortSignal): Promise<void> {
    try {
      await this.#transaction.upsert(raw(records), whole(records, signal));
    } catch (error) {
      if (!isQuiverError(error, "transaction_not_open")) throw error;
      throw new CommandError(
        `${error.message} Nothing of the import was stored in the collection; run the command again to start over.`,
        { cause: error },
      );
    }
  }

  async finish(): Promise<void> {
    await this.#transaction.commit({ timeoutMs: commitTimeoutMs });
  }

  async abandon(call?: CallOptions): Promise<string> {
    await this.#transaction.abort(call);
    return "The transaction was aborted; nothing of the import was stored in the collection.";
  }
}

async function versionOf(collection: Collection): Promise<ImportState["version"]> {
  try {
    const { version_number, hash } = await collection.currentVersion();
    return { number: version_number, hash };
  } catch (error) {
    // Without it the import still works, but cannot be resumed. A key with a filter is not told of versions.
    if (error instanceof QuiverError && (error.retryable || error.code === "forbidden")) return null;
    throw error;
  }
}
