// How is a server configured, and which configurations are refused?
//
// This is the one list of what a server can be told. The command line reads flags, environment and file into this
// type; a program that embeds the server passes it to `startServer` directly. Nothing here reads the environment.

import { isIP } from "node:net";
import { resolve } from "node:path";
import { limits } from "@quiver/protocol/limits";
import type { Logger } from "pino";

export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];

export type ServerConfig = {
  /** Directory of all data; made when it is not there. One server at a time. */
  dataDir: string;
  /** A start waits for so long for a server that has the directory open and is ending. Default 10 seconds. */
  lockWaitMs?: number;
  /** Address or host name to listen on. Default `127.0.0.1`. */
  host?: string;
  /** TCP port; 0 takes a free one, which `RunningServer.port` then tells. Default 8443. */
  port?: number;

  /**
   * The admin key: 1 to 1,024 visible ASCII characters without a space. Without one, and without a key from an
   * earlier start, the first start makes a key and writes it to `<dataDir>/admin-key`.
   */
  adminKey?: string;
  /** Serves every request without a key. Accepted only together with a loopback `host`. Default false. */
  noAuth?: boolean;
  /**
   * Wrong keys that one address may send in a minute; then it gets 429 until the minute is over. Default 60. Clients that
   * come through one proxy share its address.
   */
  authFailuresMax?: number;
  /** Origins whose pages may call the server (`https://app.example.org`), or `["*"]` for all. Default: none. */
  corsOrigins?: readonly string[];

  /**
   * PEM file of the certificate, with those that lead to its authority behind it; the server then speaks HTTPS alone. It
   * is read again when it changes. Needs `tlsKey`. Default: none, HTTP.
   */
  tlsCert?: string;
  /** PEM file of the certificate's private key, without a passphrase. */
  tlsKey?: string;

  /** Largest request body in bytes; a larger one is answered with 413. Default 64 MiB. */
  bodyLimitBytes?: number;
  /** Bytes of request bodies that may be in memory at a time; beyond it requests get 503. Default 256 MiB. */
  bodiesInMemoryBytesMax?: number;
  /** Bytes of answers that clients have not read yet, beyond which further requests get 503. Default 256 MiB. */
  answersInMemoryBytesMax?: number;
  /** A search that does not say itself for how long it is waited for is stopped after so long. Default 1 minute. */
  requestDeadlineMs?: number;
  /** No request is worked on for longer than this, whatever it says itself. Default 1 minute. */
  requestDeadlineMaxMs?: number;
  /** No request takes more of the serving thread's time than this; exports may. Default 30 seconds. */
  requestWorkMaxMs?: number;
  /** A request that has waited for its turn for so long gets 503. Default 2 seconds. */
  queueWaitMs?: number;
  /** Requests of one key that may be under way at a time; further ones get 503 at once. Default 2,048. */
  keyRequestsMax?: number;
  /** An answer of which the client reads nothing for so long is given up, and its connection ends. Default 2 minutes. */
  answerStallMs?: number;
  /** A request, body included, must have arrived completely after so long. Default 5 minutes. */
  requestTimeoutMs?: number;
  /** The header lines of a request must have arrived after so long. Default 1 minute, at most `requestTimeoutMs`. */
  headersTimeoutMs?: number;
  /** A connection without a request for so long is closed. Default 72 seconds. */
  keepAliveTimeoutMs?: number;
  /** Open connections; further ones are refused. Default 10,000. */
  connectionsMax?: number;
  /**
   * On close, uploads that are still arriving, and long answers that are still being read, get so long to finish.
   * A request that has arrived is always carried out and answered. Default 30 seconds.
   */
  closeTimeoutMs?: number;

  /** Least severe lines that are logged. Default `info`. Ignored where `logger` is given. */
  logLevel?: LogLevel;
  /** Receives the log instead of standard output. */
  logger?: Logger;

  /**
   * Bytes that loaded indexes may take; beyond it idle collections are unloaded, and what would exceed it all the same gets 507, as
   * does what would take the process 512 MiB beyond it. Default: no limit.
   */
  memoryBudgetBytes?: number;
  /** An open transaction without an operation for so long is aborted. Default 1 hour. */
  transactionIdleMs?: number;
  /** Versions kept and listed per collection. Default 1,000. */
  versionsKept?: number;

  /** Milliseconds since 1970. Default `Date.now`. */
  clock?: () => number;
};

/** A configuration with every default filled in; what the server's parts are given. */
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
  logLevel: "info",
} as const satisfies Partial<ServerConfig>;

/** A configuration that no server can run with. The message names the option, its value and what to give instead. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly option: keyof ServerConfig;

  constructor(option: keyof ServerConfig, message: string) {
    super(message);
    this.option = option;
  }
}

/** True for an address or name that only this machine can reach. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  if (bare === "localhost" || bare === "::1") return true;
  return isIP(bare) === 4 && bare.startsWith("127.");
}

/** Largest delay that a timer of Node.js can take. */
const timerMsMax = 2 ** 31 - 1;

/** Bounds of the numbers, both included. */
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
  memoryBudgetBytes: [1, Number.MAX_SAFE_INTEGER],
  transactionIdleMs: [1, Number.MAX_SAFE_INTEGER],
  versionsKept: [1, 1_000_000],
};

/**
 * Fills in the defaults, makes the data directory absolute, and refuses what cannot be served.
 * @throws ConfigError
 */
export function completeConfig(config: ServerConfig): CompleteServerConfig {
  if (typeof config.dataDir !== "string" || config.dataDir === "") {
    throw new ConfigError("dataDir", "dataDir is missing; give the directory that is to hold the data.");
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
      `noAuth would open the database to everybody who reaches ${complete.host}; ` +
        "listen on a loopback address such as 127.0.0.1, or use an admin key.",
    );
  }
  return {
    ...complete,
    // Absolute from here on: the process may change its directory, and errors are searched for this text.
    dataDir: resolve(complete.dataDir),
    ...(complete.tlsCert === undefined ? {} : { tlsCert: resolve(complete.tlsCert) }),
    ...(complete.tlsKey === undefined ? {} : { tlsKey: resolve(complete.tlsKey) }),
    headersTimeoutMs: Math.min(complete.headersTimeoutMs, complete.requestTimeoutMs),
  };
}

/** The message never repeats the key. */
function checkKey(key: string | undefined): void {
  if (key === undefined) return;
  if (typeof key !== "string" || !/^[\x21-\x7e]{1,1024}$/.test(key)) {
    throw new ConfigError(
      "adminKey",
      "adminKey must be 1 to 1,024 visible ASCII characters without a space, since it travels in a header line; " +
        "give another one, or none to have one made.",
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
      `corsOrigins has ${JSON.stringify(origin)}; give scheme, host and port as in https://app.example.org, or *.`,
    );
  }
}
