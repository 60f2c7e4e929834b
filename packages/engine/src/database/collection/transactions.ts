// How are transactions opened, filled and ended, and what is their status?

import { createHash, randomBytes } from "node:crypto";
import { limits } from "@quiverdb/protocol/limits";
import type {
  FlatTransactionStatus,
  TransactionCreated,
  TransactionList,
  TransactionStatus,
} from "@quiverdb/protocol/shapes/transaction";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import type { Steps } from "../../base/steps.ts";
import type { KeyFilter } from "../../collection/key-filter.ts";
import {
  checkId,
  encodeDelete,
  encodeUpsertInSteps,
  encodeUpsertsInSteps,
  type IfRecord,
} from "../../collection/schema.ts";
import {
  type IndexedTransaction,
  indexedMs,
  listTransactions,
  openTransaction,
  readTransaction,
  type TransactionEntry,
  transactionNotFound,
  transactionSequence,
} from "../../collection/transaction.ts";
import { readVersion } from "../../collection/versions.ts";
import type { ReadTransaction } from "../../storage/store.ts";
import type { Transaction, WriteCondition } from "../contract.ts";
import { flatStatusOf, type IndexingProgress, isoTime, stateOf } from "../transaction-status.ts";
import type { CollectionMemory } from "./memory.ts";
import type { CollectionState } from "./state.ts";
import { conditionOf, requireNoBorn, type Writes } from "./writes.ts";

/**
 * How long completion times wait to be written, together. On a disk that fails each commit this is the only write of a store that was just
 * opened again: at once, it would break the store again and again, and no read would get through.
 */
const notingMs = 1_000;

export class Transactions {
  readonly #state: CollectionState;
  readonly #memory: CollectionMemory;
  readonly #writes: Writes;
  /** Versions of committed transactions that are not fully indexed, by transaction id. */
  readonly #indexingTransactions = new Map<string, number>();
  /** Completion times that are not in the store yet, by transaction id. */
  readonly #completedMs = new Map<string, number>();
  /** Completion times that are being written. */
  readonly #completing = new Set<string>();
  #isNotingSoon = false;

  constructor(state: CollectionState, memory: CollectionMemory, writes: Writes) {
    this.#state = state;
    this.#memory = memory;
    this.#writes = writes;
    state.read((readTxn) => {
      for (const transaction of listTransactions(readTxn))
        if (transaction.state === "committed" && indexedMs(readTxn, transaction.sequence) === undefined)
          this.#indexingTransactions.set(transaction.id, transaction.version as number);
    });
  }

