// How is a node part of a cluster?
//
//   write    request -> message in the log of the collection -> acknowledged by JetStream -> read back -> applied here -> answer
//   others   read back -> applied
//
// Every node reads every log, and applies the messages of the collections that it holds, in their order, by the same rules
// (engine/log/ordered.ts). There is no leader. A message names the position of the catalog that it needs.
//
// What this node cannot apply (its disk fails, its data is damaged, the log no longer has what it needs), it does not serve, and copies from
// a node that does (healing.ts). Where two nodes have the same position and another hash, they have applied different logs: the collection
// takes no writes from then on, and says so.

import { setTimeout as delay } from "node:timers/promises";
import type { JsMsg } from "@nats-io/jetstream";
import type { DatabaseLog } from "@quiverdb/engine/database/options";
import {
  type CallLimits,
  type CatalogEntry,
  collectionIdOf,
  compareText,
  decodeMessage,
  type LoggedRequest,
  nameOf,
  type OrderedMessage,
  type Place,
  type Replica,
  type ReplicatedLog,
  type ShardCall,
  type SharedChange,
  shardIdOf,
  type Written,
} from "@quiverdb/engine/database/replication";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { CatalogLog, type keptOfCatalog } from "./catalog-log.ts";
import { type Connection, type ConnectionOptions, openConnection } from "./connection.ts";
import { type Cursor, Cursors } from "./cursors.ts";
import { Divergence } from "./divergence.ts";
import { logUnavailable, stopping } from "./errors.ts";
import { type OwnMessage, RequestGroups } from "./group.ts";
import { Healing, secretHeader } from "./healing.ts";
import { Lag } from "./lag.ts";
import { LogEnd } from "./log-end.ts";
import { type Member, Members, requireUnused, type ToldPlace } from "./members.ts";
import { Moves } from "./moves.ts";
import {
  catalogHeader,
  catalogStream,
  catalogSubject,
  endId,
  endSubject,
  internalIdOf,
  logOf,
  logStream,
  logSubject,
} from "./names.ts";
import { PlaceHistory } from "./place-history.ts";
import { replicasAmong, replicationFactorDefault } from "./placement.ts";
import { Publisher, wholeBytes } from "./publisher.ts";
import { isTooNew, StreamReader } from "./reader.ts";
import { answerCall, ShardCalls } from "./shard-calls.ts";
import { type CheckedCollection, checkStates, type ReplicaState } from "./state-check.ts";
import { type ClusterStatus, nodesOf, percentilesOf } from "./status.ts";
import { Trimming } from "./trimming.ts";

export type ClusterOptions = ConnectionOptions & {
  /** Where other nodes and clients reach this one. */
  readonly url: string;
  /** Of the program. */
  readonly version: string;
  readonly log: DatabaseLog;
  /** Shards, and replicas, of a collection that does not say how many. */
  readonly shards?: number | undefined;
  readonly replicationFactor?: number | undefined;
  /** How long a node may be away before others take its place. */
  readonly replaceMs: number;
  /** Default: as catalog-log.ts says. */
  readonly keptOfCatalog?: typeof keptOfCatalog;
};

/** A write that is not in the log by then is answered. */
const patienceMs = 8_000;
const attemptMs = 2_000;
/** A write that is in the log, and not applied here by then, is answered. */
const applyMs = 30_000;
const noteMs = 1_000;
/** How long a request waits for the rest of a copy. */
const wholeMs = 10_000;
/** For so long a collection stays that has moved to other nodes, and for so long while somebody reads an export of it. */
const movedMs = 3_000;
const movedExportsMs = 600_000;

