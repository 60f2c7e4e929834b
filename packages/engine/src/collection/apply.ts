// How do many write requests become one durable write?
//
// Group commit: requests that wait together are applied in order inside one store write, share one version and
// one fsync, and are answered only after it. Each is still atomic: it checks everything before it changes
// anything, so that a refused one leaves no trace, and whoever fails later takes the whole group back, after
// which each is tried alone. A transaction's commit always has a write, and so a version, of its own.
//
// This is synchronous and knows no threads; `runtime/writer-thread.ts` calls it.

import { isQuiverError, QuiverError } from "@quiver/protocol/errors";
import type { DenseIndex, IndexKind, SparseIndex, TextIndex } from "@quiver/protocol/shapes/index-definition";
import { text, utf8 } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Store, Writer } from "../storage/store.ts";
import { Change } from "./change.ts";
import { type Head, readHead, writeHead } from "./head.ts";
import { readOperations } from "./record.ts";
import { metaKeys } from "./tables.ts";
import * as transactions from "./transaction.ts";

export type IndexDefinitions = { dense?: DenseIndex; sparse?: SparseIndex; "tf-idf"?: TextIndex };

export type WriteRequest =
  | { kind: "upsert"; batch: Uint8Array }
  | { kind: "delete"; batch: Uint8Array }
  | { kind: "begin"; random: string }
  | { kind: "stage"; transactionId: string; batch: Uint8Array }
  | { kind: "commit"; transactionId: string }
  /** Aborts; with `idleSinceMs` only when the last operation is not newer than that. */
  | { kind: "abort"; transactionId: string; idleSinceMs?: number }
  /** The version of a committed transaction is indexed. */
  | { kind: "complete"; transactionId: string; completedMs: number }
  | { kind: "createIndex"; index: IndexKind; definition: DenseIndex | SparseIndex | TextIndex }
  | { kind: "deleteIndex"; index: IndexKind };

export type WriteOutcome = { ok: true; version: number; value: unknown } | { ok: false; error: unknown };

export type WriteContext = {
  nowMs: number;
  versionsKept: number;
  maxVectors: number | null;
};

/**
 * Applies requests in order, in as few store writes as their kinds allow.
 * @returns one outcome for each request, in order; when it returns, what succeeded is durable
 */
export function applyRequests(
  store: Store,
  requests: readonly WriteRequest[],
  context: WriteContext,
): WriteOutcome[] {
  const outcomes: WriteOutcome[] = [];
  let group: WriteRequest[] = [];
  const flush = () => {
    if (group.length > 0) outcomes.push(...applyGroup(store, group, context));
    group = [];
  };
  for (const request of requests) {
    if (request.kind === "commit") {
      flush();
      outcomes.push(commitAlone(store, request, context));
    } else group.push(request);
  }
  flush();
  invariant(outcomes.length === requests.length, "a request has no outcome");
  return outcomes;
}

function applyGroup(store: Store, group: readonly WriteRequest[], context: WriteContext): WriteOutcome[] {
  try {
    failpoint("write:begin");
    const outcomes = store.write((writer) => {
      const session = new WriteSession(writer, context);
      const attempted = group.map((request) => session.attempt(request));
      failpoint("write:applied");
      session.finish();
      failpoint("write:finished");
      return attempted;
    });
    failpoint("write:durable");
    return outcomes;
  } catch (error) {
    if (group.length === 1) return [{ ok: false, error }];
    return group.flatMap((request) => applyGroup(store, [request], context));
  }
}

/** A commit, which on corrupted staged data ends its transaction as failed. */
function commitAlone(
  store: Store,
  request: WriteRequest & { kind: "commit" },
  context: WriteContext,
): WriteOutcome {
  const [outcome] = applyGroup(store, [request], context);
  if (!outcome.ok && isQuiverError(outcome.error, "data_corrupted")) {
    const { message } = outcome.error;
    store.write((writer) => {
      const head = readHead(writer);
      const entry = transactions.readTransaction(writer, request.transactionId);
      transactions.end(writer, head, entry, { state: "failed", endedMs: context.nowMs, message });
      writeHead(writer, head);
    });
  }
  return outcome;
}

