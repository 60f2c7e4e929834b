// Every call of a collection goes to one of its parts (collection/*.ts). This is the table of them: what every caller can do, and what
// only a caller can do who sees all records.
//
// A server gives `restrictedCalls`, and not `collectionCalls`, to a request whose key has a filter: so no endpoint can forget the filter.
// There, the answers of calls depend on no other records, and no other ones are changed. What tells of the whole collection (versions,
// indexes, recall, snapshots) is missing: docs/decisions/keys-with-filters.md.

import type { CallOptions } from "../base/deadline.ts";
import type { KeyFilter } from "../collection/key-filter.ts";
import type { Changes } from "./collection/changes.ts";
import type { Checks } from "./collection/checks.ts";
import type { EarlierVersions } from "./collection/earlier-versions.ts";
import type { IndexAdministration } from "./collection/indexes.ts";
import type { LoadState } from "./collection/load-state.ts";
import type { Matches } from "./collection/matches.ts";
import type { Merging } from "./collection/merging.ts";
import type { Records } from "./collection/records.ts";
import type { Searches } from "./collection/searches.ts";
import type { CollectionState } from "./collection/state.ts";
import type { Transactions } from "./collection/transactions.ts";
import type { Writes } from "./collection/writes.ts";
import type { Collection, RestrictedCollection, WriteCondition } from "./contract.ts";
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
  readonly earlier: EarlierVersions;
  readonly changes: Changes;
  readonly merging: Merging;
  readonly describe: Collection["describe"];
};

type Encoded = {
  /** Records that another thread has encoded. */
  upsertEncoded(
    batch: Uint8Array,
    records: number,
    options?: CallOptions,
    condition?: WriteCondition,
  ): Promise<void>;
};
export type CollectionCalls = Collection & Encoded;
export type RestrictedCalls = RestrictedCollection & Encoded;

/** @param keyFilter the records that the caller sees; null: all */
function callsOfEveryone(
  { writes, records, matches, indexes, searches, transactions }: CollectionParts,
  keyFilter: KeyFilter | null,
) {
  return {
    analyzeText: (request, options) => indexes.analyzeText(request, options),

    get: (id) => records.get(id, keyFilter),
    has: (id) => records.has(id, keyFilter),
    eachOfDocument: (document, take, options) => records.eachOfDocument(document, take, options, keyFilter),
    exportMatching: (request, options) => records.exportMatching(request, options, keyFilter),
    count: (request, options) => matches.count(request, options, keyFilter),
    facet: (request, options) => matches.facet(request, options, keyFilter),
    scroll: (request, options, reader) => matches.scroll(request, options, reader, keyFilter),
    fetch: (request, options) => matches.fetch(request, options, keyFilter),
    search: (kind, request, options) => searches.search(kind, request, options, keyFilter),

    upsert: (vectors, options, condition) => writes.upsert(vectors, options, keyFilter, condition),
    upsertEncoded: (batch, count, options, condition) =>
      writes.upsertEncoded(batch, count, options, keyFilter, condition),
    delete: (id, options, condition) => writes.delete(id, options, keyFilter, condition),
    deleteMatching: (request, options) => writes.deleteMatching(request, options, keyFilter),
    updateMatching: (request, options) => writes.updateMatching(request, options, keyFilter),
    patch: (id, request, options) => writes.patch(id, request, options, keyFilter),

    beginTransaction: (options) => transactions.beginTransaction(options, keyFilter),
    transaction: (id) => transactions.transaction(id, keyFilter),
    transactions: () => transactions.transactions(keyFilter),
  } satisfies Omit<RestrictedCalls, "name" | "describe">;
}

/** The collection for a caller who sees all of it. */
export function collectionCalls(parts: CollectionParts): CollectionCalls {
  const { state, load, records, indexes, searches, checks, earlier, changes, describe } = parts;
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
    at: (when) => earlier.at(when),
    restoreVersion: (when, options) => earlier.restoreVersion(when, options),
    async setHistory(policy, options) {
      await earlier.setHistory(policy, options);
      return describe();
    },
    putTag: (name, when, options) => earlier.putTag(name, when, options),
    deleteTag: (name, options) => earlier.deleteTag(name, options),
    diff: (from, to, options) => earlier.diff(from, to, options),
    changes: (request, options) => changes.read(request ?? {}, options),
    history: (id) => earlier.history(id),
    versions: (page) => records.versions(page),
    currentVersion: () => records.currentVersion(),
    version: (hash) => records.version(hash),

    createIndex: (kind, definition, options) => indexes.createIndex(kind, definition, options),
    indexes: () => indexes.indexes(),
    deleteIndex: (kind, options) => indexes.deleteIndex(kind, options),
    createMetadataIndex: (field, request, options) => indexes.createMetadataIndex(field, request, options),
    metadataIndexes: () => indexes.metadataIndexes(),
    deleteMetadataIndex: (field, options) => indexes.deleteMetadataIndex(field, options),
    measureRecall: (options, call) => searches.measureRecall(options, call),
  };
}

/** The collection for a caller who sees only some records. */
export function restrictedCalls(parts: CollectionParts, keyFilter: KeyFilter): RestrictedCalls {
  const calls = callsOfEveryone(parts, keyFilter);
  return discreet<RestrictedCalls>({
    name: parts.state.name,
    async describe() {
      const { disk_bytes: _, ...detail } = await parts.describe();
      const { count } = await parts.matches.count({}, undefined, keyFilter);
      return { ...detail, vectors_count: count };
    },
    ...calls,
    transaction: (id) => discreet(calls.transaction(id)),
  });
}
