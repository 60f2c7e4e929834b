// Every call of a collection goes to one of its parts (collection/*.ts). This is the table of them: what every caller can do, and what
// only a caller can do who sees all records.
//
// A server gives `restrictedCalls`, and not `collectionCalls`, to a request whose key has a filter: so no endpoint can forget the filter.
// There, the answers of calls depend on no other records, and no other ones are changed. What tells of the whole collection (versions,
// indexes, recall, snapshots) is missing: docs/decisions/keys-with-filters.md.

import type { CallOptions } from "../base/deadline.ts";
import type { Rows } from "../collection/rows.ts";
import type { Checks } from "./collection/checks.ts";
import type { IndexAdministration } from "./collection/indexes.ts";
import type { LoadState } from "./collection/load-state.ts";
import type { Matches } from "./collection/matches.ts";
import type { Records } from "./collection/records.ts";
import type { Searches } from "./collection/searches.ts";
import type { CollectionState } from "./collection/state.ts";
import type { Transactions } from "./collection/transactions.ts";
import type { Writes } from "./collection/writes.ts";
import type { Collection, RestrictedCollection } from "./contract.ts";
import { discreet } from "./discreet.ts";

/** The parts of a collection, and its description, which is made of several. */
export type CollectionParts = {
  readonly state: CollectionState;
  readonly load: LoadState;
  readonly writes: Writes;
  readonly records: Records;
  readonly matches: Matches;
  readonly indexes: IndexAdministration;
  readonly searches: Searches;
  readonly checks: Checks;
  readonly transactions: Transactions;
  readonly describe: Collection["describe"];
};

type Encoded = {
  /** Records that another thread has encoded. */
  upsertEncoded(batch: Uint8Array, records: number, options?: CallOptions): Promise<void>;
};
export type CollectionCalls = Collection & Encoded;
export type RestrictedCalls = RestrictedCollection & Encoded;

/** @param rows the records that the caller sees; null: all */
function callsOfEveryone(
  { writes, records, matches, indexes, searches, transactions }: CollectionParts,
  rows: Rows | null,
) {
  return {
    analyzeText: (request, options) => indexes.analyzeText(request, options),

    get: (id) => records.get(id, rows),
    has: (id) => records.has(id, rows),
    eachOfDocument: (document, take, options) => records.eachOfDocument(document, take, options, rows),
    exportMatching: (request, options) => records.exportMatching(request, options, rows),
    count: (request, options) => matches.count(request, options, rows),
    facet: (request, options) => matches.facet(request, options, rows),
    scroll: (request, options, reader) => matches.scroll(request, options, reader, rows),
    fetch: (request, options) => matches.fetch(request, options, rows),
    search: (kind, request, options) => searches.search(kind, request, options, rows),

    upsert: (vectors, options) => writes.upsert(vectors, options, rows),
    upsertEncoded: (batch, count, options) => writes.upsertEncoded(batch, count, options, rows),
    delete: (id, options) => writes.delete(id, options, rows),
    deleteMatching: (request, options) => writes.deleteMatching(request, options, rows),
    updateMatching: (request, options) => writes.updateMatching(request, options, rows),
    patch: (id, request, options) => writes.patch(id, request, options, rows),

    beginTransaction: () => transactions.beginTransaction(rows),
    transaction: (id) => transactions.transaction(id, rows),
    transactions: () => transactions.transactions(rows),
  } satisfies Omit<RestrictedCalls, "name" | "describe">;
}

/** The collection for a caller who sees all of it. */
export function collectionCalls(parts: CollectionParts): CollectionCalls {
  const { state, load, records, indexes, searches, checks, describe } = parts;
  return {
    name: state.name,
    describe,
    ...callsOfEveryone(parts, null),
    async load(options) {
      await load.load(options);
      return describe();
    },
    unload: () => load.unload(),
    indexed: () => state.indexed(),
    check: () => checks.check(),

    byDocument: (document, options) => records.byDocument(document, options),
    exportVectors: () => records.exportVectors(),
    versions: (page) => records.versions(page),
    currentVersion: () => records.currentVersion(),
    version: (hash) => records.version(hash),

    createDenseIndex: (definition) => indexes.createDenseIndex(definition),
    createSparseIndex: (definition) => indexes.createSparseIndex(definition),
    createTextIndex: (definition) => indexes.createTextIndex(definition),
    indexes: () => indexes.indexes(),
    deleteIndex: (kind) => indexes.deleteIndex(kind),
    createMetadataIndex: (field, request) => indexes.createMetadataIndex(field, request),
    metadataIndexes: () => indexes.metadataIndexes(),
    deleteMetadataIndex: (field) => indexes.deleteMetadataIndex(field),
    measureRecall: (options, call) => searches.measureRecall(options, call),
  };
}

/** The collection for a caller who sees only some records. */
export function restrictedCalls(parts: CollectionParts, rows: Rows): RestrictedCalls {
  const calls = callsOfEveryone(parts, rows);
  return discreet<RestrictedCalls>({
    name: parts.state.name,
    async describe() {
      const { disk_bytes: _, ...detail } = await parts.describe();
      const { count } = await parts.matches.count({}, undefined, rows);
      return { ...detail, vectors_count: count };
    },
    ...calls,
    transaction: (id) => discreet(calls.transaction(id)),
  });
}
