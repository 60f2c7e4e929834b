// How are the shards of a collection asked?
//
// One of the shards of this node is *home*: whatever all shards know alike (versions, transactions, definitions, refusals) it answers alone, and
// it publishes what is written. The others are asked for their records: here, or on a node that serves them. Questions that concern several
// shards are asked at one version, which is chosen again, later, when one of them has passed it (collection/exact-versions.ts).

import { QuiverError } from "@quiverdb/protocol/errors";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import { utf8 } from "../../base/bytes.ts";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import { type CatalogEntry, collectionIdOf, nameOf } from "../../collection/definition.ts";
import { shardOf } from "../../collection/shard.ts";
import { boundaryOf } from "../collection/exact-versions.ts";
import type { OpenCollection } from "../collection.ts";
import type { ShardCall, ShardOptions } from "./call.ts";
import type { ShardAnswer, ShardArgs, ShardMethod } from "./shard.ts";

export type ShardAccess = {
  /** The entries of all shards, by number. */
  entries(): readonly CatalogEntry[];
  /** The shard, if this node serves it. */
  local(entry: CatalogEntry): OpenCollection | undefined;
  /** Asks a node that serves it. @throws not_ready if there is none */
  remote(entry: CatalogEntry, call: ShardCall, deadline: Deadline): Promise<unknown>;
};

/** How often a version is chosen for all shards, and how long after a failure the next is. */
const attemptsMax = 40;
const againMs = 15;

export class Shards {
  readonly #access: ShardAccess;
  readonly #keyFilter: Filter | undefined;

  /** @param keyFilter the records that the caller sees; undefined: all */
  constructor(access: ShardAccess, keyFilter?: Filter) {
    this.#access = access;
    this.#keyFilter = keyFilter;
  }

  /** A shard of this node. @throws not_ready if it serves none */
  get home(): OpenCollection {
    const entries = this.#access.entries();
    for (const entry of entries) {
      const local = this.#access.local(entry);
      if (local !== undefined) return local;
    }
    const name = entries.length === 0 ? "" : nameOf(entries[0].definition);
    throw new QuiverError(
      "not_ready",
      `This node serves no shard of the collection '${name}'. Send the request to one that does.`,
      { collection: name, retry_after_seconds: 1 },
    );
  }

  /** The internal id of the collection. @throws collection_not_found if it was deleted */
  get collectionId(): string {
    const [entry] = this.#access.entries();
    if (entry === undefined)
      throw new QuiverError("collection_not_found", "The collection was deleted meanwhile.");
    return collectionIdOf(entry.internalId);
  }

  get count(): number {
    return this.home.entry.definition.shard?.of ?? 1;
  }

  get numbers(): number[] {
    return Array.from({ length: this.count }, (_, number) => number);
  }

  /** The number of the shard of a record. */
  of(id: string): number {
    return shardOf(utf8(id), this.count);
  }

  async ask<M extends ShardMethod>(
    number: number,
    method: M,
    args: ShardArgs<M>,
    deadline: Deadline,
    options: ShardOptions = {},
  ): Promise<ShardAnswer<M>> {
    const entry = this.#access.entries().find(({ definition }) => definition.shard?.number === number);
    if (entry === undefined)
      throw new QuiverError(
        "not_ready",
        "The collection is being made, or was deleted, just now. Send the request again.",
        {
          retry_after_seconds: 1,
        },
      );
    const keyFilter = this.#keyFilter;
    const call: ShardCall = {
      method,
      args,
      options: keyFilter === undefined ? options : { ...options, keyFilter },
    };
    const local = this.#access.local(entry);
    const answer =
      local === undefined
        ? deadline.race(this.#access.remote(entry, call, deadline))
        : local.ask(call, deadline.limits);
    return (await answer) as ShardAnswer<M>;
  }

  /**
   * Asks all shards.
   * @param undo what is done with the answers of the others where one fails
   * @returns their answers, by number
   * @throws the first error, when all have answered
   */
  async all<M extends ShardMethod>(
    method: M,
    args: ShardArgs<M> | ((number: number) => ShardArgs<M>),
    deadline: Deadline,
    options: ShardOptions = {},
    undo?: (answer: ShardAnswer<M>, number: number) => void,
  ): Promise<ShardAnswer<M>[]> {
    const argsOf = typeof args === "function" ? (args as (number: number) => ShardArgs<M>) : () => args;
    const settled = await Promise.allSettled(
      this.numbers.map((number) => this.ask(number, method, argsOf(number), deadline, options)),
    );
    // A shard that has passed the version says how all can go on; other errors say more.
    const failed = settled.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
    const worst = failed.find(({ reason }) => boundaryOf(reason) === undefined) ?? failed[0];
    if (worst !== undefined) {
      for (const [number, each] of settled.entries())
        if (each.status === "fulfilled") undo?.(each.value, number);
      throw worst.reason;
    }
    return settled.map((each) => (each as PromiseFulfilledResult<ShardAnswer<M>>).value);
  }

  /**
   * Runs `act` with options by which all shards answer at one version: the newest that any client has seen through this node, or a later one.
   * @param version an earlier one that is asked for; undefined: none
   */
  async atOneVersion<T>(
    options: CallOptions | undefined,
    version: number | undefined,
    act: (options: ShardOptions & { readonly atVersion: number }, deadline: Deadline) => Promise<T>,
  ): Promise<T> {
    const deadline = Deadline.of(options);
    const { exact, parts } = this.home;
    const applied = parts.state.definedPosition;
    if (version !== undefined) return act({ atVersion: version, applied, isPast: true }, deadline);
    let atVersion = exact.newest;
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await act({ atVersion, applied }, deadline);
        // What was answered once is the least that later reads see.
        parts.state.markSeen(atVersion);
        return answer;
      } catch (error) {
        const boundary = boundaryOf(error);
        if (boundary === undefined || attempt === attemptsMax) throw error;
        await new Promise((resolve) => setTimeout(resolve, againMs));
        deadline.check();
        const latest = Math.max(boundary, exact.boundary);
        // Without a boundary that has what was seen, the next one comes soon, or nothing more is written.
        atVersion = latest >= parts.state.seenVersion ? latest : exact.newest;
      }
    }
  }
}