export class Cluster implements ReplicatedLog {
  readonly node: string;
  readonly shards: number;
  readonly #replicationFactor: number;
  readonly #options: ClusterOptions;
  readonly connection: Connection;
  readonly publisher: Publisher;
  readonly #groups = new RequestGroups((internalId, message) => this.#publish(internalId, message));
  /** Messages of this node that are not applied yet, by opId. */
  readonly #own = new Map<string, OwnMessage>();
  readonly #readers: StreamReader[] = [];
  #cursors!: Cursors;
  #divergence!: Divergence;
  readonly #histories = new Map<string, PlaceHistory>();
  readonly #lag = new Lag();
  #moves!: Moves;
  #shardCalls!: ShardCalls;
  /** Since when collections that are here are those of other nodes. */
  readonly #movedMs = new Map<string, number>();
  readonly #catalogEnd: LogEnd;
  readonly #logEnds: readonly LogEnd[];
  readonly #trimming: Trimming;
  #catalog!: CatalogLog;
  #members!: Members;
  #healing!: Healing;
  #replica!: Replica;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  private constructor(options: ClusterOptions, connection: Connection) {
    this.node = options.node;
    this.#options = options;
    this.shards = options.shards ?? 1;
    this.#replicationFactor = options.replicationFactor ?? replicationFactorDefault;
    this.connection = connection;
    this.#trimming = new Trimming(this.node, connection.manager, options.keepMs);
    this.publisher = new Publisher({ ...connection, patienceMs, attemptMs });
    this.#catalogEnd = new LogEnd(connection, catalogStream, endSubject(catalogSubject));
    this.#logEnds = Array.from(
      { length: connection.identity.logs },
      (_, log) => new LogEnd(connection, logStream(log), logSubject(log, endId)),
    );
  }

  /** Connects. @throws Error if no server answers, or the servers are not what a cluster needs */
  static async open(options: ClusterOptions): Promise<Cluster> {
    return new Cluster(options, await openConnection(options));
  }

  get identity() {
    return this.connection.identity;
  }

  async start(replica: Replica): Promise<void> {
    try {
      await this.#start(replica);
    } catch (error) {
      // Its connection would keep the process alive.
      await this.stop();
      throw error;
    }
  }

  async #start(replica: Replica): Promise<void> {
    this.#replica = replica;
    const isNew = await this.#identify();
    const { log, version, url } = this.#options;
    this.#cursors = new Cursors(replica.notes, this.identity.logs);
    this.#divergence = new Divergence(replica.notes);
    this.#members = new Members(
      this.connection.nodes,
      () => this.#told(),
      (member) => this.#compare(member),
      log,
    );
    this.#healing = new Healing({
      node: this.node,
      secret: this.identity.secret,
      replica,
      living: () => this.living(),
      logOf: (internalId) => this.#logOf(internalId),
      positionOf: (at) => this.#readers[at]?.position ?? this.#cursors.at(at).position,
      onReceived: (internalId, messages) => this.#applyTo(internalId, messages, true),
      log,
    });
    this.#shardCalls = new ShardCalls(
      this.identity.secret,
      (entry) => this.servingNodes(entry),
      () => this.living(),
      () => this.#catalog.knownPosition,
    );
    const move = (internalId: string, replicas: readonly string[]) =>
      this.#catalog.change({ kind: "setReplicas", internalId, replicas });
    this.#moves = new Moves(
      this.node,
      replica,
      () => this.#catalog.knownPosition,
      this.#options.replaceMs,
      move,
      this.#replicationFactor,
    );
    this.#catalog = new CatalogLog(this.connection, replica, this.publisher, log);
    await this.#catalog.start();
    // One that was removed serves what others do not have yet.
    const isNeeded = () => replica.entries().some(({ replicas }) => replicas?.includes(this.node));
    const isLeaving = replica.isRemoved(this.node) && !isNew && isNeeded();
    if (!isLeaving && replica.nodes().get(this.node) !== url) {
      await requireUnused(this.connection.nodes, this.node, url);
      await this.#catalog.change({
        kind: "joinNode",
        node: this.node,
        url,
        replicationFactor: this.#replicationFactor,
      });
    }
    for (const [internalId, why] of this.#divergence.noted())
      if (this.#nameOf(internalId) !== undefined) this.#diverge(internalId, why);
    for (let i = 0; i < this.identity.logs; i++) {
      const cursor = this.#cursors.at(i);
      await this.#examine(i, cursor);
      const reader = new StreamReader(
        this.connection,
        logStream(i),
        cursor.position,
        (messages) => this.#apply(i, messages).catch((error: unknown) => this.#stopAt(i, error)),
        (first) => this.#onGone(i, first),
        log,
      );
      this.#readers[i] = reader;
    }
    for (const reader of this.#readers) reader.start();
    await this.#members.start();
    this.#timer = setInterval(() => void this.#note(), noteMs);
    log.info({ node: this.node, cluster: this.identity.id, version }, "the node has joined its cluster");
  }

  /** @returns whether the data directory is new @throws data_directory_foreign */
  async #identify(): Promise<boolean> {
    const noted = this.#replica.notes.get("identity") as { cluster: string; node: string } | undefined;
    const own = { cluster: this.identity.id, node: this.node };
    if (noted === undefined && !this.#replica.isEmpty)
      throw foreign("has the data of a server that was alone");
    if (noted !== undefined && noted.cluster !== own.cluster)
      throw foreign(`belongs to another cluster (${noted.cluster}; this is ${own.cluster})`);
    if (noted !== undefined && noted.node !== own.node)
      throw foreign(`belongs to the node '${noted.node}', not to '${own.node}'`);
    if (noted === undefined) await this.#replica.notes.put("identity", own);
    return noted === undefined;
  }

  /** Compares the log with what this node had read of it. */
  async #examine(log: number, { position, opId }: Cursor): Promise<void> {
    const { state } = await this.connection.manager.streams.info(logStream(log));
    const ids = () =>
      this.#replica
        .entries()
        .map(({ internalId }) => internalId)
        .filter((internalId) => this.#logOf(internalId) === log);
    if (state.last_seq < position) {
      const why = `the log ${log} ends at position ${state.last_seq}, and this node has applied ${position}`;
      for (const internalId of ids()) this.#diverge(internalId, why);
    } else if (position > 0 && position >= state.first_seq) {
      const there = await this.connection.manager.streams
        .getMessage(logStream(log), { seq: position })
        .catch(() => null);
      // A single message may have been removed from the middle; the hashes that nodes tell would show a difference.
      if (there === null) return;
      const found = decodeMessage(await wholeBytes(there.data, this.connection.large)).opId;
      if (found === opId) return;
      const why = `the log ${log} has another message at position ${position} than the one that this node has applied`;
      for (const internalId of ids()) this.#diverge(internalId, why);
    }
  }

  /** A log no longer has what this node is to read next: its collections are copied. */
  #onGone(log: number, first: number): number {
    for (const { internalId } of this.#replica.entries())
      if (this.#logOf(internalId) === log) this.#healing.add(internalId, first - 1);
    return first - 1;
  }

  /** @param id of a collection, which all its shards share, or of one of them */
  #diverge(id: string, why: string): void {
    const collectionId = collectionIdOf(id);
    const name = this.#nameOf(collectionId);
    const err = this.#divergence.add(collectionId, name, why);
    if (err !== undefined)
      this.#options.log.error({ collection: name, store: collectionId, err }, "replicas differ");
  }

  #divergenceOf(internalId: string): QuiverError | undefined {
    return this.#divergence.errorOf(collectionIdOf(internalId));
  }

  /** The name of a collection, or of a shard. @param id of either */
  #nameOf(id: string): string | undefined {
    const entry = this.#replica.entryById(id) ?? this.#replica.entryById(shardIdOf(id, 0));
    return entry && (entry.internalId === id ? entry.definition.name : nameOf(entry.definition));
  }

  // ---- Writing

  async write(internalId: string, request: LoggedRequest): Promise<Written> {
    const diverged = this.#divergenceOf(internalId);
    if (diverged !== undefined) throw diverged;
    if (this.#isStopped) throw stopping();
    this.#readers[this.#logOf(internalId)]?.requireReadable();
    return this.#groups.write(internalId, request);
  }

  async #publish(internalId: string, message: OwnMessage): Promise<void> {
    const { opId, bytes } = message;
    this.#own.set(opId, message);
    const subject = logSubject(this.#logOf(internalId), collectionIdOf(internalId));
    try {
      await this.publisher.publish(
        subject,
        opId,
        bytes,
        // There is a collection that this node may write before the others have made it.
        this.#catalog.knownPosition,
        () => message.isOver || this.#isStopped,
      );
    } catch (error) {
      if (!message.isOver) message.failed(error);
      this.#own.delete(opId);
      return;
    }
    setTimeout(() => {
      this.#own.delete(opId);
      if (!message.isOver)
        message.failed(logUnavailable("the message is in the log, and this node lags behind it", "unknown"));
    }, applyMs).unref();
  }

  change(change: SharedChange): Promise<void> {
    if (this.#isStopped) return Promise.reject(stopping());
    return this.#catalog.change(change, () => this.living());
  }

  replicasOf(internalId: string, replicationFactor: number | null): readonly string[] {
    const nodes = [...this.#replica.nodes().keys()];
    return replicasAmong(nodes, internalId, replicationFactor ?? this.#replicationFactor);
  }

  // ---- Applying

  async #apply(log: number, messages: readonly JsMsg[]): Promise<void> {
    const byCollection = new Map<string, OrderedMessage[]>();
    let last: Cursor | undefined;
    for (const message of messages) {
      const collectionId = internalIdOf(message.subject);
      if (collectionId === endId) continue;
      await this.#catalog.reached(Number(message.headers?.get(catalogHeader) ?? 0));
      const decoded = await this.#decode(message, collectionId);
      if (decoded === undefined) continue;
      last = { position: message.seq, opId: decoded.opId };
      const group = byCollection.get(collectionId);
      if (group) group.push(decoded);
      else byCollection.set(collectionId, [decoded]);
    }
    const applying = [...byCollection].flatMap(([collectionId, group]) =>
      this.#storesOf(collectionId).map((internalId) => this.#applyTo(internalId, group)),
    );
    await Promise.all(applying);
    if (last !== undefined) this.#cursors.move(log, last);
  }

  /** Where this program cannot read on, what this node has written comes behind that: other nodes apply it. */
  #stopAt(log: number, error: unknown): never {
    if (isTooNew(error))
      for (const message of this.#own.values())
        if (this.#logOf(message.internalId) === log && !message.isOver)
          message.failed(
            logUnavailable("this node must be updated to read what is before the message", "unknown"),
          );
    throw error;
  }

  /** Internal ids of a collection's shards, or its own. */
  #storesOf(collectionId: string): string[] {
    const ids = this.#replica
      .entries()
      .map(({ internalId }) => internalId)
      .filter((internalId) => collectionIdOf(internalId) === collectionId);
    // Of one that was deleted, who has written is told.
    const written = Array.from(this.#own.values(), ({ internalId }) => internalId);
    const gone = written.filter((id) => collectionIdOf(id) === collectionId && !ids.includes(id));
    return [...ids, ...new Set(gone)];
  }

  #logOf(internalId: string): number {
    return logOf(collectionIdOf(internalId), this.identity.logs);
  }

  /** @returns undefined for a message that cannot be read: the collection is copied from a node that could */
  async #decode(message: JsMsg, collectionId: string): Promise<OrderedMessage | undefined> {
    try {
      const bytes = await wholeBytes(message.data, this.connection.large);
      return { ...decodeMessage(bytes), position: message.seq };
    } catch (error) {
      // It is read again until this program is updated: a copy would have what it cannot go on from.
      if (isQuiverError(error, "format_too_new")) throw error;
      for (const internalId of this.#storesOf(collectionId))
        await this.#giveUp(internalId, error, message.seq);
      return undefined;
    }
  }

  /** @param isKept of messages that were kept while the collection was received */
  async #applyTo(internalId: string, messages: readonly OrderedMessage[], isKept = false): Promise<void> {
    const answer = (error: unknown) => {
      for (const { opId } of messages) this.#take(internalId, opId)?.failed(error);
    };
    const diverged = this.#divergenceOf(internalId);
    if (diverged !== undefined) return answer(diverged);
    const entry = this.#replica.entryById(internalId);
    if (entry === undefined)
      return answer(new QuiverError("collection_not_found", "The collection was deleted meanwhile."));
    // One that has moved to other nodes is followed until it is dropped.
    if (!isHeldBy(entry, this.node) && !this.#replica.serves(internalId)) return;
    if (!isKept && this.#healing.keep(internalId, messages)) return;
    try {
      const isOwn = (opId: string) => this.#own.get(opId)?.internalId === internalId;
      const applied = await this.#replica.apply(internalId, messages, isOwn);
      for (const [i, { outcomes }] of applied.entries())
        this.#take(internalId, messages[i].opId)?.applied(outcomes);
      const place = this.#replica.placeOf(internalId);
      if (place !== undefined) this.#historyOf(internalId).add(place);
    } catch (error) {
      if (this.#isStopped) {
        answer(stopping());
        // The next start reads them again.
        throw error;
      }
      answer(logUnavailable("this node could not apply the message", "unknown"));
      // They are kept, unless they were already: then they must be in the next copy.
      await this.#giveUp(internalId, error, isKept ? (messages.at(-1) as OrderedMessage).position : 0);
      if (isKept) throw error;
      this.#healing.keep(internalId, messages);
    }
  }

  /** A message of this node that was published for this store: another shard's outcomes are none of its answers. */
  #take(internalId: string, opId: string): OwnMessage | undefined {
    const own = this.#own.get(opId);
    if (own?.internalId !== internalId) return undefined;
    this.#own.delete(opId);
    return own;
  }

  /** Serves a collection no longer, until it was copied from another node. @param position up to which messages are not kept */
  async #giveUp(
    internalId: string,
    cause: unknown,
    position: number,
    told = notServed("could not apply the log of the collection", cause),
  ): Promise<void> {
    const collection = this.#nameOf(internalId);
    if (collection === undefined) return;
    this.#options.log.error(
      { collection, store: internalId, position, err: cause },
      "the collection is copied from another node",
    );
    const at = this.#readers[this.#logOf(internalId)].position;
    this.#healing.add(internalId, Math.max(at, position));
    await this.#replica.leave(internalId, told);
  }

  /**
   * Damage was found in a collection: it is copied from another node, if one serves it.
   * @returns what whoever found it is told
   */
  damaged(internalId: string, error: QuiverError): QuiverError {
    const entry = this.#replica.entryById(internalId);
    if (entry === undefined || !this.serves(internalId) || this.servingNodes(entry).length === 0)
      return error;
    const left = notServed("has found damage in the collection", error);
    this.#giveUp(internalId, error, 0, left).catch((err: unknown) =>
      this.#options.log.error({ store: internalId, err }, "a damaged collection is still served"),
    );
    return left;
  }

  /** Hash of all that replicas of a collection have in common. */
  async stateOf(internalId: string): Promise<ReplicaState> {
    try {
      const { place, sha256 } = await this.#replica.stateOf(internalId);
      return { position: place.position, sha256 };
    } catch (error) {
      throw isQuiverError(error) && error.code === "data_corrupted" ? this.damaged(internalId, error) : error;
    }
  }

  #historyOf(internalId: string): PlaceHistory {
    const known = this.#histories.get(internalId);
    if (known !== undefined) return known;
    const made = new PlaceHistory();
    this.#histories.set(internalId, made);
    return made;
  }

  async #note(): Promise<void> {
    try {
      await this.#divergence.note((internalId) => this.#nameOf(internalId) !== undefined);
      await this.#cursors.note((log) => this.#healing.isCopying(log));
    } catch (err) {
      // The next start reads some messages again, which changes nothing.
      this.#options.log.warn({ err }, "how far the log was read is not noted");
      return;
    }
    const living = this.living();
    const isOver = await this.#trimming.trim(
      [{ node: this.node, noted: this.#cursors.noted }, ...living],
      this.#replica.nodes().keys(),
    );
    await this.#dropMoved();
    const own = { node: this.node, catalog: this.#catalog.position, broken: this.#broken() };
    const told = living.map(({ node, catalog, broken }) => ({ node, catalog: catalog[0], broken }));
    // It is planned again a second later.
    await this.#moves
      .plan([own, ...told])
      .catch((err) => this.#options.log.warn({ err }, "a collection is not moved"));
    const positions = living.map(({ catalog }) => catalog[0]);
    // It is tried again a second later.
    if (isOver)
      await this.#catalog
        .shorten(positions, this.#options.keptOfCatalog)
        .catch((err) => this.#options.log.warn({ err }, "the log of the catalog is not shortened"));
  }

  /** Drops collections that have moved to other nodes, when the writes that this node has published are applied. */
  async #dropMoved(): Promise<void> {
    const now = performance.now();
    const needed = new Set(Array.from(this.#own.values(), ({ internalId }) => internalId));
    for (const entry of this.#replica.entries()) {
      const { internalId } = entry;
      if (isHeldBy(entry, this.node) || !this.#replica.serves(internalId)) {
        this.#movedMs.delete(internalId);
        continue;
      }
      const sinceMs = this.#movedMs.get(internalId) ?? now;
      this.#movedMs.set(internalId, sinceMs);
      // Requests that came before go on for a while.
      if (now - sinceMs < movedMs || needed.has(internalId)) continue;
      if (this.#replica.isExporting(internalId) && now - sinceMs < movedExportsMs) continue;
      // Who has planned the move has seen one; that it still is there costs nothing to look at.
      const known = this.#catalog.knownPosition;
      if (!this.servingNodes(entry).some(({ catalog }) => catalog[0] >= known)) continue;
      await this.#replica.drop(internalId);
      this.#options.log.info({ collection: entry.definition.name }, "a collection has moved to other nodes");
    }
  }

  // ---- Other nodes

  #told(): Member {
    const places: Record<string, ToldPlace> = {};
    for (const [internalId, history] of this.#histories)
      if (history.isRecent) places[internalId] = toldOf(history.last);
    return {
      node: this.node,
      url: this.#options.url,
      version: this.#options.version,
      catalog: toldOf(this.#replica.catalogPlace()),
      // Of the readers: a log has more than messages of collections, and who asks for a copy has read past it.
      logs: this.#readers.map(({ position }) => position),
      noted: this.#cursors.noted,
      places,
      broken: this.#broken(),
      copying: this.#healing.copying(),
    };
  }

  /** Collections that this node should serve and does not, and why. */
  #broken(): Record<string, string> {
    const whys = this.#replica.entries().flatMap(({ internalId, replicas }): [string, string][] => {
      if (replicas?.includes(this.node) !== true) return [];
      if (!this.#replica.serves(internalId)) return [[internalId, "it is not copied yet"]];
      if (!this.#lag.isBehind(this.#logOf(internalId))) return [];
      return [[internalId, "this node is behind the others in its log"]];
    });
    return {
      ...Object.fromEntries(whys),
      ...this.#healing.broken(),
    };
  }

  #compare({ node, catalog, places, logs }: Member): void {
    this.#lag.heard(logs, (log) => this.#readers[log]?.position ?? 0);
    const own = this.#catalog.history.at(catalog[0]);
    if (own !== undefined && own !== catalog[1])
      this.#diverge("catalog", `this node and '${node}' differ at position ${catalog[0]}`);
    // All shards of a collection read one log, so all pass its positions with the same hashes.
    const told = Map.groupBy(Object.entries(places), ([internalId]) => collectionIdOf(internalId));
    for (const [internalId, history] of this.#histories)
      for (const [, [position, hash]] of told.get(collectionIdOf(internalId)) ?? []) {
        const known = history.at(position);
        if (known !== undefined && known !== hash)
          this.#diverge(internalId, `this node and '${node}' differ at position ${position}`);
      }
  }

  /** Whether the node at an address has told nothing lately. */
  isSilent(url: string): boolean {
    return this.#members.isSilent(url);
  }

  living(): Member[] {
    return this.#members.living();
  }

  // ---- What requests see

  /** Position of the last change of the catalog of which something may be known here. */
  get catalogPosition(): number {
    return this.#catalog.knownPosition;
  }

  /** How far this node is: of the catalog, and of a collection's log. */
  positionFor(internalId: string | undefined): string {
    const catalog = `c${this.#catalog.position}`;
    if (internalId === undefined) return catalog;
    const log = this.#logOf(internalId);
    // A write is answered when it is applied, which can be before messages of other collections that were read with it.
    const collectionId = collectionIdOf(internalId);
    let position = this.#readers[log].position;
    for (const [id, { last }] of this.#histories)
      if (collectionIdOf(id) === collectionId) position = Math.max(position, last.position);
    return `${catalog},${log}-${position}`;
  }

  /**
   * Resolves when what this node has of shards is whole; undefined if it is. While one is copied, messages that came meanwhile are missing.
   * @throws not_ready if that takes long
   */
  whole(shards: readonly CatalogEntry[]): Promise<void> | undefined {
    return this.#until(
      () =>
        !shards.some(
          ({ internalId }) => this.#healing.isWanted(internalId) && this.#replica.serves(internalId),
        ),
    );
  }

  /**
   * Resolves when this node has one of those of its shards that it should have; undefined if it has.
   * @throws not_ready if that takes long
   */
  arrived(shards: readonly CatalogEntry[]): Promise<void> | undefined {
    const held = shards.filter((entry) => isHeldBy(entry, this.node));
    return this.#until(
      () => held.length === 0 || held.some(({ internalId }) => this.#replica.serves(internalId)),
    );
  }

  /** @throws not_ready */
  #until(isThere: () => boolean): Promise<void> | undefined {
    if (isThere()) return undefined;
    return (async () => {
      const until = performance.now() + wholeMs;
      while (!isThere()) {
        if (performance.now() > until)
          throw notServed("lacks a part of the collection", "the copy is not complete");
        await delay(20);
      }
    })();
  }

  /**
   * Resolves when this node is at least as far as an answer said; undefined if it is already.
   * @param position `x-quiver-position` of a request
   */
  reached(position: string): Promise<unknown> | undefined {
    const waits: Promise<void>[] = [];
    for (const part of position.split(",")) {
      const [, catalog, log, at] = /^(?:c(\d+)|(\d+)-(\d+))$/.exec(part) ?? [];
      if (catalog === undefined && at === undefined) continue;
      const wait =
        at === undefined
          ? this.#catalog.reached(Number(catalog))
          : this.#readers[Number(log)]?.reached(Number(at));
      if (wait !== undefined) waits.push(wait);
    }
    return waits.length === 0 ? undefined : Promise.all(waits);
  }

  /** Every later read sees what this node has applied. */
  see(internalId: string): void {
    this.#replica.see(internalId);
  }

  /** Positions behind what any node has acknowledged, of the catalog and of a collection's log. @throws log_unavailable */
  async end(internalId: string | undefined): Promise<string> {
    const log = internalId === undefined ? undefined : this.#logOf(internalId);
    const [catalog, position] = await Promise.all([
      this.#catalogEnd.get(),
      log === undefined ? undefined : this.#logEnds[log].get(),
    ]);
    return log === undefined ? `c${catalog}` : `c${catalog},${log}-${position}`;
  }

  /** Whether this node serves a collection, and is not too far behind the others. */
  serves(internalId: string): boolean {
    const entry = this.#replica.entryById(internalId);
    return (
      entry !== undefined &&
      isHeldBy(entry, this.node) &&
      this.#replica.serves(internalId) &&
      !this.#healing.isWanted(internalId) &&
      !this.#lag.isBehind(this.#logOf(internalId))
    );
  }

  /** The other nodes that live and serve a collection. */
  servingNodes({ internalId, replicas = [] }: CatalogEntry): Member[] {
    return this.living().filter(({ node, broken }) => replicas.includes(node) && !(internalId in broken));
  }

  entryOf(name: string): CatalogEntry | undefined {
    return this.#replica.entryOf(name);
  }

  /** The entries of a collection or an alias: of all its shards, or its own; none: there is no such collection. */
  entriesOf(name: string): readonly CatalogEntry[] {
    const entry = this.entryOf(name);
    return this.#replica.shardsOf(name) ?? (entry === undefined ? [] : [entry]);
  }

  /** The nodes that know changes of the catalog which this one's program cannot read. */
  ahead(): Member[] {
    if (!this.#catalog.isTooNew) return [];
    const { position } = this.#replica.catalogPlace();
    return this.living().filter(({ catalog }) => catalog[0] > position);
  }

  ask(shard: CatalogEntry, call: ShardCall, limits: CallLimits): Promise<unknown> {
    return this.#shardCalls.ask(shard, call, limits);
  }

  /** Answers another node for a shard. */
  answer(internalId: string, body: Uint8Array, signal: AbortSignal): Promise<Buffer> {
    const node = {
      replica: this.#replica,
      catalogReached: (position: number) => this.#catalog.reached(position),
      serves: (id: string) => this.#replica.serves(id) && !this.#healing.isWanted(id),
      damaged: (id: string, error: QuiverError) => this.damaged(id, error),
    };
    return answerCall(node, internalId, body, signal);
  }

  get replica(): Replica {
    return this.#replica;
  }

  // ---- What operators see

  /**
   * Makes this node's collection that of all nodes, whatever they have applied.
   * @throws collection_not_found, invalid_request for one of several shards
   */
  async adopt(name: string): Promise<void> {
    const [entry] = this.entriesOf(name);
    if (entry === undefined)
      throw new QuiverError("collection_not_found", `There is no collection named '${name}'.`, { name });
    if (entry.definition.shard !== undefined)
      throw new QuiverError(
        "invalid_request",
        `The collection '${name}' has several shards, and a node's cannot be made those of all. Restore a snapshot of it: that replaces all of them.`,
        { path: "collection" },
      );
    await this.#replica.adopt(entry.internalId);
    this.#options.log.warn({ collection: name, node: this.node }, "all nodes take this node's collection");
  }

  /**
   * Removes a node for good: others get what it holds, and it serves until they do.
   * @throws invalid_request where there is no such node, or it alone has a collection that it does not serve
   */
  async remove(node: string): Promise<void> {
    const nodes = [...this.#replica.nodes().keys()];
    if (!nodes.includes(node) || nodes.length === 1)
      throw new QuiverError(
        "invalid_request",
        nodes.includes(node)
          ? `'${node}' is the last node of the cluster.`
          : `There is no node '${node}'; there are ${nodes.join(", ")}.`,
        { path: "node", nodes },
      );
    const serving = [
      { node: this.node, broken: this.#broken() },
      ...this.living().map(({ node: each, broken }) => ({ node: each, broken })),
    ];
    const lost = this.#replica.entries().filter(({ internalId, replicas = [] }) => {
      const has = (each: (typeof serving)[number]) =>
        replicas.includes(each.node) && !(internalId in each.broken);
      return replicas.includes(node) && !serving.some(has);
    });
    if (lost.length > 0)
      throw new QuiverError(
        "invalid_request",
        `No living node serves ${lost.map(({ definition }) => `'${definition.name}'`).join(", ")}, of which '${node}' may have the only copy; nothing was changed. Start the node again, or delete these collections first.`,
        { path: "node", collections: lost.map(({ definition }) => definition.name) },
      );
    await this.#catalog.change({ kind: "removeNode", node });
  }

  /** What is wrong, in numbers; undefined if nothing is. */
  degraded(): object | undefined {
    const there = new Set([this.node, ...this.living().map(({ node }) => node)]);
    const missing = [...this.#replica.nodes().keys()].filter((node) => !there.has(node)).length;
    const broken = Object.keys(this.#broken()).length;
    const logs = this.#readers.filter((_, log) => this.#lag.isBehind(log)).length;
    const failing = [this.#catalog, ...this.#readers].filter(({ isFailing }) => isFailing).length;
    const isRemoved = this.#replica.isRemoved(this.node);
    const isWhole = !isRemoved && missing === 0 && broken === 0 && logs === 0 && failing === 0;
    if (isWhole && this.#divergence.size === 0 && this.publisher.isAnswered) return undefined;
    return {
      ...(isRemoved && { removed: true }),
      ...(failing > 0 && { logs_not_read: failing }),
      ...(missing > 0 && { nodes_missing: missing }),
      ...(broken > 0 && { collections_copied: broken }),
      ...(logs > 0 && { logs_behind: logs }),
      ...(this.#divergence.size > 0 && { collections_diverged: this.#divergence.size }),
      ...(!this.publisher.isAnswered && { log_unavailable: true }),
    };
  }

  status(): ClusterStatus {
    const entries = this.#replica
      .entries()
      .toSorted(
        ({ definition: a }, { definition: b }) =>
          compareText(nameOf(a), nameOf(b)) || (a.shard?.number ?? 0) - (b.shard?.number ?? 0),
      );
    const collections = entries.map(({ definition, internalId, replicas = [] }) => {
      const diverged = this.#divergenceOf(internalId);
      return {
        name: definition.name,
        log: this.#logOf(internalId),
        replicas,
        position: this.#replica.placeOf(internalId)?.position ?? null,
        ...(diverged !== undefined && { diverged: diverged.message }),
      };
    });
    const living = [this.#told(), ...this.living()];
    const catalogDiverged = this.#divergence.errorOf("catalog");
    return {
      cluster: this.identity.id,
      node: this.node,
      nodes: nodesOf(
        this.#replica.nodes(),
        living,
        (internalId) => this.#nameOf(internalId) ?? internalId,
        (node) => entries.filter(({ replicas = [] }) => replicas.includes(node)).length,
      ),
      collections,
      ...(catalogDiverged !== undefined && { diverged: catalogDiverged.message }),
      publish_ms: percentilesOf(this.publisher.lastMs),
    };
  }

  /** Compares the state of all replicas, collection by collection (state-check.ts). */
  check(): Promise<CheckedCollection[]> {
    return checkStates(this.#replica.entries(), async (node, internalId) => {
      if (node === this.node) return this.stateOf(internalId);
      const response = await fetch(`${this.#replica.nodes().get(node)}/cluster/states/${internalId}`, {
        headers: { [secretHeader]: this.identity.secret },
      });
      if (!response.ok) throw new Error(`${node} answers ${response.status}`);
      return (await response.json()) as ReplicaState;
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    for (const message of this.#own.values()) if (!message.isOver) message.failed(stopping());
    await this.#healing?.stop();
    await Promise.all([this.#catalog?.stop(), ...this.#readers.map((reader) => reader.stop())]);
    if (this.#readers.length > 0) await this.#note();
    await this.#members?.stop();
    await this.connection.nats.close();
  }
}

const isHeldBy = ({ replicas }: CatalogEntry, node: string): boolean => replicas?.includes(node) !== false;

const toldOf = ({ position, hash }: Place): ToldPlace => [position, Buffer.from(hash).toString("hex")];

const notServed = (what: string, cause: unknown) =>
  new QuiverError(
    "not_ready",
    `This node ${what} and copies it from another one: ${cause instanceof Error ? cause.message : String(cause)}`,
    { retry_after_seconds: 1 },
    { cause },
  );

const foreign = (why: string) =>
  new QuiverError(
    "data_directory_foreign",
    `The data directory ${why}, so it cannot become a node of this cluster; nothing was changed. Move its collections by 'quiver backup' there and 'quiver restore' here, and give an empty directory.`,
  );
