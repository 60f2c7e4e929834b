// How does a server start, and how does it stop?
//
// Start: configuration, database, key and sessions, endpoints, port. If a step fails, everything that was opened before it is closed.
//
// Stop: new connections are refused, new requests on existing connections get 503, idle connections are closed. Requests whose headers had
// arrived are answered, with `Connection: close`; an upload gets `closeTimeoutMs` to arrive completely, and a long response the same time
// to be read. When the last connection is closed, sessions are stored and the database closes. Only durable writes are acknowledged, so
// nothing acknowledged can be lost here.

import { existsSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { isatty } from "node:tty";
import type { Database } from "@quiverdb/engine/database/contract";
import { openDatabase } from "@quiverdb/engine/database/database";
import { limits } from "@quiverdb/protocol/limits";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { createApplication } from "./application.ts";
import { AuditLog } from "./audit/audit-log.ts";
import { openAdminKey } from "./auth/admin-key.ts";
import { ApiKeys } from "./auth/api-keys.ts";
import { FailedAttempts } from "./auth/failed-attempts.ts";
import { type Gate, keyedGate, openGate } from "./auth/gate.ts";
import { Sessions } from "./auth/sessions.ts";
import { readCertificate } from "./certificate.ts";
import { ClusterSide } from "./cluster-side.ts";
import {
  type CompleteServerConfig,
  ConfigError,
  completeConfig,
  isLoopback,
  type ServerConfig,
} from "./config.ts";
import { Connections } from "./connections.ts";
import { givenLog, openLog, readableLines, type ServerLog } from "./operations/log.ts";
import { startTracing, type Tracing } from "./operations/tracing.ts";
import type { LogLevel } from "./options.ts";
import type { RunningServer } from "./running-server.ts";
import { drainConnections } from "./stopping.ts";
import { newOwnerSocket, type OwnerSocket } from "./threads/forwarding.ts";
import { ServingPool } from "./threads/pool.ts";
import { version } from "./version.ts";

export { collectAtRest } from "@quiverdb/engine/database/contract";

/** Maximum number of connections that wait to be accepted; the operating system has its own limit, too. */
const backlog = 4096;

/**
 * Opens the database and serves it. Resolves when requests are accepted.
 * @throws ConfigError for an invalid configuration, or if the port is in use
 */
export async function startServer(given: ServerConfig): Promise<RunningServer> {
  const config = completeConfig(given);
  // Before anything is opened, because an unusable certificate is a configuration error.
  if (config.tlsCert !== undefined && config.tlsKey !== undefined) {
    readCertificate({ cert: config.tlsCert, key: config.tlsKey });
  }
  // A start that cannot listen must not leave a new data directory and a key behind. Where there is one already, the port may belong
  // to its last owner, which is ending.
  if (!existsSync(config.dataDir)) await assertFree(config);
  const log = config.logger === undefined ? await standardLog(config.logLevel) : givenLog(config.logger);
  const { logger } = log;
  const socket = config.servingThreads > 0 ? newOwnerSocket() : undefined;
  const cluster = await openCluster(config, logger);
  const database = await openDatabase({
    dataDir: config.dataDir,
    readerThreads: config.servingThreads,
    indexWaitMs: limits.indexWaitMs,
    lockWaitMs: config.lockWaitMs,
    force: config.force,
    memoryBudgetBytes: config.memoryBudgetBytes,
    transactionIdleMs: config.transactionIdleMs,
    versionsKept: cluster?.identity.versionsKept ?? config.versionsKept,
    ...(cluster && { replication: cluster }),
    log: logger.child({ part: "database" }),
    clock: config.clock,
  });
  const tracing = await startTracing(version);
  const connections = new Connections();
  let app: FastifyInstance | undefined;
  let pool: ServingPool | undefined;
  let audit: AuditLog | undefined;
  try {
    audit = await AuditLog.open(config.dataDir, config.clock);
    const stopping = { begun: false, now: false };
    const aliases = { current: aliasesOf(database) };
    database.onAliases(async (all) => {
      aliases.current = new Map(all);
      await pool?.tellAliases(aliases.current);
    });
    const { gate, adminKeyFile } = await openAuthentication(config, database, logger);
    if (socket !== undefined) pool = new ServingPool({ config, database, gate, log, socket, aliases });
    const created = await createApplication({
      config,
      owner: {
        database,
        audit,
        socket,
        threadMetrics: {
          counted: async () => (await pool?.metrics()) ?? [],
          lastHour: async () => (await pool?.lastHour()) ?? [],
        },
      },
      shared: pool?.shared,
      cluster: cluster && new ClusterSide(cluster, connections),
      gate,
      log,
      tracing,
      connections,
      isStopping: () => stopping.now,
      isEnding: () => stopping.begun,
      aliases,
      version,
    });
    app = created.app;
    const { port, url } = await listen(app, pool, config, socket);
    if (config.tlsCert === undefined && !isLoopback(config.host)) {
      logger.warn(
        { url },
        "keys and data are sent unencrypted; configure a certificate, or put a TLS proxy in front",
      );
    }
    logger.info({ url, data_dir: config.dataDir, authentication: !config.noAuth }, "serving");
    const stop = stopper(app, pool, gate, audit, database, connections, stopping, config, log, tracing);
    return { url, port, database, adminKeyFile, close: stop };
  } catch (error) {
    await pool?.stop();
    await app?.close();
    await audit?.close();
    await database.close();
    throw error;
  }
}

/** Joins the cluster, whose package only a node loads. @throws ConfigError */
async function openCluster(config: CompleteServerConfig, logger: Logger) {
  const { cluster, node, advertise, versionsKept } = config;
  if (cluster === undefined || node === undefined || advertise === undefined) return undefined;
  const { Cluster } = await import("@quiverdb/cluster/cluster");
  try {
    return await Cluster.open({
      servers: cluster,
      node,
      url: advertise.replace(/\/+$/, ""),
      creds: config.clusterCreds,
      ca: config.clusterCa,
      logs: config.clusterLogs ?? limits.clusterLogsDefault,
      monitors: config.clusterMonitors,
      allowUnverifiedSync: config.clusterUnverifiedSync === true,
      shards: config.clusterShards,
      replicationFactor: config.clusterReplicas,
      versionsKept: versionsKept ?? limits.versionsKeptDefault,
      keepMs: config.clusterKeepMs ?? limits.clusterKeepMsDefault,
      replaceMs: config.clusterReplaceMs ?? limits.clusterReplaceMsDefault,
      version,
      warn: (message) => logger.warn({ part: "cluster" }, message),
      log: logger.child({ part: "cluster" }),
    });
  } catch (error) {
    throw new ConfigError("cluster", `cluster cannot be joined: ${(error as Error).message}`);
  }
}

const aliasesOf = (database: Database): ReadonlyMap<string, string> =>
  new Map(database.aliases().map(({ alias, collection }) => [alias, collection]));

/** The log of standard output: for people on a terminal, as JSON elsewhere. */
async function standardLog(level: LogLevel): Promise<ServerLog> {
  return isatty(1) ? openLog(level, { format: await readableLines() }) : openLog(level);
}

async function openAuthentication(
  config: CompleteServerConfig,
  database: Database,
  logger: Logger,
): Promise<{ gate: Gate; adminKeyFile: string | undefined }> {
  if (config.noAuth) {
    return {
      gate: openGate(config.clock, limits.sessionIdleMs, config.corsOrigins),
      adminKeyFile: undefined,
    };
  }
  const { credentials } = database;
  const adminKey = await openAdminKey(credentials, config.dataDir, config.adminKey);
  if (adminKey.file !== undefined) {
    logger.warn(
      { file: adminKey.file },
      "an admin key was generated and written to this file, which only its owner can read",
    );
  }
  const sessions = new Sessions(credentials, adminKey.keyId, config.clock, (err) =>
    logger.error({ err }, "a session could not be stored"),
  );
  const keys = new ApiKeys(credentials, config.clock, (err) =>
    logger.error({ err }, "the last use of an API key could not be stored"),
  );
  const attempts = new FailedAttempts(config.authFailuresMax, config.clock);
  return { gate: keyedGate(adminKey, sessions, keys, attempts), adminKeyFile: adminKey.file };
}

/** @throws ConfigError where the port is in use, or the address cannot be listened on */
async function assertFree(config: CompleteServerConfig): Promise<void> {
  const host = hostOf(config);
  const probe = createServer();
  await new Promise<void>((resolve, reject) => {
    probe.once("error", (error) => reject(listenError(error, host, config.port) as Error));
    probe.listen({ host, port: config.port }, () => probe.close(() => resolve()));
  });
}

function hostOf(config: CompleteServerConfig): string {
  const bare = config.host.replace(/^\[(.*)\]$/, "$1");
  // The name can resolve to two addresses; a server would listen only on the first one.
  return bare.toLowerCase() === "localhost" ? "127.0.0.1" : bare;
}

async function listen(
  app: FastifyInstance,
  pool: ServingPool | undefined,
  config: CompleteServerConfig,
  socket: OwnerSocket | undefined,
): Promise<{ port: number; url: string }> {
  const host = hostOf(config);
  let listening: AddressInfo;
  try {
    if (pool === undefined || socket === undefined) {
      await app.listen({ host, port: config.port, backlog });
      listening = app.server.address() as AddressInfo;
    } else {
      await app.listen({ path: socket.path });
      // Threads share the port, so another server that shares it, too, would not be noticed by them.
      await assertFree(config);
      listening = await pool.listen(host, config.port, backlog);
    }
  } catch (error) {
    throw listenError(error, host, config.port);
  }
  const { address, port, family } = listening;
  const reachable = address === "0.0.0.0" ? "127.0.0.1" : address === "::" ? "::1" : address;
  const scheme = config.tlsCert === undefined ? "http" : "https";
  return { port, url: `${scheme}://${family === "IPv6" ? `[${reachable}]` : reachable}:${port}` };
}

function listenError(error: unknown, host: string, port: number): unknown {
  if (error instanceof ConfigError) return error;
  switch ((error as { code?: string }).code) {
    case "EADDRINUSE":
      return new ConfigError(
        "port",
        `port ${port} of ${host} is in use; stop what uses it or give another port.`,
      );
    case "EACCES":
      return new ConfigError(
        "port",
        `this user may not open port ${port} of ${host}; give a port above 1023.`,
      );
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return new ConfigError("host", `host ${host} is not an address of this machine; give one that is.`);
    default:
      return error;
  }
}

function stopper(
  app: FastifyInstance,
  pool: ServingPool | undefined,
  gate: Gate,
  audit: AuditLog,
  database: Database,
  connections: Connections,
  stopping: { begun: boolean; now: boolean },
  config: CompleteServerConfig,
  log: ServerLog,
  tracing: Tracing | undefined,
): () => Promise<void> {
  const { logger } = log;
  let stopped: Promise<void> | undefined;
  return () => {
    stopped ??= stop();
    return stopped;
  };

  async function stop(): Promise<void> {
    logger.info({ connections: connections.count }, "stopping");
    stopping.begun = true;
    try {
      await pool?.stop();
      stopping.now = true;
      await drainConnections(app, connections, config.closeTimeoutMs);
    } finally {
      try {
        await tracing?.close().catch((err) => logger.warn({ err }, "the last traces could not be sent"));
        await gate.close();
        await audit.close();
      } finally {
        await database.close();
      }
    }
    logger.info("stopped");
    log.end();
  }
}
