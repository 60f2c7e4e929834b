// How is the catalog's log written and applied?
//
// Its changes are applied one by one, in order. So that it stays short, a node writes the state of its catalog into it now and then, and removes
// changes that all have. A node that misses some takes the state, and reads on behind it.

import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { JetStreamApiError, type JsMsg } from "@nats-io/jetstream";
import type { DatabaseLog } from "@quiverdb/engine/database/options";
import type {
  AppliedChange,
  CatalogState,
  Replica,
  SharedChange,
} from "@quiverdb/engine/database/replication";
import { decodeChange, decodeState, encodeChange, encodeState } from "./catalog-message.ts";
import type { Connection } from "./connection.ts";
import { logUnavailable } from "./errors.ts";
import type { Member } from "./members.ts";
import { catalogStateSubject, catalogStream, catalogSubject } from "./names.ts";
import { PlaceHistory } from "./place-history.ts";
import { messageBytesMax, type Publisher } from "./publisher.ts";
import { StreamReader } from "./reader.ts";

/** A change that is in the log, and not applied here by then, is answered. */
const applyMs = 30_000;
/** How long a revocation waits for the other nodes. */
const revokedMs = 5_000;
const againMs = 1_000;
/** Messages that stay in any case, strict reads included, and how often it is shortened at most. */
export const keptOfCatalog = { messages: 1_024, everyMs: 600_000 };
/** JetStream's code where no message has a subject. */
const noMessage = 10037;

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
  #knownPosition = 0;
  /** Position of the last state in the log, once it is known. */
  #statePosition: number | undefined;
  #shortenedMs = Number.NEGATIVE_INFINITY;

  constructor(connection: Connection, replica: Replica, publisher: Publisher, log: DatabaseLog) {
    this.#connection = connection;
    this.#replica = replica;
    this.#publisher = publisher;
    this.#log = log;
    this.#reader = new StreamReader(
      connection,
      catalogStream,
      replica.catalogPlace().position,
      (messages) => this.#apply(messages),
      () => this.#receive(),
      log,
    );
  }

  /** Whether its next change cannot be read or made here. */
  get isFailing(): boolean {
    return this.#isFailing || this.#reader.isFailing;
  }

  /** Whether a later program has written what comes next. */
  get isTooNew(): boolean {
    return this.#reader.isTooNew;
  }

  get position(): number {
    return this.#reader.position;
  }

  /** Position of the last change of which something may be known here: one that is being made is seen before it is whole. */
  get knownPosition(): number {
    return Math.max(this.position, this.#knownPosition);
  }

  reached(position: number): Promise<void> | undefined {
    return this.#reader.reached(position);
  }

  /** The last state that was written; undefined: none. @throws Error if it is there, and cannot be read now */
  async #lastState(): Promise<CatalogState | undefined> {
    const { manager } = this.#connection;
    const message = await manager.streams
      .getMessage(catalogStream, { last_by_subj: catalogStateSubject })
      .catch((error) => {
        if (error instanceof JetStreamApiError && error.code === noMessage) return null;
        throw error;
      });
    if (message === null) return undefined;
    return decodeState(message.data, message.seq);
  }

  /** Takes the last state. @returns its position */
  async #receive(): Promise<number> {
    const state = await this.#lastState();
    if (state === undefined)
      throw new Error("the log of the catalog does not begin at its beginning, and has no state");
    const { position } = this.#replica.catalogPlace();
    if (state.position <= position) return position;
    this.#knownPosition = state.position;
    await this.#replica.receiveCatalog(state);
    this.history.add(this.#replica.catalogPlace());
    this.#log.info({ position: state.position }, "the catalog was taken from its last state");
    return state.position;
  }

  /**
   * Writes the state of the catalog if many changes came since the last one, and removes changes that all nodes have.
   * @param positions of the other nodes that live
   */
  async shorten(positions: readonly number[], { messages, everyMs } = keptOfCatalog): Promise<void> {
    if (this.position < (this.#statePosition ?? 0) + 2 * messages) return;
    if (performance.now() - this.#shortenedMs < everyMs) return;
    this.#shortenedMs = performance.now();
    this.#statePosition ??= (await this.#lastState())?.position ?? 0;
    const state = this.#replica.catalogState();
    if (state.position <= this.#statePosition) return;
    const bytes = encodeState(state);
    // In the object store it would not stay as long as the log needs it.
    if (bytes.length > messageBytesMax) throw new Error(`the state of the catalog has ${bytes.length} bytes`);
    await this.#publisher.publish(catalogStateSubject, randomUUID(), bytes, 0, () => this.#isStopped);
    this.#statePosition = state.position;
    const seq = Math.min(state.position, ...positions) - messages;
    if (seq > 0) await this.#connection.manager.streams.purge(catalogStream, { seq });
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
    this.#reader.requireReadable();
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
      // One that cannot be read is read again.
      const { opId, change, crc32 } = decodeChange(message.data, message.seq);
      this.#knownPosition = message.seq;
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
