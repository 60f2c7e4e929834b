// How is a server configured, and which configurations are refused?
//
// options.ts lists the options. The command line fills them from flags, environment and file; a program that embeds the server passes them
// to `startServer` directly. Nothing here reads the environment.

import { isIP } from "node:net";
import { resolve } from "node:path";
import { limits } from "@quiverdb/protocol/limits";
import type { Logger } from "pino";
import { logLevels, type ServerOptions } from "./options.ts";

export { type LogLevel, logLevels } from "./options.ts";

/** All options, also those for tests. */
export type ServerConfig = ServerOptions & {
  /** Receives the log instead of standard output. */
  logger?: Logger;
  /** Milliseconds since 1970. Default `Date.now`. */
  clock?: () => number;
  /** How many cores of the machine were idle since the last call. Default: as the system says. */
  idleCores?: () => number;
};

/** A configuration with all defaults filled in, as the parts of the server use it. */
export type CompleteServerConfig = Required<Omit<ServerConfig, WithoutDefault>> &
  Pick<ServerConfig, WithoutDefault>;

type WithoutDefault =
  | "adminKey"
  | "tlsCert"
  | "tlsKey"
  | "logger"
  | "idleCores"
  | "servingThreadsAtStart"
  | "memoryBudgetBytes"
  | "transactionIdleMs"
  | "versionsKept"
  | ClusterOption;

type ClusterOption =
  | "cluster"
  | "node"
  | "advertise"
  | "clusterCreds"
  | "clusterCa"
  | "clusterMonitors"
  | "clusterLogs"
  | "clusterShards"
  | "clusterReplicas"
  | "clusterKeepMs"
  | "clusterReplaceMs"
  | "clusterUnverifiedSync";

export const configDefaults = {
  host: "127.0.0.1",
  port: 8443,
  noAuth: false,
  authFailuresMax: limits.authFailuresMaxDefault,
  corsOrigins: [],
  bodyLimitBytes: limits.bodyBytesDefault,
  bodiesInMemoryBytesMax: limits.bodiesInMemoryBytesDefault,
  answersInMemoryBytesMax: limits.answersInMemoryBytesDefault,
  lockWaitMs: limits.lockWaitMsDefault,
  force: false,
  requestDeadlineMs: limits.requestDeadlineMsDefault,
  requestDeadlineMaxMs: limits.requestDeadlineMaxMsDefault,
  requestWorkMaxMs: limits.requestWorkMaxMsDefault,
  queueWaitMs: limits.queueWaitMsDefault,
  keyRequestsMax: limits.keyRequestsMaxDefault,
  answerStallMs: limits.answerStallMsDefault,
  requestTimeoutMs: 5 * 60_000,
  headersTimeoutMs: 60_000,
  keepAliveTimeoutMs: 72_000,
  connectionsMax: 10_000,
  closeTimeoutMs: 30_000,
  servingThreads: 0,
  console: true,
  logLevel: "info",
} as const satisfies Partial<ServerConfig>;

/** Thrown for an invalid configuration. The message names the option, its value and what to give instead. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly option: keyof ServerConfig;

  constructor(option: keyof ServerConfig, message: string) {
    super(message);
    this.option = option;
  }
}

/** True for an address or name that is reachable only from this machine. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  if (bare === "localhost" || bare === "::1") return true;
  return isIP(bare) === 4 && bare.startsWith("127.");
}

/** Largest delay of a Node.js timer. */
const timerMsMax = 2 ** 31 - 1;

/** Inclusive bounds of the numbers. */
const bounds: Partial<Record<keyof ServerConfig, readonly [number, number]>> = {
  port: [0, 65_535],
  authFailuresMax: [1, 1_000_000_000],
  bodyLimitBytes: [1024, 512 * 1024 * 1024],
  bodiesInMemoryBytesMax: [1024, Number.MAX_SAFE_INTEGER],
  answersInMemoryBytesMax: [1024, Number.MAX_SAFE_INTEGER],
  lockWaitMs: [0, timerMsMax],
  requestDeadlineMs: [1, timerMsMax],
  requestDeadlineMaxMs: [1, timerMsMax],
  requestWorkMaxMs: [1, timerMsMax],
  queueWaitMs: [1, timerMsMax],
  keyRequestsMax: [1, limits.requestsMax],
  answerStallMs: [1, timerMsMax],
  requestTimeoutMs: [1, timerMsMax],
  headersTimeoutMs: [1, timerMsMax],
  keepAliveTimeoutMs: [1, timerMsMax],
  connectionsMax: [1, 1_000_000],
  closeTimeoutMs: [0, timerMsMax],
  servingThreads: [0, 64],
  servingThreadsAtStart: [1, 64],
  memoryBudgetBytes: [1, Number.MAX_SAFE_INTEGER],
  transactionIdleMs: [1, Number.MAX_SAFE_INTEGER],
  versionsKept: [1, 1_000_000],
  clusterLogs: [1, 64],
  clusterShards: [1, limits.shardsMax],
  clusterReplicas: [1, 1_024],
  clusterKeepMs: [1_000, Number.MAX_SAFE_INTEGER],
  clusterReplaceMs: [1_000, Number.MAX_SAFE_INTEGER],
};

/**
 * Fills in the defaults, makes the data directory absolute, and rejects invalid options.
 * @throws ConfigError
 */
