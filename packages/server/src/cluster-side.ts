// How does the server of a node serve its cluster?
//
//   request that names a collection   an alias is replaced by what it stands for: on two nodes it may stand for two collections
//                                     held and served here: it waits until this node has what it must see, and is answered here
//                                     else: passed on to a node that serves it
//   answer                            says how far this node was (`x-quiver-position`)
//
// Nodes give each other copies of collections here, for the secret of the cluster.

import { timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { Cluster } from "@quiverdb/cluster/cluster";
import { copyBytesHeader } from "@quiverdb/cluster/healing";
import type { Member } from "@quiverdb/cluster/members";
import type { ClusterStatus } from "@quiverdb/cluster/status";
import { type CatalogEntry, nameOf } from "@quiverdb/engine/database/replication";
import { operations } from "@quiverdb/engine/operations/operations";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import type { MergeCollection } from "@quiverdb/protocol/shapes/collection";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Connections } from "./connections.ts";
import { passOn, type Target, targetAt } from "./threads/forwarding.ts";

export const positionHeader = "x-quiver-position";
const consistencyHeader = "x-quiver-consistency";
const secretHeader = "x-quiver-cluster-secret";
/** Of a request that a node has passed on, with its position of the catalog; it is passed on once. */
const hopHeader = "x-quiver-hop";

/** A node that could not be reached gets nothing for this long. */
const avoidedMs = 5_000;
/** For so long the node that has made a collection is asked for it first. */
const freshMs = 60_000;

/** A node that says nothing for so long has no part in a list. */
const listedMs = 1_000;
/** How long a request waits for the catalog before its key is looked at. */
const catalogWaitMs = 5_000;

const hidden = { schema: { hide: true } as object };

export class ClusterSide {
  readonly #cluster: Cluster;
  readonly #targets = new Map<string, Target>();
  /** Until when a node is avoided, by URL. */
  readonly #avoided = new Map<string, number>();
  readonly #connections: Connections;

  constructor(cluster: Cluster, connections: Connections) {
    this.#cluster = cluster;
    this.#connections = connections;
  }

  /** Answers another node for a shard: a search asks each of its shards, so it goes no longer way. @returns whether it does */
  answersNode(request: IncomingMessage, response: ServerResponse): boolean {
    const [, internalId] = ofShard.exec(request.url ?? "") ?? [];
    if (internalId === undefined || request.method !== "POST") return false;
    const gone = new AbortController();
    response.once("close", () => {
      if (!response.writableFinished) gone.abort();
    });
    void (async () => {
      try {
        this.#requireNode(request);
        const answer = await this.#cluster.answer(internalId, await bytesOf(request), gone.signal);
        response.writeHead(200, {
          "content-type": "application/octet-stream",
          "content-length": answer.length,
        });
        response.end(answer);
      } catch (error) {
        const code = isQuiverError(error) ? error.code : "internal";
        response.writeHead(code === "forbidden" ? 403 : 503, { "content-type": "application/json" });
        response.end(JSON.stringify({ error: { code, message: (error as Error).message } }));
      }
    })();
    return true;
  }

  /**
   * Makes the path of a request name a collection itself, where it names an alias; it waits for what the request must see of names.
   * @returns undefined if it need not wait
   */
  resolves(request: IncomingMessage): Promise<void> | undefined {
    const name = collectionOf(request.url ?? "");
    // Whoever has passed it on has resolved it.
    if (name === undefined || request.headers[hopHeader] !== undefined) return undefined;
    const own = this.#ownName(name);
    if (own === name) return undefined;
    const resolve = () => {
      const now = this.#ownName(name) ?? name;
      request.url = request.url?.replace(named, `${collectionsPath}${encodeURIComponent(now)}`);
    };
    const { headers } = request;
    // Where it is unknown, too, anybody could make the log grow.
    const isStrict = own !== undefined && headers[consistencyHeader] === "strict";
    const known = isStrict
      ? this.#cluster.end(undefined).then((end) => this.catalogReached({ [positionHeader]: end }))
      : this.catalogReached(headers);
    // Who waits for what cannot be known, such as the end of a log that cannot be reached, is told so when its key is known.
    return known === undefined ? void resolve() : known.catch(() => {}).then(resolve);
  }

