// How does a node ask another one for what a shard has?
//
// A call and its answer are data (structured clone), sent to a node that serves the shard. One that does not answer soon is not waited for alone:
// the next one is asked, too, and the first answer counts. What takes long by itself is asked of one node while that lives: a node runs one check
// at a time, and would refuse that of the next shard while one goes on whose answer nobody needs. What is read line by line stays with the node
// where it was opened.

import { Agent, type ClientRequest, request as plainRequest } from "node:http";
import { Agent as SecureAgent, request as secureRequest } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import { deserialize, serialize } from "node:v8";
import {
  type CallLimits,
  type CatalogEntry,
  errorOf,
  nameOf,
  type Replica,
  type ShardCall,
  wireOf,
} from "@quiverdb/engine/database/replication";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { secretHeader } from "./healing.ts";
import type { Member } from "./members.ts";

/** Where a node answers for a shard, to nodes that know the secret. */
export const shardPath = (internalId: string): string => `/cluster/shards/${internalId}`;

/** After so long without an answer, the next node is asked, too. */
const hedgeMs = 1_000;
/** Methods of shards that take long. */
const longMethods: ReadonlySet<string> = new Set(["check", "indexed", "load", "measureRecall", "unload"]);
/** A node that could not be reached is asked last for so long. */
const avoidedMs = 5_000;

type Asked = {
  readonly call: ShardCall;
  readonly timeoutMs: number | undefined;
  /** Position of the catalog at the asking node: there the shard exists. */
  readonly catalog: number;
};
type Answer = { readonly value: unknown } | { readonly error: ReturnType<typeof wireOf> };
type LineCall = { readonly id: string };
type Send = (url: string, signal: AbortSignal) => Promise<unknown>;

export class ShardCalls {
  readonly #secret: string;
  readonly #servingNodes: (entry: CatalogEntry) => readonly Member[];
  readonly #living: () => readonly Member[];
  readonly #catalogPosition: () => number;
  readonly #avoidedMs = new Map<string, number>();
  /** Addresses of nodes at which lines are open, by their ids. */
  readonly #lines = new Map<string, string>();

  constructor(
    secret: string,
    servingNodes: (entry: CatalogEntry) => readonly Member[],
    living: () => readonly Member[],
    catalogPosition: () => number,
  ) {
    this.#secret = secret;
    this.#servingNodes = servingNodes;
    this.#living = living;
    this.#catalogPosition = catalogPosition;
  }

  /** @throws not_ready if no node that serves the shard answers */
  async ask(entry: CatalogEntry, call: ShardCall, limits: CallLimits): Promise<unknown> {
    const path = shardPath(entry.internalId);
    const body = serialize({
      call,
      timeoutMs: limits.timeoutMs,
      catalog: this.#catalogPosition(),
    } satisfies Asked);
    if (call.method === "nextLines" || call.method === "closeLines") {
      const { id } = call.args as LineCall;
      const url = this.#lines.get(id);
      if (call.method === "closeLines") this.#lines.delete(id);
      if (url === undefined) throw this.#unserved(entry, "what was read of it is no longer open");
      // The lines are nowhere else.
      return this.#first(entry, [url], (_, signal) => this.#send(url + path, body, limits, signal));
    }
    const now = performance.now();
    const isAvoided = ({ url }: Member) => (this.#avoidedMs.get(url) ?? 0) > now;
    const nodes = this.#servingNodes(entry).toSorted(
      (a, b) => Number(isAvoided(a)) - Number(isAvoided(b)) || Math.random() - 0.5,
    );
    const urls = nodes.map(({ url }) => url);
    const send: Send = async (url, signal) => {
      const answer = await this.#send(url + path, body, limits, signal);
      if (call.method === "openLines") this.#lines.set((answer as LineCall).id, url);
      return answer;
    };
    return this.#first(entry, urls, send, longMethods.has(call.method));
  }