  /** @param keyFilter of the caller, here and below; null: it sees all records */
  beginTransaction(options?: CallOptions, keyFilter: KeyFilter | null = null): Promise<TransactionCreated> {
    return this.#state.gate.pass(async () => {
      const random = keyFilter === null ? randomBytes(12).toString("hex") : markedId(keyFilter);
      const { value } = await this.#writes.write({ kind: "begin", random }, Deadline.of(options));
      const { id, createdMs } = value as TransactionEntry;
      return { transaction_id: id, created_at: isoTime(createdMs) };
    });
  }

  transaction(transactionId: string, keyFilter: KeyFilter | null = null): Transaction {
    const own = this.#ofCaller(transactionId, keyFilter);
    return {
      id: transactionId,
      add: (vector, options) =>
        own(() =>
          this.#stage(
            transactionId,
            () => encodeUpsertInSteps(this.#state.definition, vector),
            options,
            keyFilter,
            true,
          ),
        ),
      upsert: (vectors, options) =>
        own(() =>
          this.#stage(
            transactionId,
            () => encodeUpsertsInSteps(this.#state.definition, vectors, "vectors"),
            options,
            keyFilter,
          ),
        ),
      delete: (id, options, condition) =>
        own(() => this.#stageDelete(transactionId, id, options, keyFilter, condition)),
      commit: (options, condition) => own(() => this.#commit(transactionId, options, keyFilter, condition)),
      abort: (options) =>
        own(() =>
          this.#state.gate.pass(async () => {
            await this.#writes.write({ kind: "abort", transactionId }, Deadline.of(options));
          }),
        ),
      status: () => own(() => this.#status(transactionId, keyFilter)),
      flatStatus: () => own(() => this.#flatStatus(transactionId, keyFilter)),
    };
  }

  /** Calls what concerns a transaction; for a caller that has not begun it, it does not exist. @throws transaction_not_found */
  #ofCaller(transactionId: string, keyFilter: KeyFilter | null): <T>(call: () => T) => T {
    return (call) => {
      if (keyFilter !== null && !isMarked(transactionId, keyFilter)) throw transactionNotFound(transactionId);
      return call();
    };
  }

  #stage(
    transactionId: string,
    encode: () => Steps<Uint8Array>,
    options: CallOptions | undefined,
    keyFilter: KeyFilter | null,
    isSingle = false,
  ): Promise<void> {
    return this.#state.gate.pass(async () => {
      const deadline = Deadline.of(options);
      const encoded = deadline.task.begin(encode());
      const batch = encoded instanceof Promise ? await encoded : encoded;
      requireNoBorn(batch, keyFilter);
      // Staged records are only on disk. The commit takes the memory.
      const done = this.#memory.isLimited
        ? await this.#memory.admit("Staging records", 0, batch.length)
        : () => {};
      try {
        const { keyFilter: filter } = this.#writes.ofKeyFilter(keyFilter);
        const ofKeyFilter = filter && { keyFilter: { ...filter, isSingle } };
        await this.#writes.write({ kind: "stage", transactionId, batch, ...ofKeyFilter }, deadline);
      } finally {
        done();
      }
    });
  }

  #stageDelete(
    transactionId: string,
    id: string,
    options: CallOptions | undefined,
    keyFilter: KeyFilter | null,
    condition?: IfRecord,
  ): Promise<void> {
    return this.#state.gate.pass(async () => {
      checkId(id, "vector_id");
      const batch = encodeDelete(id, condition);
      requireNoBorn(batch, keyFilter);
      const request = {
        kind: "stage",
        transactionId,
        batch,
        ...this.#writes.ofKeyFilter(keyFilter),
      } as const;
      await this.#writes.write(request, Deadline.of(options));
    });
  }

  #commit(
    transactionId: string,
    options: CallOptions | undefined,
    keyFilter: KeyFilter | null,
    condition?: WriteCondition,
  ): Promise<void> {
    return this.#state.gate.pass(async () => {
      const deadline = Deadline.of(options);
      const ifVersion = conditionOf(condition, keyFilter);
      const { value } = await this.#writes.writeRecords(
        { kind: "commit", transactionId, ...ifVersion, ...this.#writes.ofKeyFilter(keyFilter) },
        "The commit of a transaction",
        this.#stagedSize(transactionId),
        deadline,
      );
      this.committed(transactionId, (value as TransactionEntry).version as number);
    });
  }

  /** A transaction was committed, here or on another node: its indexing is followed. */
  committed(transactionId: string, version: number): void {
    // A commit with a key can be repeated when it is long indexed.
    const isIndexed = (readTxn: ReadTransaction) => indexedMs(readTxn, transactionSequence(transactionId));
    if (this.#completedMs.has(transactionId) || this.#state.read(isIndexed) !== undefined) return;
    this.#indexingTransactions.set(transactionId, version);
    this.#forgetTransactions();
    this.completeTransactions(this.#state.indexer ? this.#state.indexer.completed : Number.POSITIVE_INFINITY);
  }

  /** The records and bytes that a commit adds, and the transient bytes of changed pages, up to a bound of the store. */
  #stagedSize(transactionId: string): { records: number; bytes: number; transientBytes: number } {
    const { staged, stagedBytes = 0 } = this.#state.read((readTxn) =>
      readTransaction(readTxn, transactionId),
    );
    return { records: staged, bytes: stagedBytes, transientBytes: Math.min(stagedBytes, commitBytesMax) };
  }

  /** Forgets transactions that the store no longer lists. */
  #forgetTransactions(): void {
    for (const notes of [this.#indexingTransactions, this.#completedMs])
      for (const id of notes.keys()) {
        if (notes.size <= limits.transactionsKept) break;
        notes.delete(id);
      }
  }

  transactions(keyFilter: KeyFilter | null = null): TransactionList {
    const now = this.#state.dependencies.clock();
    const kept = (readTxn: ReadTransaction) =>
      listTransactions(readTxn).filter(({ id }) => keyFilter === null || isMarked(id, keyFilter));
    return this.#state.read((readTxn) => ({
      transactions: kept(readTxn).map((kept) => {
        const entry = this.#asSeen(kept);
        return {
          transaction_id: entry.id,
          created_at: isoTime(entry.createdMs),
          status: stateOf(shownTo(keyFilter, entry), this.#progressOf(entry, readTxn), now),
        };
      }),
    }));
  }

  #status(transactionId: string, keyFilter: KeyFilter | null): TransactionStatus {
    return { status: this.#read(transactionId, keyFilter, stateOf) };
  }

  #flatStatus(transactionId: string, keyFilter: KeyFilter | null): FlatTransactionStatus {
    return this.#read(transactionId, keyFilter, flatStatusOf);
  }

  #read<T>(
    transactionId: string,
    keyFilter: KeyFilter | null,
    make: (entry: TransactionEntry, progress: IndexingProgress | null, nowMs: number) => T,
  ): T {
    return this.#state.read((readTxn) => {
      const entry = this.#asSeen(readTransaction(readTxn, transactionId));
      const progress = this.#progressOf(entry, readTxn);
      return make(shownTo(keyFilter, entry), progress, this.#state.dependencies.clock());
    });
  }

  /** A transaction counts as open until its commit is acknowledged or visible to searches. */
  #asSeen(entry: TransactionEntry): TransactionEntry {
    if (entry.version === undefined || entry.version <= this.#state.seenVersion) return entry;
    if (this.#state.indexer === null || this.#state.indexer.viewAt(entry.version) !== null) {
      this.#state.markSeen(entry.version);
      return entry;
    }
    const { version: _, committedMs: __, ...rest } = entry;
    return { ...rest, state: "open" };
  }

  #progressOf(entry: TransactionEntry, readTxn: ReadTransaction): IndexingProgress | null {
    if (entry.state !== "committed") return null;
    const completedMs = indexedMs(readTxn, entry.sequence) ?? this.#completedMs.get(entry.id);
    if (completedMs !== undefined) return { completedMs };
    const version = readVersion(readTxn, entry.version as number);
    const { firstOrdinal = 0, opened = 0 } = version ?? {};
    // 100 % only when the watermark has passed the version.
    return { fraction: Math.min(0.99, this.#state.indexer?.progress(firstOrdinal, opened) ?? 0.99) };
  }

  /** Marks the transactions up to a version as indexed: here at once, in the store soon. */
  completeTransactions(watermark: number): void {
    const completedMs = this.#state.dependencies.clock();
    for (const [id, version] of this.#indexingTransactions) {
      if (version > watermark) continue;
      this.#indexingTransactions.delete(id);
      this.#completedMs.set(id, completedMs);
    }
    if (this.#isNotingSoon || this.#completedMs.size === this.#completing.size) return;
    this.#isNotingSoon = true;
    this.#state.background.after("noting that transactions are indexed", notingMs, () => {
      this.#isNotingSoon = false;
      return this.#noteCompleted();
    });
  }

  /** Writes the completion times that wait, because the collection is closed. Never throws. */
  async note(): Promise<void> {
    if (this.#completedMs.size > this.#completing.size)
      await new Promise<void>((resolve) => {
        this.#state.background.once("noting that transactions are indexed", () =>
          this.#noteCompleted().finally(resolve),
        );
      });
  }

  /** Writes completion times to the store. If that fails, nothing is lost: the next start determines them again. */
  async #noteCompleted(): Promise<void> {
    const noting = [...this.#completedMs].filter(([id]) => !this.#completing.has(id));
    const transactions = noting.map(
      ([id, completedMs]): IndexedTransaction => [transactionSequence(id), completedMs],
    );
    for (const [id] of noting) this.#completing.add(id);
    try {
      const { entry, dependencies } = this.#state;
      await dependencies.writer.write(entry.internalId, { kind: "noteIndexed", transactions });
      for (const [id] of noting) this.#completedMs.delete(id);
    } finally {
      for (const [id] of noting) this.#completing.delete(id);
    }
  }

  /** Aborts the open transaction when its last operation is older than the limit. */
  async abortIdleTransaction(idleMs: number): Promise<void> {
    const idleSinceMs = this.#state.dependencies.clock() - idleMs;
    const open = this.#state.read((readTxn, head) => openTransaction(readTxn, head));
    if (!open || open.updatedMs > idleSinceMs) return;
    await this.#state.gate.pass(() =>
      this.#writes.write({ kind: "abort", transactionId: open.id, idleSinceMs }),
    );
    this.#state.dependencies.log.info(
      { transaction: open.id },
      "aborted a transaction that was idle for too long",
    );
  }
}