export function completeConfig(config: ServerConfig): CompleteServerConfig {
  if (typeof config.dataDir !== "string" || config.dataDir === "") {
    throw new ConfigError("dataDir", "dataDir is missing; give a directory for the data.");
  }
  for (const [name, [least, most]] of Object.entries(bounds)) {
    const value = config[name as keyof ServerConfig];
    if (value === undefined) continue;
    if (!Number.isInteger(value) || (value as number) < least || (value as number) > most) {
      throw new ConfigError(
        name as keyof ServerConfig,
        `${name} is ${String(value)}; give an integer from ${least} to ${most}.`,
      );
    }
  }
  if (config.logLevel !== undefined && !logLevels.includes(config.logLevel)) {
    throw new ConfigError("logLevel", `logLevel is ${config.logLevel}; give one of ${logLevels.join(", ")}.`);
  }
  checkThreads(config);
  checkCluster(config);
  checkKey(config.adminKey);
  for (const [given, missing] of [
    ["tlsCert", "tlsKey"],
    ["tlsKey", "tlsCert"],
  ] as const) {
    if (config[given] !== undefined && config[missing] === undefined) {
      throw new ConfigError(given, `${given} is given without ${missing}; HTTPS needs both files.`);
    }
  }
  for (const origin of config.corsOrigins ?? []) checkOrigin(origin);
  const given = Object.fromEntries(
    Object.entries(config).filter(([, value]) => value !== undefined),
  ) as ServerConfig;
  const complete: CompleteServerConfig = { ...configDefaults, clock: Date.now, ...given };
  if (complete.noAuth && !isLoopback(complete.host)) {
    throw new ConfigError(
      "noAuth",
      `noAuth would open the database to everyone who can reach ${complete.host}; ` +
        "listen on a loopback address such as 127.0.0.1, or use an admin key.",
    );
  }
  return {
    ...complete,
    // Absolute from here on: the process may change its working directory, and error messages are searched for this path.
    dataDir: resolve(complete.dataDir),
    ...(complete.tlsCert === undefined ? {} : { tlsCert: resolve(complete.tlsCert) }),
    ...(complete.tlsKey === undefined ? {} : { tlsKey: resolve(complete.tlsKey) }),
    headersTimeoutMs: Math.min(complete.headersTimeoutMs, complete.requestTimeoutMs),
  };
}

function checkThreads({ servingThreads = 0, clock }: ServerConfig): void {
  if (servingThreads === 0 || clock === undefined) return;
  throw new ConfigError(
    "servingThreads",
    `servingThreads is ${servingThreads}, and other threads cannot use the clock of this program; give 0, or no clock.`,
  );
}

const clusterOptions = [
  "node",
  "advertise",
  "clusterCreds",
  "clusterCa",
  "clusterMonitors",
  "clusterLogs",
  "clusterShards",
  "clusterReplicas",
  "clusterKeepMs",
  "clusterReplaceMs",
  "clusterUnverifiedSync",
] as const;

function checkCluster(config: ServerConfig): void {
  const { cluster, node, advertise, servingThreads = 0 } = config;
  const fail = (option: keyof ServerConfig, why: string): never => {
    throw new ConfigError(option, `${option} ${why}`);
  };
  if (cluster === undefined) {
    for (const option of clusterOptions)
      if (config[option] !== undefined) fail(option, "is given without cluster; give the NATS servers, too.");
    return;
  }
  if (cluster.length === 0) fail("cluster", "is empty; give the addresses of the NATS servers.");
  for (const server of cluster)
    if (!/^(?:nats|tls):\/\/[^/]+$/.test(server))
      fail("cluster", `has '${server}'; an address is nats://host:port or tls://host:port.`);
  if (node === undefined || !/^[\w-]{1,32}$/.test(node))
    fail(
      "node",
      `is ${node === undefined ? "missing" : `'${node}'`}; a node of a cluster has a name of 1 to 32 letters, digits, - and _.`,
    );
  if (advertise === undefined || !URL.canParse(advertise) || !/^https?:/.test(advertise))
    fail(
      "advertise",
      `is ${advertise === undefined ? "missing" : `'${advertise}'`}; give the URL at which clients and other nodes reach this node.`,
    );
  if (servingThreads > 0)
    fail(
      "servingThreads",
      `is ${servingThreads}; the thread of the database serves a node of a cluster: give 0.`,
    );
}

/** The message never repeats the key. */
function checkKey(key: string | undefined): void {
  if (key === undefined) return;
  if (typeof key !== "string" || !/^[\x21-\x7e]{1,1024}$/.test(key)) {
    throw new ConfigError(
      "adminKey",
      "adminKey must be 1 to 1,024 visible ASCII characters without a space, because it is sent in a header; " +
        "give another one, or omit it to have one generated.",
    );
  }
}

function checkOrigin(origin: string): void {
  if (origin === "*") return;
  let canonical: string | undefined;
  try {
    canonical = new URL(origin).origin;
  } catch {
    canonical = undefined;
  }
  if (canonical !== origin) {
    throw new ConfigError(
      "corsOrigins",
      `corsOrigins has ${JSON.stringify(origin)}; give scheme, host and port, such as https://app.example.org, or *.`,
    );
  }
}