  /** The name of the collection that a name or an alias stands for; undefined: there is none. */
  #ownName(name: string): string | undefined {
    const [entry] = this.#cluster.entriesOf(name);
    return entry && nameOf(entry.definition);
  }

  /** Passes a request on to a node that serves the collection which it names. @returns whether it does; else it is answered here */
  passesOn(request: IncomingMessage, response: ServerResponse): boolean {
    const name = collectionOf(request.url ?? "");
    if (name === undefined || request.headers[hopHeader] !== undefined) return false;
    const entries = this.#cluster.entriesOf(name);
    if (entries.length === 0) {
      // Another node may know it, where this one's program cannot read on. It is asked once: if it does not hold it, the client asks again.
      const able = this.#reachable(this.#cluster.ahead());
      const ahead = able[Math.floor(Math.random() * able.length)];
      if (ahead !== undefined) this.#pass(request, response, [ahead]);
      return ahead !== undefined;
    }
    // Of several shards, one is enough: others are asked for theirs.
    const [entry] = entries;
    const isServed = entries.some(({ internalId }) => this.#cluster.serves(internalId));
    const isOfOne = entries.length === 1 && ofOneNode.test(request.url ?? "");
    if (isServed && !isOfOne) return false;
    const serving = this.#servingNodes(entries);
    const reachable = this.#reachable(serving);
    // One that could not be reached may be there again, and is better than none.
    const able = reachable.length > 0 ? reachable : serving;
    // Of what was just restored or copied, other nodes may have nothing yet.
    const isFresh = entry.madeOn !== undefined && Date.now() - entry.createdMs < freshMs;
    const maker = isFresh ? able.find(({ node }) => node === entry.madeOn) : undefined;
    const target = isOfOne
      ? able.toSorted((a, b) => (a.node < b.node ? -1 : 1))[0]
      : (maker ?? able[Math.floor(Math.random() * able.length)]);
    if (target === undefined || (isOfOne && isServed && this.#cluster.node < target.node)) return false;
    this.#pass(request, response, [target, ...able.filter((each) => each !== target)]);
    return true;
  }

  /** The other nodes that serve a collection, or one of its shards. */
  #servingNodes(entries: readonly CatalogEntry[]): Member[] {
    const nodes = new Map(
      entries.flatMap((entry) => this.#cluster.servingNodes(entry).map((member) => [member.node, member])),
    );
    return [...nodes.values()];
  }

  /** Those that can be reached, as far as is known. */
  #reachable(nodes: readonly Member[]): Member[] {
    const now = performance.now();
    return nodes.filter(({ url }) => (this.#avoided.get(url) ?? 0) < now);
  }

  /** The answers of other nodes to a request of this one; of those that can be reached. */
  async #everywhere(
    { headers, method = "POST", url = "" }: IncomingMessage,
    nodes: readonly Member[],
    signal?: AbortSignal,
  ): Promise<Response[]> {
    const sent = new Headers({ [hopHeader]: this.#hop });
    for (const name of ["authorization", positionHeader, consistencyHeader]) {
      const value = headers[name];
      if (typeof value === "string") sent.set(name, value);
    }
    const asked = await Promise.allSettled(
      nodes.map((node) => fetch(node.url + url, { method, headers: sent, signal: signal ?? null })),
    );
    return asked.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  }

  /** The answer of all nodes, where that of this one is a part: of the loaded collections, of which a node has those that it holds. */
  united({ headers, raw, endpoint }: FastifyRequest, own: unknown): Promise<string> | undefined {
    const isOfAll = endpoint.operation === operations.loadedCollections && headers[hopHeader] === undefined;
    if (!isOfAll) return undefined;
    return (async () => {
      const others = await this.#everywhere(raw, this.#cluster.living(), AbortSignal.timeout(listedMs));
      const lists = await Promise.all(others.filter(({ ok }) => ok).map((answer) => answer.json()));
      const names = new Set([JSON.parse(own as string), ...lists].flat() as string[]);
      return JSON.stringify([...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
    })();
  }

  /** @param nodes the first is asked, and the others if it does not answer */
  #pass(request: IncomingMessage, response: ServerResponse, nodes: readonly Member[]): void {
    const targets = nodes.map(({ url }) => {
      const known = this.#targets.get(url);
      if (known !== undefined) return known;
      const made = targetAt(url, {
        isSilent: () => this.#cluster.isSilent(url),
        isLiving: () => this.#cluster.living().some((member) => member.url === url),
        onUnreachable: () => this.#avoided.set(url, performance.now() + avoidedMs),
      });
      this.#targets.set(url, made);
      return made;
    });
    passOn(request, response, targets, [hopHeader, this.#hop], this.#connections);
  }

  get #hop(): string {
    return String(this.#cluster.catalogPosition);
  }

  /**
   * Resolves when this node has what a request must see; undefined if it has already.
   * @throws invalid_request, log_unavailable, not_ready
   */
  before(request: FastifyRequest): Promise<void> | undefined {
    const named = this.#named(request);
    return named === undefined ? this.#beforeOf(request) : named.then(() => this.#beforeOf(request));
  }

  /** Resolves when this node may know the collection of a request that was passed on by one which does; undefined if it does already. */
  #named({ headers, params }: FastifyRequest): Promise<unknown> | undefined {
    const { [hopHeader]: hop } = headers;
    const isServed = () => this.#entriesOf(params).some(({ internalId }) => this.#cluster.serves(internalId));
    return hop === undefined || isServed() ? undefined : this.#catalogReaches(String(hop));
  }

  #beforeOf({ headers, params, raw, endpoint, body }: FastifyRequest): Promise<void> | undefined {
    // A merge reads a copy, too, which another node may have just made.
    const isMerge = endpoint.operation === operations.mergeCollection;
    const copies = () => (isMerge ? this.#cluster.entriesOf((body as MergeCollection).from) : []);
    const read = () => [this.#entriesOf(params), copies()];
    const whole = () => this.#cluster.whole(read().flat());
    const here = () => this.#cluster.arrived(copies())?.then(whole) ?? whole();
    const reached = this.#seen(headers, read);
    const seen = reached === undefined ? here() : reached.then(here);
    if (!ofAllNodes.test(raw.url ?? "") || headers[hopHeader] !== undefined) return seen;
    const entries = this.#entriesOf(params);
    if (entries.length === 0) return seen;
    // Loaded or unloaded on the other nodes, too. One that cannot be reached keeps what it has.
    const serving = this.#servingNodes(entries);
    const able = this.#reachable(serving);
    // One that is avoided may only have been slow.
    const avoided = serving.filter((node) => !able.includes(node));
    return Promise.all([
      seen,
      this.#everywhere(raw, able),
      this.#everywhere(raw, avoided, AbortSignal.timeout(avoidedMs)),
    ]).then(() => {});
  }

  /**
   * Resolves when this node knows the keys and sessions of the position that a request has seen, or after a while: who asks is not known
   * yet. Undefined if it knows them already.
   */
  catalogReached({ [positionHeader]: position }: IncomingHttpHeaders): Promise<unknown> | undefined {
    const [, catalog] = /(?:^|,)c(\d+)/.exec(String(position ?? "")) ?? [];
    return catalog === undefined ? undefined : this.#catalogReaches(catalog);
  }

  #catalogReaches(position: string): Promise<unknown> | undefined {
    const reached = this.#cluster.reached(`c${position}`);
    return reached && Promise.race([reached, delay(catalogWaitMs, undefined, { ref: false })]);
  }

  /** @param read entries of each collection that is read */
  #seen(headers: IncomingHttpHeaders, read: () => (readonly CatalogEntry[])[]): Promise<void> | undefined {
    const { [positionHeader]: position, [consistencyHeader]: consistency } = headers;
    if (position === undefined && consistency === undefined) return undefined;
    const see = () => {
      for (const { internalId } of read().flat()) this.#cluster.see(internalId);
    };
    if (consistency === undefined || consistency === "eventual") {
      const reached = this.#cluster.reached(String(position));
      return reached === undefined ? void see() : reached.then(see);
    }
    if (consistency !== "strict")
      throw new QuiverError(
        "invalid_request",
        `${consistencyHeader} is '${String(consistency).slice(0, 40)}'; it can be 'strict' or 'eventual'.`,
        { path: consistencyHeader },
      );
    const ends = read().map(([entry]) => this.#cluster.end(entry?.internalId));
    return Promise.all(ends)
      .then((all) => this.#cluster.reached(all.join()))
      .then(see);
  }

  /** Of the collection that a path names: of all its shards, or its own. */
  #entriesOf(params: unknown): readonly CatalogEntry[] {
    const { collection_id: name } = (params ?? {}) as { collection_id?: string };
    return name === undefined ? [] : this.#cluster.entriesOf(name);
  }

  /** What a client is told of an error: damage is trouble of this node, which copies the collection from another one. */
  told(error: unknown, { params }: FastifyRequest): unknown {
    if (!isQuiverError(error) || error.code !== "data_corrupted") return error;
    const { shard = this.#entriesOf(params)[0]?.internalId } = error.details as { shard?: string };
    return shard === undefined ? error : this.#cluster.damaged(shard, error);
  }

  /** How far this node is, for the answer to a request. */
  position({ params }: FastifyRequest): string {
    return this.#cluster.positionFor(this.#entriesOf(params)[0]?.internalId);
  }

  register(app: FastifyInstance): void {
    const ofNodes = {
      ...hidden,
      config: { need: { role: "anyone", collections: "nowhere", takesFilter: false } as const },
    };
    const ofReaders = {
      ...hidden,
      config: { need: { role: "read", collections: "nowhere", takesFilter: false } as const },
    };
    const ofAdmins = {
      ...hidden,
      config: { need: { role: "admin", collections: "nowhere", takesFilter: false } as const },
    };
    app.get("/cluster/copies/:internalId", ofNodes, async (request, reply) => {
      this.#requireNode(request);
      const { internalId } = request.params as { internalId: string };
      const copy = await this.#cluster.replica.copyOf(internalId);
      return reply
        .type("application/octet-stream")
        .header(copyBytesHeader, this.#cluster.replica.copyBytes(internalId))
        .send(Readable.from(copy, { objectMode: false }));
    });
    app.get("/cluster/states/:internalId", ofNodes, async (request) => {
      this.#requireNode(request);
      const { internalId } = request.params as { internalId: string };
      return this.#cluster.stateOf(internalId);
    });
    app.get("/cluster/status", ofReaders, async () => this.#cluster.status());
    app.post("/cluster/adopt/:collection", ofAdmins, async (request) => {
      const { collection } = request.params as { collection: string };
      await this.#cluster.adopt(collection);
      return { adopted: collection };
    });
    app.post("/cluster/remove/:node", ofAdmins, async (request) => {
      const { node } = request.params as { node: string };
      await this.#cluster.remove(node);
      return { removed: node };
    });
    app.post("/cluster/check", ofReaders, async () => ({ collections: await this.#cluster.check() }));
  }

  /** @throws forbidden */
  #requireNode({ headers }: { readonly headers: IncomingHttpHeaders }): void {
    const given = Buffer.from(String(headers[secretHeader] ?? ""));
    const secret = Buffer.from(this.#cluster.identity.secret);
    if (given.length === secret.length && timingSafeEqual(given, secret)) return;
    throw new QuiverError("forbidden", "This path is for the nodes of the cluster.");
  }

  status(): ClusterStatus {
    return this.#cluster.status();
  }

  /** What is wrong with the cluster, in numbers; undefined if nothing is. */
  degraded(): object | undefined {
    return this.#cluster.degraded();
  }
}

/** @throws body_too_large */
async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of message as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > shardCallBytesMax)
      throw new QuiverError("body_too_large", `A call of a shard has more than ${shardCallBytesMax} bytes.`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** A search of 10,000 queries, as another node sends it. */
const shardCallBytesMax = 256 * 1024 * 1024;

/** Of what is in the memory of each node. */
const ofAllNodes = /\/(?:load|unload)(?:\?|$)/;
/** How far the indexing of a transaction is differs from node to node: one tells it, of those that live. */
const ofOneNode = /\/transactions\/[^/?]+\/status(?:\?|\/|$)/;

const ofShard = /^\/cluster\/shards\/([\w-]+)$/;

const collectionsPath = "/vectordb/collections/";
const named = /^\/vectordb\/collections\/([^/?#]+)/;

/** The collection that a path names. */
function collectionOf(url: string): string | undefined {
  const [, name] = named.exec(url) ?? [];
  if (name === undefined || name === "loaded") return undefined;
  try {
    return decodeURIComponent(name);
  } catch {
    return undefined;
  }
}