/**
 * 24 hex characters for the id of a transaction of a caller that sees only some records: 12 random ones and 12 that follow from them and the
 * filter. So the id alone tells, also after a restart and in every copy of the log, whether a caller with this filter has begun it.
 */
const markedId = (keyFilter: KeyFilter): string => {
  const random = randomBytes(6).toString("hex");
  return random + markOf(random, keyFilter);
};

const markOf = (random: string, { given }: KeyFilter): string =>
  createHash("sha256")
    .update(`${random} ${JSON.stringify(given)}`)
    .digest("hex")
    .slice(0, 12);

/** The numbers of versions count the writes of all callers. */
function shownTo(keyFilter: KeyFilter | null, entry: TransactionEntry): TransactionEntry {
  return keyFilter === null ? entry : { ...entry, version: undefined };
}

/** Whether a caller with this filter has begun the transaction; another one's id has the mark once in 2^48. */
function isMarked(transactionId: string, keyFilter: KeyFilter): boolean {
  const [, random, mark] = /-([0-9a-f]{12})([0-9a-f]{12})$/.exec(transactionId) ?? [];
  return random !== undefined && mark === markOf(random, keyFilter);
}

/** Upper bound of the changed pages that the store keeps in memory during one write, measured with commits of up to 16 GB. */
const commitBytesMax = 1.5 * 2 ** 30;