  /**
   * The first answer of some nodes, each of which is asked when those before it have failed, or take long. They are waited for while they live.
   * @param isLong whether the next one is asked only when those before it live no longer
   */
  async #first(entry: CatalogEntry, urls: readonly string[], send: Send, isLong = false): Promise<unknown> {
    const done = new AbortController();
    let failure: unknown;
    const running = new Map<string, Promise<{ answer: unknown } | undefined>>();
    /** Of those that are asked, or none if that takes so long. */
    const next = async () => {
      const { promise: late, resolve } = Promise.withResolvers<undefined>();
      const timer = setTimeout(() => resolve(undefined), hedgeMs);
      try {
        return await Promise.race([...running.values(), late]);
      } finally {
        clearTimeout(timer);
      }
    };
    const ask = (url: string) => {
      const asked = send(url, done.signal).then(
        (answer) => {
          running.delete(url);
          return { answer };
        },
        (error: unknown) => {
          running.delete(url);
          // What the node says is the answer; a node that says nothing is another matter.
          if (error instanceof Cancelled || (isQuiverError(error) && error.code !== "shutting_down"))
            throw error;
          if (!done.signal.aborted) this.#avoid(url);
          failure = error;
          return undefined;
        },
      );
      running.set(url, asked);
    };
    const isAnyLiving = () => this.#living().some(({ url }) => running.has(url));
    try {
      for (const url of urls) {
        ask(url);
        let found = await next();
        while (found === undefined && isLong && isAnyLiving()) found = await next();
        if (found !== undefined) return found.answer;
      }
      while (running.size > 0) {
        const found = await next();
        if (found !== undefined) return found.answer;
        if (running.size > 0 && !isAnyLiving())
          throw this.#unserved(entry, "the node that was asked does not answer");
      }
    } finally {
      // One that is paused looks alive for some seconds.
      for (const [url, each] of running) {
        each.catch(() => {});
        this.#avoid(url);
      }
      // An abort makes errors with stacks: a tenth of a call, which most need not pay.
      if (running.size > 0) done.abort();
    }
    throw this.#unserved(
      entry,
      failure === undefined ? "no node that lives has it" : String((failure as Error).message),
    );
  }

  #avoid(url: string): void {
    this.#avoidedMs.set(url, performance.now() + avoidedMs);
  }

  #unserved({ definition, replicas = [] }: CatalogEntry, why: string): QuiverError {
    const { shard } = definition;
    const name = nameOf(definition);
    return new QuiverError(
      "not_ready",
      `The shard ${shard?.number} of the collection '${name}' is served by no node now (${why}); ${replicas.join(", ")} should. Send the request again.`,
      { collection: name, shard: shard?.number, replicas, retry_after_seconds: 1 },
    );
  }

  async #send(
    url: string,
    body: Uint8Array,
    { timeoutMs, signal }: CallLimits,
    ended: AbortSignal,
  ): Promise<unknown> {
    const { status, bytes } = await post(url, this.#secret, body, { timeoutMs, signal }, ended);
    if (status !== 200) throw new Error(`${url} answers ${status}`);
    const answer = deserialize(bytes) as Answer;
    if ("error" in answer) throw errorOf(answer.error);
    return answer.value;
  }
}

/** Nobody waits for the answer any longer. */
class Cancelled extends Error {}

const agents = { "http:": new Agent({ keepAlive: true }), "https:": new SecureAgent({ keepAlive: true }) };

/** Posts a body. `fetch` takes twice the time for it, which a search pays for each shard. @throws Error if no answer comes */
async function post(
  url: string,
  secret: string,
  body: Uint8Array,
  { timeoutMs, signal }: CallLimits,
  ended: AbortSignal,
): Promise<{ status: number | undefined; bytes: Buffer }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number | undefined; bytes: Buffer }>();
  const isSecure = url.startsWith("https:");
  const send = (isAgain: boolean) => {
    const request = (isSecure ? secureRequest : plainRequest)(
      url,
      {
        method: "POST",
        agent: agents[isSecure ? "https:" : "http:"],
        headers: {
          [secretHeader]: secret,
          "content-type": "application/octet-stream",
          "content-length": body.length,
        },
        signal: ended,
      },
      (response) => {
        const pieces: Buffer[] = [];
        response.on("data", (piece: Buffer) => pieces.push(piece));
        response.on("end", () => resolve({ status: response.statusCode, bytes: Buffer.concat(pieces) }));
        response.on("error", reject);
      },
    );
    request.on("error", (error: NodeJS.ErrnoException) => {
      // The other node has closed a connection that was idle, at the same moment.
      if (!isAgain && request.reusedSocket && error.code === "ECONNRESET") send(true);
      else reject(error);
    });
    request.end(body);
    current = request;
  };
  let current: ClientRequest | undefined;
  send(false);
  const cancel = () => current?.destroy(new Cancelled());
  const timer = timeoutMs === undefined ? undefined : setTimeout(cancel, Math.max(1, Math.ceil(timeoutMs)));
  signal?.addEventListener("abort", cancel, { once: true });
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", cancel);
  }
}

/** What a node answers others with. */
export type Answering = {
  readonly replica: Replica;
  readonly catalogReached: (position: number) => Promise<void> | undefined;
  readonly serves: (internalId: string) => boolean;
  /** What is told where data of this node is damaged. */
  readonly damaged: (internalId: string, error: QuiverError) => QuiverError;
};

/** Answers a call of another node. @throws not_ready if this one does not serve the shard, or no longer: others may */
export async function answerCall(
  node: Answering,
  internalId: string,
  body: Uint8Array,
  signal: AbortSignal,
): Promise<Buffer> {
  const { call, timeoutMs, catalog } = deserialize(body) as Asked;
  await Promise.race([node.catalogReached(catalog), delay(hedgeMs, undefined, { ref: false })]);
  try {
    const limits = { signal, ...(timeoutMs !== undefined && { timeoutMs }) };
    const value = await node.replica.answer(internalId, call, limits);
    return serialize({ value } satisfies Answer);
  } catch (thrown) {
    const error = isQuiverError(thrown, "data_corrupted") ? node.damaged(internalId, thrown) : thrown;
    if (!node.serves(internalId)) throw error;
    return serialize({ error: wireOf(error) } satisfies Answer);
  }
}
