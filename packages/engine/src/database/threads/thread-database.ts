// What can a serving thread do with the database of its process?
//
// Searches run here, in place. Everything else, and what cannot be searched here, goes to the owner of the database (owner.ts).
//
//   search ──> attached? ──no──> attach ──> view new enough? ──no──> ask for one ──> search in place
//                                                                 └─ NeedsOwner: the owner searches

import "../../process/node-host.ts";
import { invariant } from "@quiverdb/protocol/invariant";
import { limits } from "@quiverdb/protocol/limits";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import type { When } from "../../collection/history.ts";
import { KeyFilter } from "../../collection/key-filter.ts";
import { encodeUpsertsInSteps, type VectorWrite } from "../../collection/schema.ts";
import { tooDeep } from "../../filter/read-filter.ts";
import { depthOf } from "../../metadata/merge.ts";
import { answer } from "../../query/answer.ts";
import { answerOf, type SearchAnswer, type SearchKind, type SearchRequest } from "../../query/plan.ts";
import { type PostedResponse, receivedResponse } from "../../query/result.ts";
import type { Calls, Handlers } from "../../runtime/calls.ts";
import { storageError } from "../../storage/disk-error.ts";
import type { Collection, WriteCondition } from "../contract.ts";
import { discreetError } from "../discreet.ts";
import { AttachedCollection, callerOf } from "./attached-collection.ts";
import { NeedsOwner } from "./attached-view.ts";
import type { Attachable, DeleteCall, SearchCall, UpsertCall } from "./messages.ts";

/** What serving threads do with a collection themselves. */
export type ThreadCollection = Pick<Collection, "search" | "upsert" | "delete">;

/** Memory of ids of records, of all collections. */
const identityBytesMax = 32 * 2 ** 20;

export class ThreadDatabase {
  readonly #slot: number;
  #calls: Calls | undefined;
  /** By name. */
  readonly #attached = new Map<string, AttachedCollection>();
  readonly #attaching = new Map<string, Promise<AttachedCollection>>();

  /** @param slot of this thread among those that the owner admits, from 1 */
  constructor(slot: number) {
    this.#slot = slot;
  }

  /** For the calls of the owner. */
  readonly handlers: Handlers = {
    close: async ({ internalId }: { internalId: string }) => {
      for (const [name, collection] of this.#attached) {
        if (collection.internalId !== internalId) continue;
        this.#attached.delete(name);
        await collection.close();
      }
    },
  };

  /** @param calls to the owner; call it before anything is searched */
  connect(calls: Calls): void {
    this.#calls = calls;
  }

  collection(name: string): ThreadCollection {
    return new Forwarding(this, name, null);
  }

  /** For a caller that sees only some records (contract.ts). */
  restrictedTo(filter: Filter): { collection(name: string): ThreadCollection } {
    const keyFilter = new KeyFilter(filter);
    return { collection: (name) => new Forwarding(this, name, keyFilter) };
  }

  /** Closes all stores. */
  async close(): Promise<void> {
    const all = [...this.#attached.values()];
    this.#attached.clear();
    await Promise.all(all.map((collection) => collection.close()));
  }

  get calls(): Calls {
    invariant(this.#calls !== undefined, "a thread searches before it is connected");
    return this.#calls;
  }

  get #identityBytes(): number {
    let bytes = 0;
    for (const collection of this.#attached.values()) bytes += collection.identityBytes;
    return bytes;
  }

  /** The collection of a name. @throws collection_not_found */
  attached(name: string): AttachedCollection | Promise<AttachedCollection> {
    return this.#attached.get(name) ?? this.#attaching.get(name) ?? this.#attach(name);
  }

  #attach(name: string): Promise<AttachedCollection> {
    const attaching = this.calls
      .call<Attachable>("attach", { name })
      .then((attachable) => {
        const collection = this.#open(attachable);
        this.#attached.set(name, collection);
        return collection;
      })
      .finally(() => this.#attaching.delete(name));
    this.#attaching.set(name, attaching);
    return attaching;
  }

  /** @throws storage_failed, for example while the disk fails and the writer opens the store again */
  #open(attachable: Attachable): AttachedCollection {
    try {
      return new AttachedCollection(attachable, {
        slot: this.#slot,
        view: (call, deadline) => this.calls.call("view", call, deadline),
        release: (lease) => this.calls.tell("release", { lease }),
        mayTake: (bytes) => this.#identityBytes + bytes <= identityBytesMax,
      });
    } catch (error) {
      throw storageError(error, { path: attachable.directory });
    }
  }
}

/**
 * Whether the owner must answer a request in any case: it measures recall, explains from its own read transaction, and knows whether a caller
 * who sees only some records sees an example.
 */
const isForOwner = (
  kind: SearchKind,
  {
    explain,
    walk,
    recall_target = null,
  }: { explain?: boolean | null; walk?: boolean | null; recall_target?: number | null },
  keyFilter: KeyFilter | null,
): boolean =>
  explain === true ||
  walk === true ||
  recall_target !== null ||
  (keyFilter !== null && (kind === "recommend" || kind === "neighbors"));

/** A filter of this many levels of JSON has more than it may have, and of thousands of levels a thread cannot read what another posts. */
const filterDepthMax = 4 * limits.filterLevelsMax;

/** @throws invalid_filter */
function requirePostable(request: { filter?: unknown; queries?: readonly unknown[] }): void {
  const check = (filter: unknown, path: string) => {
    if (depthOf(filter, filterDepthMax) > filterDepthMax) throw tooDeep(path);
  };
  check(request.filter, "filter");
  for (const [i, query] of request.queries?.entries() ?? [])
    check((query as { filter?: unknown } | null)?.filter, `queries[${i}].filter`);
}

class Forwarding implements ThreadCollection {
  readonly #database: ThreadDatabase;
  readonly #name: string;
  readonly #keyFilter: KeyFilter | null;
  /** Earlier versions, which the owner searches; undefined for a caller who sees only some records. */
  readonly at?: (when: When) => Pick<ThreadCollection, "search">;

