// Which nodes live, where are they, and how far is each?
//
// Each node tells it once a second in a bucket whose entries expire. This steers routing, and finds replicas that have applied different
// logs. Correctness rests on no clock: a node that is wrongly taken for dead has fewer requests, and nothing else.

import { setTimeout as delay } from "node:timers/promises";
import type { KV } from "@nats-io/kv";
import type { DatabaseLog } from "@quiverdb/engine/database/options";
import { QuiverError } from "@quiverdb/protocol/errors";
import { aliveMs } from "./connection.ts";

/** A place in a log: position, and the hash of all messages up to it, in hex. */
export type ToldPlace = readonly [position: number, hash: string];

/** What a node tells. */
export type Member = {
  readonly node: string;
  readonly url: string;
  readonly version: string;
  readonly catalog: ToldPlace;
  /** Position of each log up to which it has applied everything to the collections that it serves. */
  readonly logs: readonly number[];
  /** Position of each log behind which its next start reads. */
  readonly noted: readonly number[];
  /** Of collections that were written lately, by internal id. */
  readonly places: Readonly<Record<string, ToldPlace>>;
  /** Collections of its catalog that it cannot serve now, and why. */
  readonly broken: Readonly<Record<string, string>>;
  /** How far the copies are that it makes of some of them, by internal id. */
  readonly copying?: Readonly<Record<string, Copying>>;
};

/** @param expected about the bytes of the whole copy */
export type Copying = { readonly from: string; readonly bytes: number; readonly expected: number };

const tellMs = 1_000;
/** Without a word for so long, its own included, a node listens anew: the client of NATS looks for a lost consumer every half minute only. */
const silentMs = 4_000;

/**
 * Resolves when no living node of this name is elsewhere. What one has told that is gone expires; what is told anew is told by one that lives.
 * @throws data_directory_foreign
 */
export async function requireUnused(bucket: KV, node: string, url: string): Promise<void> {
  const told = async () => {
    for (const endMs = performance.now() + silentMs; ; await delay(tellMs / 4))
      try {
        return await bucket.get(node);
      } catch (error) {
        // A stream that was just made, or whose leader is gone, has nobody who answers.
        if (performance.now() > endMs) throw error;
      }
  };
  const first = await told();
  for (let entry = first; entry !== null && entry.operation === "PUT"; entry = await told()) {
    const member = entry.json<Member>();
    if (member.url === url) return;
    if (entry.revision !== first?.revision)
      throw new QuiverError(
        "data_directory_foreign",
        `The cluster has a node '${node}', which lives at ${member.url}. Give this one another name, or stop that one first.`,
        { node, url: member.url },
      );
    await delay(tellMs / 4);
  }
}

export class Members {
  readonly #bucket: KV;
  readonly #own: () => Member;
  readonly #onTold: (member: Member) => void;
  readonly #log: DatabaseLog;
  readonly #known = new Map<string, { member: Member; heardMs: number }>();
  #timer: NodeJS.Timeout | undefined;
  #watch: { stop(): void } | undefined;
  #heardMs = Number.POSITIVE_INFINITY;
  /** When the last word came, its own included. */
  #lastMs = 0;

  /** @param onTold called with what another node tells */
  constructor(bucket: KV, own: () => Member, onTold: (member: Member) => void, log: DatabaseLog) {
    this.#bucket = bucket;
    this.#own = own;
    this.#onTold = onTold;
    this.#log = log;
  }

  async start(): Promise<void> {
    this.#timer = setInterval(() => this.#tell(), tellMs);
    this.#tell();
    await this.#listen();
  }

  async #listen(): Promise<void> {
    const watch = await this.#bucket.watch();
    this.#watch = watch;
    this.#heardMs = performance.now();
    void (async () => {
      try {
        for await (const { key, operation, value } of watch) {
          this.#heardMs = this.#lastMs = performance.now();
          if (operation !== "PUT") this.#known.delete(key);
          else if (key !== this.#own().node) {
            const member = JSON.parse(Buffer.from(value).toString()) as Member;
            this.#known.set(key, { member, heardMs: performance.now() });
            this.#onTold(member);
          }
        }
      } catch (err) {
        this.#log.warn({ err }, "what other nodes tell is read again");
      }
      await this.#listenAgain();
    })();
  }

  async #listenAgain(): Promise<void> {
    for (let attempt = 0; this.#timer !== undefined; attempt++) {
      await delay(tellMs, undefined, { ref: false });
      try {
        return await this.#listen();
      } catch (err) {
        if (attempt === 0) this.#log.warn({ err }, "what other nodes tell cannot be read now");
      }
    }
  }

  #tell(): void {
    if (performance.now() - this.#heardMs > silentMs) this.#watch?.stop();
    const own = this.#own();
    // Without the servers nothing is told: then this node is not alive for others, which is true.
    this.#bucket.put(own.node, JSON.stringify(own)).catch(() => {});
  }

  /**
   * The other nodes that live: those that were heard shortly before the last word that came. A node that was paused or busy, or is cut off from
   * the servers, hears nobody, which says nothing of the others.
   */
  living(): Member[] {
    return [...this.#known.values()]
      .filter(({ heardMs }) => this.#lastMs - heardMs < aliveMs)
      .map(({ member }) => member);
  }

  /** Whether a node has told nothing for longer than it should: it may be paused, or dead. A busy one is not silent. */
  isSilent(url: string): boolean {
    const known = this.#known.values().find(({ member }) => member.url === url);
    return known === undefined || this.#lastMs - known.heardMs > 1.5 * tellMs;
  }

  async stop(): Promise<void> {
    // One that was refused has told nothing, and its name may be that of another.
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#watch?.stop();
    await this.#bucket.delete(this.#own().node).catch(() => {});
  }
}
