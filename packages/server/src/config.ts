// How is a server configured, and which configurations are refused?
//
// This type lists all options of a server. The command line fills it from flags, environment and file; a program that embeds the server
// passes it to `startServer` directly. Nothing here reads the environment.

import { isIP } from "node:net";
import { resolve } from "node:path";
import { limits } from "@quiver/protocol/limits";
import type { Logger } from "pino";

export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];

export type ServerConfig = {
  /** Directory of all data; created if it does not exist. Only one server can use it at a time. */
  dataDir: string;
  /** How long a start waits for another server that has the directory open and is stopping. Default 10 seconds. */
  lockWaitMs?: number;
  /** Address or host name to listen on. Default `127.0.0.1`. */
  host?: string;
  /** TCP port; 0 selects a free one (see `RunningServer.port`). Default 8443. */
  port?: number;

  /**
   * The admin key: 1 to 1,024 visible ASCII characters without a space. Without one, and without a key from an earlier start, the server
   * generates a key and writes it to `<dataDir>/admin-key`.
   */
  adminKey?: string;
  /** Serves every request without a key. Accepted only together with a loopback `host`. Default false. */
  noAuth?: boolean;
  /**
   * Wrong keys that one address may send per minute; beyond this it gets 429 until the minute is over. Default 60. Clients behind one proxy
   * share its address.
   */
  authFailuresMax?: number;
  /** Origins of web pages that may call the server (`https://app.example.org`), or `["*"]` for all. Default: none. */
  corsOrigins?: readonly string[];

  /**
   * PEM file of the certificate, followed by its chain; the server then accepts HTTPS only. It is read again when it changes. Needs
   * `tlsKey`. Default: none (HTTP).
   */
  tlsCert?: string;
  /** PEM file of the certificate's private key, without a passphrase. */
  tlsKey?: string;

  /** Largest request body in bytes; a larger one is answered with 413. Default 64 MiB. */
  bodyLimitBytes?: number;
  /** Bytes of request bodies in memory at a time; beyond this, requests get 503. Default 256 MiB. */
  bodiesInMemoryBytesMax?: number;
  /** Bytes of responses that clients have not read yet; beyond this, requests get 503. Default 256 MiB. */
  answersInMemoryBytesMax?: number;
  /** Deadline of a search that sends no timeout of its own. Default 1 minute. */
  requestDeadlineMs?: number;
  /** Longest deadline of any request, whatever timeout it sends. Default 1 minute. */
  requestDeadlineMaxMs?: number;
  /** Processor time of the request thread that a request may use, except exports. Default 30 seconds. */
  requestWorkMaxMs?: number;
  /** A request that has waited in a queue for this long gets 503. Default 2 seconds. */
  queueWaitMs?: number;
  /** Requests of one key in progress at a time; further ones get 503 at once. Default 2,048. */
  keyRequestsMax?: number;
  /** A response is aborted, and its connection closed, when the client reads nothing of it for this long. Default 2 minutes. */
  answerStallMs?: number;
  /** Time in which a request, including its body, must arrive completely. Default 5 minutes. */
  requestTimeoutMs?: number;
  /** Time in which the headers of a request must arrive. Default 1 minute, at most `requestTimeoutMs`. */
  headersTimeoutMs?: number;
  /** A connection without a request for this long is closed. Default 72 seconds. */
  keepAliveTimeoutMs?: number;
  /** Maximum number of open connections; further ones are refused. Default 10,000. */
  connectionsMax?: number;
  /**
   * On close, the time for uploads that are still arriving, and long responses that are still being read, to finish. A request that has
   * arrived is always executed and answered. Default 30 seconds.
   */
  closeTimeoutMs?: number;

  /**
   * Threads that take connections and search, besides the one that owns the database; 0: that one does it all. On Linux only, and not with
   * `clock`. Default 0; the command line: one for each core, at most 8, where there are two or more.
   */
  servingThreads?: number;

  /** Minimum severity of log lines. Default `info`. Ignored where `logger` is given. */
  logLevel?: LogLevel;
  /** Receives the log instead of standard output. */
  logger?: Logger;

  /**
   * Memory budget of loaded indexes in bytes. Beyond it idle collections are unloaded, and requests that would still exceed it get 507, as
   * do requests that would take the process more than 512 MiB (and 128 MiB for each serving thread) beyond it. Default: no limit.
   */
  memoryBudgetBytes?: number;
  /** An open transaction that gets no operation for this long is aborted. Default 1 hour. */
  transactionIdleMs?: number;
  /** Number of versions that are kept and listed per collection. Default 1,000. */
  versionsKept?: number;

  /** Milliseconds since 1970. Default `Date.now`. */
  clock?: () => number;
};

/** A configuration with all defaults filled in, as the parts of the server use it. */
export type CompleteServerConfig = Required<Omit<ServerConfig, WithoutDefault>> &
  Pick<ServerConfig, WithoutDefault>;

type WithoutDefault =
  | "adminKey"
  | "tlsCert"
  | "tlsKey"
  | "logger"
  | "memoryBudgetBytes"
  | "transactionIdleMs"
  | "versionsKept";

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
  memoryBudgetBytes: [1, Number.MAX_SAFE_INTEGER],
  transactionIdleMs: [1, Number.MAX_SAFE_INTEGER],
  versionsKept: [1, 1_000_000],
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