  /** @param keyFilter the filter of the records that the caller sees; null: all */
  constructor(database: ThreadDatabase, name: string, keyFilter: KeyFilter | null) {
    this.#database = database;
    this.#name = name;
    this.#keyFilter = keyFilter;
    if (keyFilter === null)
      this.at = (when) => ({
        search: (kind, request, options) => this.#search(kind, request, options, when),
      });
  }

  async upsert(
    vectors: readonly VectorWrite[],
    options?: CallOptions,
    condition?: WriteCondition,
  ): Promise<void> {
    const deadline = Deadline.of(options);
    const known = this.#database.attached(this.#name);
    const { definition } = known instanceof Promise ? await known : known;
    const records = vectors.length;
    const encoded = deadline.task.begin(encodeUpsertsInSteps(definition, vectors, "vectors"));
    const batch = encoded instanceof Promise ? await encoded : encoded;
    deadline.check();
    // It moves to the owner. Of a part of a larger memory, all of it would be posted.
    const isWhole = batch.buffer.byteLength === batch.byteLength;
    const own = isWhole ? batch : new Uint8Array(batch);
    const call: UpsertCall = { ...this.#of(deadline), batch: own, records, ...(condition && { condition }) };
    await this.#database.calls.call("upsert", call, deadline, [call.batch.buffer as ArrayBuffer]);
  }

  #of(deadline: Deadline): Pick<SearchCall, "name" | "keyFilter" | "caller"> {
    return { name: this.#name, keyFilter: this.#keyFilter?.given ?? null, caller: callerOf(deadline) };
  }

  async delete(id: string, options?: CallOptions, condition?: WriteCondition): Promise<void> {
    const deadline = Deadline.of(options);
    deadline.check();
    const call: DeleteCall = { ...this.#of(deadline), id, ...(condition && { condition }) };
    await this.#database.calls.call("delete", call, deadline);
  }

  search<K extends SearchKind>(
    kind: K,
    request: SearchRequest<K>,
    options?: CallOptions,
  ): Promise<SearchAnswer<K>> {
    return this.#search(kind, request, options);
  }

  async #search<K extends SearchKind>(
    kind: K,
    request: SearchRequest<K>,
    options: CallOptions | undefined,
    when?: When,
  ): Promise<SearchAnswer<K>> {
    const deadline = Deadline.of(options);
    if (when === undefined && !isForOwner(kind, request, this.#keyFilter)) {
      try {
        const known = this.#database.attached(this.#name);
        const collection = known instanceof Promise ? await known : known;
        return await collection.search(() => answer(collection, kind, request, deadline, this.#keyFilter));
      } catch (error) {
        if (!(error instanceof NeedsOwner)) throw this.#keyFilter === null ? error : discreetError(error);
      }
    }
    deadline.check();
    requirePostable(request);
    const call: SearchCall = { ...this.#of(deadline), kind, request, ...(when && { when }) };
    const found = await this.#database.calls.call<PostedResponse[]>("search", call, deadline);
    return answerOf(kind, found.map(receivedResponse));
  }
}