/** Counts changes, so that a refused request can be told from one that failed half-way. */
class CountingWriter implements Writer {
  readonly #writer: Writer;
  changes = 0;

  constructor(writer: Writer) {
    this.#writer = writer;
  }

  get: Reader["get"] = (table, key) => this.#writer.get(table, key);
  entries: Reader["entries"] = (table, range) => this.#writer.entries(table, range);
  keys: Reader["keys"] = (table, range) => this.#writer.keys(table, range);

  put(table: string, key: Uint8Array, value: Uint8Array): void {
    this.changes++;
    this.#writer.put(table, key, value);
  }

  delete(table: string, key: Uint8Array): boolean {
    this.changes++;
    return this.#writer.delete(table, key);
  }

  clear(table: string): void {
    this.changes++;
    this.#writer.clear(table);
  }
}

/** One store write over several requests. */
class WriteSession {
  readonly #writer: CountingWriter;
  readonly #context: WriteContext;
  readonly #head: Head;
  /** The version in the making, shared by the group; made by the first request that changes records. */
  #change: Change | null = null;
  #headChanged = false;

  constructor(writer: Writer, context: WriteContext) {
    this.#writer = new CountingWriter(writer);
    this.#context = context;
    this.#head = readHead(writer);
  }

  attempt(request: WriteRequest): WriteOutcome {
    const before = this.#writer.changes;
    try {
      const value = this.#apply(request);
      return { ok: true, value, version: this.#change?.version ?? this.#head.version };
    } catch (error) {
      // Storage errors and corruption are never refusals, even when they come first.
      const refused = isQuiverError(error) && error.status < 500 && this.#writer.changes === before;
      if (!refused) throw error;
      return { ok: false, error };
    }
  }

  finish(): void {
    if (this.#change) this.#change.publish(this.#context.nowMs, this.#context.versionsKept);
    else if (this.#headChanged) writeHead(this.#writer, this.#head);
  }

  get #changing(): Change {
    this.#change ??= new Change(this.#writer, this.#head);
    return this.#change;
  }

  #exists = (id: Uint8Array): boolean => this.#writer.get("ids", id) !== undefined;

  get #roomFor(): number {
    const { maxVectors } = this.#context;
    return maxVectors === null ? Number.POSITIVE_INFINITY : maxVectors - this.#head.live;
  }

  #apply(request: WriteRequest): unknown {
    switch (request.kind) {
      case "upsert":
        return this.#upsert(request.batch);
      case "delete":
        return this.#delete(request.batch);
      case "begin": {
        const entry = transactions.begin(this.#writer, this.#head, this.#context.nowMs, request.random);
        this.#headChanged = true;
        return entry;
      }
      case "stage":
        return this.#stage(request.transactionId, request.batch);
      case "commit":
        return this.#commit(request.transactionId);
      case "abort":
        return this.#abort(request.transactionId, request.idleSinceMs);
      case "complete":
        return this.#complete(request.transactionId, request.completedMs);
      case "createIndex":
        return this.#createIndex(request.index, request.definition);
      case "deleteIndex":
        return this.#deleteIndex(request.index);
    }
  }

  #upsert(batch: Uint8Array): void {
    const room = this.#roomFor;
    if (Number.isFinite(room)) {
      const fresh = new Set<string>();
      for (const { id } of readOperations(batch)) if (!this.#exists(id)) fresh.add(text(id));
      if (fresh.size > room) throw transactions.tooManyVectors(this.#context.maxVectors, fresh.size - room);
    }
    for (const operation of readOperations(batch)) {
      invariant(operation.kind === "upsert", "a streaming upsert carries a delete");
      this.#changing.upsert(operation);
    }
  }

  #delete(batch: Uint8Array): void {
    for (const { id } of readOperations(batch)) {
      if (!this.#exists(id)) {
        const name = text(id);
        throw new QuiverError(
          "vector_not_found",
          `The collection has no vector '${name.slice(0, 80)}'; nothing was deleted.`,
          { vector_id: name },
        );
      }
      this.#changing.delete(id);
    }
  }

  #open(id: string): transactions.TransactionEntry {
    const entry = transactions.readTransaction(this.#writer, id);
    transactions.requireOpen(entry);
    return entry;
  }

  #stage(id: string, batch: Uint8Array): void {
    const { nowMs, maxVectors } = this.#context;
    const entry = this.#open(id);
    transactions.stage(this.#writer, entry, batch, nowMs, this.#exists, this.#roomFor, maxVectors);
  }

  #commit(id: string): transactions.TransactionEntry {
    const { nowMs, maxVectors } = this.#context;
    const entry = this.#open(id);
    invariant(this.#change === null, "a commit shares its version");
    const change = this.#changing;
    failpoint("commit:begin");
    transactions.applyStaged(this.#writer, entry, change);
    failpoint("commit:applied");
    if (maxVectors !== null && this.#head.live > maxVectors)
      throw transactions.tooManyVectors(maxVectors, this.#head.live - maxVectors);
    transactions.end(this.#writer, this.#head, entry, {
      state: "committed",
      committedMs: nowMs,
      updatedMs: nowMs,
      version: change.version,
    });
    failpoint("commit:ended");
    return entry;
  }

  #abort(id: string, idleSinceMs?: number): void {
    const { nowMs } = this.#context;
    const entry = this.#open(id);
    if (idleSinceMs !== undefined && entry.updatedMs > idleSinceMs) return;
    transactions.end(this.#writer, this.#head, entry, { state: "aborted", endedMs: nowMs, updatedMs: nowMs });
    this.#headChanged = true;
  }

  #complete(id: string, completedMs: number): void {
    const entry = transactions.readTransaction(this.#writer, id);
    if (entry.state !== "committed") return;
    transactions.writeTransaction(this.#writer, {
      ...entry,
      state: "complete",
      completedMs,
      updatedMs: completedMs,
    });
  }

  #createIndex(kind: IndexKind, definition: DenseIndex | SparseIndex | TextIndex): void {
    const definitions = readIndexDefinitions(this.#writer);
    if (definitions[kind])
      throw new QuiverError(
        "index_already_exists",
        `The ${kind} index already exists for the collection. DELETE .../indexes/${kind} removes it first.`,
        { index_type: kind },
      );
    this.#writeDefinitions({ ...definitions, [kind]: definition });
  }

  #deleteIndex(kind: IndexKind): void {
    const { [kind]: deleted, ...rest } = readIndexDefinitions(this.#writer);
    if (!deleted)
      throw new QuiverError("index_not_found", `The collection has no ${kind} index; nothing was deleted.`, {
        index_type: kind,
      });
    this.#writeDefinitions(rest);
  }

  #writeDefinitions(definitions: IndexDefinitions): void {
    this.#writer.put("meta", metaKeys.indexes, utf8(JSON.stringify(definitions)));
  }
}

/** Definitions of the collection's indexes, as they were created. */
export function readIndexDefinitions(reader: Reader): IndexDefinitions {
  const bytes = reader.get("meta", metaKeys.indexes);
  return bytes ? (JSON.parse(text(bytes)) as IndexDefinitions) : {};
}

/**
 * The same for every search: parses only what has changed, for a list of stop words can be long. The answers are shared
 * and must not be changed.
 */
export class IndexDefinitionsReader {
  #bytes = new Uint8Array(0);
  #definitions: Readonly<IndexDefinitions> = {};

  read(reader: Reader): Readonly<IndexDefinitions> {
    const bytes = reader.get("meta", metaKeys.indexes);
    if (bytes === undefined) return {};
    if (Buffer.compare(bytes, this.#bytes) !== 0) {
      this.#definitions = JSON.parse(text(bytes)) as IndexDefinitions;
      this.#bytes = Uint8Array.from(bytes);
    }
    return this.#definitions;
  }
}
