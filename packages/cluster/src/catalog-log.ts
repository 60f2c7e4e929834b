// How is the catalog's log written and applied?
//
// Its changes are applied one by one, in order.

import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { JsMsg } from "@nats-io/jetstream";
import type { DatabaseLog } from "@quiverdb/engine/database/options";
import type { AppliedChange, Replica, SharedChange } from "@quiverdb/engine/database/replication";
import { decodeChange, encodeChange } from "./catalog-message.ts";
import type { Connection } from "./connection.ts";
import { logUnavailable } from "./errors.ts";
import type { Member } from "./members.ts";
import { catalogStream, catalogSubject } from "./names.ts";
import { PlaceHistory } from "./place-history.ts";
import type { Publisher } from "./publisher.ts";
import { StreamReader } from "./reader.ts";

/** A change that is in the log, and not applied here by then, is answered. */
const applyMs = 30_000;
/** How long a revocation waits for the other nodes. */
const revokedMs = 5_000;
const againMs = 1_000;

export class CatalogLog {
  readonly #connection: Connection;
  readonly #replica: Replica;
  readonly #publisher: Publisher;
  readonly #log: DatabaseLog;
  readonly #reader: StreamReader;
  readonly #own = new Map<string, (applied: AppliedChange | undefined) => void>();
  readonly history = new PlaceHistory();
  #isStopped = false;
  #isFailing = false;

  constructor(connection: Connection, replica: Replica, publisher: Publisher, log: DatabaseLog) {
    this.#connection = connection;
    this.#replica = replica;
    this.#publisher = publisher;
    this.#log = log;
    const apply = (messages: readonly JsMsg[]) => this.#apply(messages);
    const { position } = replica.catalogPlace();
    this.#reader = new StreamReader(connection.jetstream, catalogStream, position, apply, log);
  }

  /** Whether its next change cannot be read or made here. */
  get isFailing(): boolean {
    return this.#isFailing || this.#reader.isFailing;
  }

  get position(): number {
    return this.#reader.position;
  }

  reached(position: number): Promise<void> | undefined {
    return this.#reader.reached(position);
  }

  /** Resolves when what was in the log is applied. */
  async start(): Promise<void> {
    const { state } = await this.#connection.manager.streams.info(catalogStream);
    this.#reader.start();
    await this.#reader.reached(state.last_seq);
  }

  /**
   * Makes a change on all nodes; resolves when this one has made it.
   * @param living a revocation waits for these nodes, too
   */
  async change(change: SharedChange, living: () => readonly Member[] = () => []): Promise<void> {
    const opId = randomUUID().replaceAll("-", "");
    const { promise, resolve } = Promise.withResolvers<AppliedChange | undefined>();
    let isOver = false;
    this.#own.set(opId, (applied) => {
      isOver = true;
      resolve(applied);
    });
    try {
      await this.#publisher.publish(
        catalogSubject,
        opId,
        encodeChange({ opId, change }),
        0,
        () => isOver || this.#isStopped,
      );
      const late = delay(applyMs, undefined, { ref: false }).then(() => {
        throw logUnavailable("the change is in the log, and this node lags behind it", "unknown");
      });
      const applied = await Promise.race([promise, late]);
      if (applied?.ok === false) throw applied.error;
    } finally {
      this.#own.delete(opId);
    }
    if (change.kind === "deleteCredential") await this.#applied(this.position, living);
  }

  async #applied(position: number, living: () => readonly Member[]): Promise<void> {
    const until = performance.now() + revokedMs;
    while (living().some(({ catalog }) => catalog[0] < position) && performance.now() < until)
      await delay(50);
  }

  async #apply(messages: readonly JsMsg[]): Promise<void> {
    for (const message of messages.filter(({ subject }) => subject === catalogSubject)) {
      const { opId, change, crc32 } = decodeChange(message.data, message.seq);
      // Trouble of this node decides nothing: it is tried again until it works.
      for (;;) {
        if (this.#isStopped) return;
        try {
          const applied = await this.#replica.applyChange(message.seq, opId, crc32, change);
          this.history.add(this.#replica.catalogPlace());
          this.#own.get(opId)?.(applied);
          this.#isFailing = false;
          break;
        } catch (err) {
          this.#isFailing = true;
          this.#log.error(
            { position: message.seq, change: change.kind, err },
            "a change of the catalog fails here",
          );
          await delay(againMs);
        }
      }
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#reader.stop();
  }
}
