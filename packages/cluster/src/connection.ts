// How does a node find its cluster?
//
// It connects to the NATS servers, creates what is missing there (streams and buckets), and reads what was decided when the cluster began.

import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import {
  DiscardPolicy,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  StorageType,
} from "@nats-io/jetstream";
import { type KV, Kvm } from "@nats-io/kv";
import { type ObjectStore, Objm } from "@nats-io/obj";
import { connect, credsAuthenticator, type NatsConnection, nanos } from "@nats-io/transport-node";
import {
  catalogStateSubject,
  catalogStream,
  catalogSubject,
  clusterBucket,
  endSubject,
  largeBucket,
  logStream,
  logSubject,
  nodesBucket,
} from "./names.ts";
import { preflight, replicasError } from "./preflight.ts";

export type ConnectionOptions = {
  /** `nats://host:port`, or `tls://`. */
  readonly servers: readonly string[];
  readonly node: string;
  /** Files. */
  readonly creds?: string | undefined;
  readonly ca?: string | undefined;
  /** How many logs a new cluster has. */
  readonly logs: number;
  /** How many versions a new cluster keeps. */
  readonly versionsKept: number;
  /** Monitoring addresses of the servers; default: port 8222 of each. */
  readonly monitors?: readonly string[] | undefined;
  warn?(message: string): void;
  /** Whether servers are accepted that do not tell how they sync. */
  readonly allowUnverifiedSync: boolean;
  /** How long messages stay that are larger than the log takes. */
  readonly keepMs: number;
};

/** What the first node decided. */
export type Identity = {
  readonly id: string;
  /** Sent by nodes to nodes. */
  readonly secret: string;
  readonly logs: number;
  readonly versionsKept: number;
};

export type Connection = {
  readonly nats: NatsConnection;
  readonly jetstream: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly nodes: KV;
  readonly large: ObjectStore;
  readonly identity: Identity;
};

const replicas = 3;
/**
 * A reader asks servers for a consumer again after so long: until a leader is elected nobody answers. With 5 s, writes stood still for up to 15 s
 * when a server was killed; with 1 s, for up to 9 s.
 */
const apiMs = 1_000;
/** A node that tells nothing for this long is not alive. */
export const aliveMs = 5_000;
/** The same message, published again within this time, is dropped by the server. */
const duplicateWindowMs = 120_000;

export async function openConnection(options: ConnectionOptions): Promise<Connection> {
  const nats = await connect({
    servers: [...options.servers],
    name: `quiver ${options.node}`,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    reconnectJitter: 250,
    pingInterval: 2_000,
    maxPingOut: 2,
    ...(options.creds && { authenticator: credsAuthenticator(readFileSync(options.creds)) }),
    ...(options.ca && { tls: { caFile: options.ca } }),
  });
  try {
    await preflight(nats, options);
    return await prepared(nats, options);
  } catch (error) {
    await nats.close();
    throw replicasError(error);
  }
}

const prepareMs = 60_000;
/** How long servers may take to know each other, where fewer than a cluster needs were named. */
const fewServersMs = 5_000;
const againMs = 250;

/** Nodes that start at once create the same things, and what is new has no leader for a moment: it is tried again. */
async function prepared(nats: NatsConnection, options: ConnectionOptions): Promise<Connection> {
  const begun = performance.now();
  for (;;) {
    try {
      return await prepare(nats, options);
    } catch (error) {
      const waitedMs = performance.now() - begun;
      // Servers that have just started do not know each other yet; some took half a minute.
      const areFew = replicasError(error) !== error && options.servers.length < replicas;
      if (waitedMs > (areFew ? fewServersMs : prepareMs)) throw error;
      await delay(againMs);
    }
  }
}

async function prepare(nats: NatsConnection, options: ConnectionOptions): Promise<Connection> {
  const manager = await jetstreamManager(nats);
  const client = jetstream(nats);
  const kvm = new Kvm(client);
  const bucket = await kvm.create(clusterBucket, {
    replicas,
    storage: StorageType.File,
    allow_direct: false,
  });
  const identity = await identityOf(bucket, options);
  const nodes = await kvm.create(nodesBucket, {
    replicas,
    storage: StorageType.Memory,
    ttl: 2 * aliveMs,
    history: 1,
  });
  const large = await new Objm(client).create(largeBucket, {
    replicas,
    storage: StorageType.File,
    ttl: nanos(options.keepMs),
  });
  const logs = Array.from({ length: identity.logs }, (_, log) =>
    ensureStream(manager, logStream(log), [logSubject(log, "*")]),
  );
  await Promise.all([
    ensureStream(manager, catalogStream, [catalogSubject, catalogStateSubject, endSubject(catalogSubject)]),
    ...logs,
  ]);
  return { nats, jetstream: jetstream(nats, { timeout: apiMs }), manager, nodes, large, identity };
}

async function ensureStream(manager: JetStreamManager, name: string, subjects: string[]): Promise<void> {
  try {
    await manager.streams.add({
      name,
      subjects,
      num_replicas: replicas,
      storage: StorageType.File,
      discard: DiscardPolicy.New,
      duplicate_window: nanos(duplicateWindowMs),
      allow_direct: false,
    });
  } catch (error) {
    // Another node, or an earlier start, has made it.
    if (!(await exists(manager, name))) throw error;
  }
}

const exists = (manager: JetStreamManager, name: string): Promise<boolean> =>
  manager.streams.info(name).then(
    () => true,
    () => false,
  );

const identityKey = "identity";

async function identityOf(bucket: KV, { logs, versionsKept }: ConnectionOptions): Promise<Identity> {
  const own: Identity = {
    id: randomUUID(),
    secret: randomBytes(32).toString("base64url"),
    logs,
    versionsKept,
  };
  try {
    await bucket.create(identityKey, JSON.stringify(own));
    return own;
  } catch (error) {
    const first = await bucket.get(identityKey);
    if (first === null) throw error;
    return first.json<Identity>();
  }
}
