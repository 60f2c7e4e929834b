// What can a caller do with a collection if only the records that match a filter exist for it?
//
// A server gives this handle, and not the collection, to a request whose key has a filter: so no endpoint can forget the filter. Here are
// only calls whose answers depend on no other records, and that change no others. What tells of the whole collection (versions, indexes,
// recall, snapshots) is missing: docs/decisions/keys-with-filters.md.

import { type ErrorCode, QuiverError } from "@quiverdb/protocol/errors";
import type { CallOptions } from "../base/deadline.ts";
import type { Rows } from "../collection/rows.ts";
import type { IndexAdministration } from "./collection/indexes.ts";
import type { Matches } from "./collection/matches.ts";
import type { Records } from "./collection/records.ts";
import type { Searches } from "./collection/searches.ts";
import type { Transactions } from "./collection/transactions.ts";
import type { Writes } from "./collection/writes.ts";
import type { Collection, RestrictedCollection } from "./contract.ts";

/** The parts of the collection. */
export type RestrictedParts = {
  readonly collection: Pick<Collection, "name" | "describe">;
  readonly writes: Writes;
  readonly records: Records;
  readonly matches: Matches;
  readonly indexes: IndexAdministration;
  readonly searches: Searches;
  readonly transactions: Transactions;
};

export type Restricted = RestrictedCollection & {
  /** Records that another thread has encoded. */
  upsertEncoded(batch: Uint8Array, records: number, options?: CallOptions): Promise<void>;
};

export function restrictedCollection(parts: RestrictedParts, rows: Rows): Restricted {
  const { collection, writes, records, matches, indexes, searches, transactions } = parts;
  const all: Restricted = {
    name: collection.name,
    async describe() {
      const { disk_bytes: _, ...detail } = await collection.describe();
      const { count } = await matches.count({}, undefined, rows);
      return { ...detail, vectors_count: count };
    },
    analyzeText: (request, options) => indexes.analyzeText(request, options),

    get: (id) => records.get(id, rows),
    has: (id) => records.has(id, rows),
    eachOfDocument: (document, take, options) => records.eachOfDocument(document, take, options, rows),
    exportMatching: (request, options) => records.exportMatching(request, options, rows),
    count: (request, options) => matches.count(request, options, rows),
    facet: (request, options) => matches.facet(request, options, rows),
    scroll: (request, options, reader) => matches.scroll(request, options, reader, rows),
    fetch: (request, options) => matches.fetch(request, options, rows),

    searchDense: (request, options) => searches.searchDense(request, options, rows),
    searchBatchDense: (request, options) => searches.searchBatchDense(request, options, rows),
    recommend: (request, options) => searches.recommend(request, options, rows),
    neighbors: (id, request, options) => searches.neighbors(id, request, options, rows),
    searchSparse: (request, options) => searches.searchSparse(request, options, rows),
    searchBatchSparse: (request, options) => searches.searchBatchSparse(request, options, rows),
    searchText: (request, options) => searches.searchText(request, options, rows),
    searchBatchText: (request, options) => searches.searchBatchText(request, options, rows),
    searchHybrid: (request, options) => searches.searchHybrid(request, options, rows),
    searchBatchHybrid: (request, options) => searches.searchBatchHybrid(request, options, rows),

    upsert: (vectors, options) => writes.upsert(vectors, options, rows),
    upsertEncoded: (batch, count, options) => writes.upsertEncoded(batch, count, options, rows),
    delete: (id, options) => writes.delete(id, options, rows),
    deleteMatching: (request, options) => writes.deleteMatching(request, options, rows),
    updateMatching: (request, options) => writes.updateMatching(request, options, rows),
    patch: (id, request, options) => writes.patch(id, request, options, rows),

    beginTransaction: () => transactions.beginTransaction(rows),
    transaction: (id) => discreet(transactions.transaction(id, rows)),
    transactions: () => transactions.transactions(rows),
  };
  return discreet(all);
}

/** The same methods, whose errors do not tell of other records and transactions. */
function discreet<T extends object>(methods: T): T {
  const wrap = (method: (...args: unknown[]) => unknown) =>
    function discreetly(...args: unknown[]): unknown {
      try {
        const made = method(...args);
        return made instanceof Promise ? made.catch(rethrow) : made;
      } catch (error) {
        return rethrow(error);
      }
    };
  const wrapped = Object.entries(methods).map(([name, member]) => [
    name,
    typeof member === "function" ? wrap(member as (...args: unknown[]) => unknown) : member,
  ]);
  return Object.fromEntries(wrapped) as T;
}

/** Messages of the errors that name numbers, ids or places of all records. */
const general: Partial<Record<ErrorCode, string>> = {
  max_vectors_exceeded:
    "The operation would exceed the collection's max_vectors. Nothing was changed; delete vectors first.",
  memory_budget_exceeded: "The operation needs more memory than there is. Nothing was changed.",
  transaction_ongoing:
    "There is an on-going transaction! A collection has at most one; try again when it has ended.",
  data_corrupted: "The collection has damaged data. An administrator finds it with 'quiver check'.",
};

function rethrow(error: unknown): never {
  const message = error instanceof QuiverError ? general[error.code] : undefined;
  if (message === undefined) throw error;
  throw new QuiverError((error as QuiverError).code, message, {}, { cause: error });
}
