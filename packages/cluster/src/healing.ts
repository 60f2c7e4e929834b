// How does a node get a collection that it should hold and cannot serve?
//
// It copies the store of a node that has it, while that one goes on. Messages that are read meanwhile are kept, and applied behind the
// state of the copy, before later ones. If they become too many, the copy is made again. What this node has read and does not keep must be
// in the copy: the other node must have read as much.

import { setTimeout as delay } from "node:timers/promises";
import type { DatabaseLog } from "@quiverdb/engine/database/options";
import type { OrderedMessage, Replica } from "@quiverdb/engine/database/replication";
import type { Copying, Member } from "./members.ts";

/** Where a node gives copies, to nodes that know the secret. */
export const copyPath = (internalId: string): string => `/cluster/copies/${internalId}`;
/** About how many bytes a copy has. */
export const copyBytesHeader = "x-quiver-copy-bytes";
export const secretHeader = "x-quiver-cluster-secret";

const keptMessagesMax = 10_000;
const everyMs = 500;
/** Collections that are copied at a time. */
export const copiesMax = 4;

export type HealingParts = {
  readonly node: string;
  readonly secret: string;
  readonly replica: Replica;
  living(): readonly Member[];
  logOf(internalId: string): number;
  /** All messages of a log up to this position were given to this node's collections. */
  positionOf(log: number): number;
  /** Applies messages that were kept. @throws if it cannot: then the collection is still wanted, with these messages */
  onReceived(internalId: string, messages: readonly OrderedMessage[]): Promise<void>;
  readonly log: DatabaseLog;
};

type Wanted = {
  kept: OrderedMessage[];
  /** Position of the log up to which messages are not kept. */
  needed: number;
  why: string;
  copying?: Copying | undefined;
};

export class Healing {
  readonly #parts: HealingParts;
  /** By internal id. */
  readonly #wanted = new Map<string, Wanted>();
  readonly #copying = new Map<string, Promise<void>>();
  #isStopped = false;
  readonly #done: Promise<void>;

  constructor(parts: HealingParts) {
    this.#parts = parts;
    this.#done = this.#heal();
  }

  /** A collection must be received. @param needed position up to which this node has read its log and keeps nothing */
  add(internalId: string, needed: number): void {
    const wanted = this.#wanted.get(internalId) ?? { kept: [], needed, why: noneHasIt };
    wanted.needed = Math.max(wanted.needed, needed);
    this.#wanted.set(internalId, wanted);
  }

  /** Keeps messages of a collection that is being received. @returns whether it is */
  keep(internalId: string, messages: readonly OrderedMessage[]): boolean {
    const wanted = this.#wanted.get(internalId);
    if (wanted === undefined) return false;
    if (wanted.kept.length + messages.length > keptMessagesMax) {
      wanted.needed = (messages.at(-1) as OrderedMessage).position;
      wanted.kept = [];
    } else wanted.kept.push(...messages);
    return true;
  }

  /** Whether a collection is wanted: when its copy is there, it may still lack messages that were kept. */
  isWanted(internalId: string): boolean {
    return this.#wanted.has(internalId);
  }

  /** Whether a collection of a log is being received. */
  isCopying(log: number): boolean {
    return [...this.#wanted.keys()].some((internalId) => this.#parts.logOf(internalId) === log);
  }

  /** Collections that are wanted, and why they are not here. */
  broken(): Record<string, string> {
    return Object.fromEntries(Array.from(this.#wanted, ([internalId, { why }]) => [internalId, why]));
  }

  /** How far the copies are. */
  copying(): Record<string, Copying> {
    const all = Array.from(this.#wanted, ([internalId, { copying }]) => [internalId, copying] as const);
    return Object.fromEntries(all.filter((each): each is [string, Copying] => each[1] !== undefined));
  }

  async #heal(): Promise<void> {
    while (!this.#isStopped) {
      await delay(everyMs, undefined, { ref: false });
      this.#find();
      for (const [internalId, wanted] of this.#wanted) {
        if (this.#isStopped || this.#copying.size >= copiesMax) break;
        // Behind those that wait longer, if it fails.
        if (!this.#copying.has(internalId) && this.#givers(internalId, wanted).length > 0) {
          this.#wanted.delete(internalId);
          this.#wanted.set(internalId, wanted);
          const copied = this.#receive(internalId, wanted).finally(() => this.#copying.delete(internalId));
          this.#copying.set(internalId, copied);
        }
      }
    }
    await Promise.all(this.#copying.values());
  }

  /** The other nodes that have a collection, or may have it, and have read as much of its log as this one: its replicas first. */
  #givers(internalId: string, wanted: Wanted): Member[] {
    const { replica, logOf, living } = this.#parts;
    const at = logOf(internalId);
    const { replicas = [] } = replica.entryById(internalId) ?? {};
    const able = living().filter(({ broken, logs }) => !(internalId in broken) && logs[at] >= wanted.needed);
    return able.toSorted((a, b) => Number(replicas.includes(b.node)) - Number(replicas.includes(a.node)));
  }

  /** Collections that this node should have. */
  #find(): void {
    const { replica, node } = this.#parts;
    const held = new Set<string>();
    for (const { internalId, replicas } of replica.entries()) {
      if (replicas?.includes(node) !== true) continue;
      held.add(internalId);
      if (!replica.serves(internalId) && !this.#wanted.has(internalId))
        this.add(internalId, this.#parts.positionOf(this.#parts.logOf(internalId)));
    }
    for (const internalId of this.#wanted.keys()) if (!held.has(internalId)) this.#wanted.delete(internalId);
  }

  async #receive(internalId: string, wanted: Wanted): Promise<void> {
    const { replica, log } = this.#parts;
    for (const { node, url } of this.#givers(internalId, wanted)) {
      if (this.#isStopped) return;
      try {
        const { needed } = wanted;
        const response = await fetch(url + copyPath(internalId), {
          headers: { [secretHeader]: this.#parts.secret },
        });
        // It does not hold it, or no longer.
        if (response.status === 404) continue;
        if (!response.ok || response.body === null) throw new Error(`${url} answers ${response.status}`);
        const expected = Number(response.headers.get(copyBytesHeader));
        wanted.why = `it is being copied from '${node}'`;
        const told = (bytes: number) => {
          wanted.copying = { from: node, bytes, expected };
        };
        await replica.receive(internalId, counted(response.body, told));
        if (wanted.needed > needed) throw new Error("too many messages came meanwhile");
        while (wanted.kept.length > 0) await this.#parts.onReceived(internalId, wanted.kept.splice(0, 256));
        this.#wanted.delete(internalId);
        log.info({ store: internalId, from: node }, "a collection was copied from another node");
        return;
      } catch (err) {
        wanted.why = (err as Error).message;
        log.warn({ store: internalId, from: node, err }, "a collection could not be copied");
      } finally {
        wanted.copying = undefined;
      }
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#done;
  }
}

const noneHasIt = "no other node that lives has it, and has read as much of its log";

/** @param told is called with the bytes so far */
async function* counted(
  body: AsyncIterable<Uint8Array>,
  told: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.length;
    told(bytes);
    yield piece;
  }
}
