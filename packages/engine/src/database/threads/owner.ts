// What does the owner of a database do for its serving threads?
//
// A thread searches in place: it has the memory of the indexes, and reads the stores. It asks for what it does not have: a collection that it
// meets for the first time, a view that is new enough, a search that only the owner can answer, and every write.
//
// A view that is posted stays pinned here until the thread says that it has pinned it itself, or dies.

import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { CallLimits } from "../../base/deadline.ts";
import { invariant } from "../../base/invariant.ts";
import { KeyFilter } from "../../collection/key-filter.ts";
import { type PostedResponse, postedResponse } from "../../query/result.ts";
import type { CallContext, Calls, Handlers } from "../../runtime/calls.ts";
import type { OpenCollection } from "../collection.ts";
import type { CollectionCalls, RestrictedCalls } from "../collection-calls.ts";
import { restrictedShardedCalls, shardedCalls } from "../shards/sharded-collection.ts";
import type { Shards } from "../shards/shards.ts";
import type {
  AcquiredView,
  Attachable,
  Caller,
  DeleteCall,
  SearchCall,
  UpsertCall,
  ViewAnswer,
  ViewCall,
} from "./messages.ts";

/** Checks that a payer may still write. @throws unauthorized */
export type Recheck = (payer: string) => void;

export type OwnedCollections = {
  /** @throws collection_not_found */
  find(name: string): OpenCollection;
  /** Of a collection of several shards, for a caller who sees the records of a filter. */
  shards(name: string, keyFilter?: Filter): Shards | undefined;
  readonly served: ReadonlyMap<string, OpenCollection>;
};

type Thread = { readonly calls: Calls; readonly leases: Map<number, AcquiredView> };

export class ThreadsOwner {
  readonly #collections: OwnedCollections;
  readonly #slots: number;
  readonly #threads = new Map<number, Thread>();
  #lastLease = 0;

  /** @param slots threads at a time, at most; numbered from 1 */
  constructor(collections: OwnedCollections, slots: number) {
    this.#collections = collections;
    this.#slots = slots;
  }

  /** Handlers for the calls of a thread. @param recheck whether a caller may still do what it asked for */
  handlers(slot: number, recheck: Recheck): Handlers {
    return {
      attach: ({ name }: { name: string }): Attachable => {
        const shards = this.#collections.shards(name);
        if (shards === undefined) return this.#collections.find(name).attachable;
        return { ...shards.home.attachable, isSharded: true };
      },
      view: (call: ViewCall, context) => this.#view(call, limitsOf(call.caller, context), slot),
      release: ({ lease }: { lease: number }) => release(this.#leasesOf(slot), lease),
      search: (call: SearchCall, context) => this.#search(call, limitsOf(call.caller, context)),
      upsert: ({ batch, records, condition, ...of }: UpsertCall, context) =>
        this.#collectionOf(of).upsertEncoded(
          batch,
          records,
          limitsOf(of.caller, context, recheck),
          condition,
        ),
      delete: ({ id, condition, ...of }: DeleteCall, context) =>
        this.#collectionOf(of).delete(id, limitsOf(of.caller, context, recheck), condition),
    };
  }

  #leasesOf(slot: number): Map<number, AcquiredView> {
    const thread = this.#threads.get(slot);
    invariant(thread !== undefined, `a call comes from the slot ${slot}, which has no thread`);
    return thread.leases;
  }

  /** The collection as it is for the caller. */
  #collectionOf({
    name,
    keyFilter,
  }: Pick<SearchCall, "name" | "keyFilter">): CollectionCalls | RestrictedCalls {
    const shards = this.#collections.shards(name, keyFilter ?? undefined);
    if (shards !== undefined)
      return keyFilter === null ? shardedCalls(shards) : restrictedShardedCalls(shards, keyFilter);
    const collection = this.#collections.find(name);
    return keyFilter === null ? collection.calls : collection.restrictedTo(new KeyFilter(keyFilter));
  }

  /** A thread begins to search. */
  admit(slot: number, calls: Calls): void {
    invariant(slot >= 1 && slot <= this.#slots, `there is no slot ${slot} of ${this.#slots}`);
    invariant(!this.#threads.has(slot), `the slot ${slot} has a thread`);
    this.#threads.set(slot, { calls, leases: new Map() });
  }

  /** A thread has ended: what it had is free. */
  abandon(slot: number): void {
    const thread = this.#threads.get(slot);
    if (thread === undefined) return;
    this.#threads.delete(slot);
    for (const { release: end } of thread.leases.values()) end();
    for (const collection of this.#collections.served.values()) collection.abandon(slot);
  }

  /** Resolves when no thread has the store of a collection open. */
  async closeStore(internalId: string): Promise<void> {
    await Promise.all(
      [...this.#threads.values()].map(({ calls }) =>
        // A thread that has ended has no store open.
        calls.call("close", { internalId }).catch(() => undefined),
      ),
    );
  }

  async #search({ kind, request, when, ...of }: SearchCall, limits: CallLimits): Promise<PostedResponse[]> {
    const collection = this.#collectionOf(of);
    const searched = when !== undefined && "at" in collection ? collection.at(when) : collection;
    const found = await searched.search(kind, request as never, limits);
    return [found].flat().map(postedResponse);
  }

  async #view(
    { name, internalId, kinds, filters }: ViewCall,
    limits: CallLimits,
    slot: number,
  ): Promise<ViewAnswer> {
    const leases = this.#leasesOf(slot);
    const collection = this.#collections.find(name);
    if (collection.entry.internalId !== internalId) return undefined;
    const acquired = await collection.acquireShared(kinds as IndexKind[], limits, filters);
    if (this.#threads.get(slot)?.leases !== leases) {
      // The thread has ended meanwhile.
      acquired.release();
      return undefined;
    }
    const lease = ++this.#lastLease;
    leases.set(lease, acquired);
    const { posted, matching } = acquired;
    return { lease, posted, matching };
  }
}

function release(leases: Map<number, AcquiredView>, lease: number): void {
  const acquired = leases.get(lease);
  invariant(acquired !== undefined, `the lease ${lease} is released, which does not exist`);
  leases.delete(lease);
  acquired.release();
}

const limitsOf = (
  { account, workMs, idempotencyKey }: Caller,
  { limits }: CallContext,
  recheck?: Recheck,
): CallLimits => ({
  ...limits,
  account,
  idempotencyKey,
  workMs: Number.isFinite(workMs) ? workMs : undefined,
  recheck: recheck && (() => recheck(account.key)),
});
