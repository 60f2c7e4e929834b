// Which settings does `quiver serve` use, and where does each come from?
//
// A user sets them by flags at a terminal, by variables in a container, by a file on a host; a wrong one is named with its source.
//
//   flag  >  environment variable  >  configuration file  >  default
//
// One row of the table below defines the flag, the variable, the key of the file and the line of the help: the variable is QUIVER_ plus the
// flag in capitals, the key is the flag in camel case. Every error names the source of the value that is wrong.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { nearestName } from "@quiverdb/protocol/nearest-name";
import { configDefaults, logLevels, type ServerConfig } from "@quiverdb/server/config";
import { defaultDataDir } from "../command.ts";
import { UsageError } from "../exit-codes.ts";
import { readBoolean, readBytes, readDuration, readInteger } from "../values.ts";

export type Setting = {
  /** Key of the file: `dataDir`. */
  readonly key: string;
  /** Flag without dashes: `data-dir`. */
  readonly flag: string;
  readonly env: string;
  /** Placeholder of the value in the help; absent for a flag without a value. */
  readonly value?: string;
  readonly help: string;
  /** The default as shown in the help. */
  readonly fallback?: string;
  /** Option of the server's configuration. */
  readonly option: keyof ServerConfig;
  /** True for a list: the flag may be repeated, the variable has commas, the file an array. */
  readonly list?: boolean;
  readonly read: (text: string) => unknown;
};

/** How the text of a setting is read, and how its default is shown. */
type Form = Pick<Setting, "value" | "read" | "list"> & { readonly shown?: (value: never) => string };

const number: Form = { value: "number", read: (text) => readInteger(text), shown: String };
const size: Form = {
  value: "size",
  read: readBytes,
  shown: (bytes: number) => (bytes % 1024 ** 3 === 0 ? `${bytes / 1024 ** 3}GiB` : `${bytes / 1024 ** 2}MiB`),
};
const duration: Form = {
  value: "duration",
  read: readDuration,
  shown: (ms: number) => (ms % 60_000 === 0 ? `${ms / 60_000}m` : `${ms / 1000}s`),
};
const text = (value: string): Form => ({ value, read: (given) => given, shown: String });

type Row = readonly [flag: string, option: keyof ServerConfig, form: Form, help: string, fallback?: string];

// biome-ignore format: a table is read by its columns.
const rows: readonly Row[] = [
  ["port", "port", { ...number, read: (given) => readInteger(given, 0, 65_535) }, "TCP port; 0 selects a free one"],
  ["host", "host", text("address"), "address or host name to listen on"],
  ["data-dir", "dataDir", text("dir"), "directory of all data, created if it does not exist", defaultDataDir],
  ["force", "force", { read: readBoolean }, "use the data directory also if it has other files, and none of Quiver", "off"],
  ["lock-wait", "lockWaitMs", duration, "how long a start waits for another server that has the directory open and is stopping"],
  ["admin-key", "adminKey", text("key"), "the admin key; prefer the variable, because other users can see flags", "generated at the first start, which prints the file name"],
  ["no-auth", "noAuth", { read: readBoolean }, "serve every request without a key; only on a loopback address", "off"],
  ["auth-failures-max", "authFailuresMax", number, "wrong keys that one address may send per minute before it has to wait"],
  ["tls-cert", "tlsCert", text("file"), "PEM file of the certificate, which enables HTTPS; read again when it changes", "none: HTTP"],
  ["tls-key", "tlsKey", text("file"), "PEM file of the certificate's private key, without a passphrase", "none"],
  ["cors-origin", "corsOrigins", { ...text("origin"), list: true }, "origin of web pages that may call the server, or *; may be repeated", "none"],
  ["body-limit", "bodyLimitBytes", size, "largest request body"],
  ["bodies-in-memory", "bodiesInMemoryBytesMax", size, "maximum bytes of request bodies in memory at a time"],
  ["answers-in-memory", "answersInMemoryBytesMax", size, "maximum bytes of responses in memory that clients have not read yet"],
  ["request-deadline", "requestDeadlineMs", duration, "deadline of a search that sends no x-quiver-timeout-ms"],
  ["request-deadline-max", "requestDeadlineMaxMs", duration, "upper bound of x-quiver-timeout-ms"],
  ["request-work-max", "requestWorkMaxMs", duration, "a request that takes more processor time is stopped"],
  ["queue-wait", "queueWaitMs", duration, "a request that has waited in a queue for this long gets 503"],
  ["key-requests-max", "keyRequestsMax", number, "maximum requests of one key in progress; further ones get 503 at once"],
  ["answer-stall", "answerStallMs", duration, "a response is aborted if the client reads nothing of it for this long"],
  ["request-timeout", "requestTimeoutMs", duration, "time in which a request must arrive completely"],
  ["headers-timeout", "headersTimeoutMs", duration, "time in which the headers of a request must arrive"],
  ["keep-alive-timeout", "keepAliveTimeoutMs", duration, "time after which a connection without a request is closed"],
  ["connections-max", "connectionsMax", number, "maximum number of open connections; further ones are refused"],
  ["close-timeout", "closeTimeoutMs", duration, "time for uploads in progress to finish when the server stops"],
  ["serving-threads", "servingThreads", number, "threads that take connections and search, besides the one that owns the database; 0 for none", "one, and where there are two cores or more, further ones when the load needs them: one for each core, at most 8"],
  ["no-console", "console", { read: (given) => !readBoolean(given) }, "do not serve the console at /", "off"],
  ["log-level", "logLevel", { ...text("level"), read: readLogLevel }, `minimum severity of log lines: ${logLevels.join(", ")}`],
  ["memory-budget", "memoryBudgetBytes", size, "memory for indexes; beyond it idle collections are unloaded, then requests get 507", "no limit"],
  ["transaction-idle", "transactionIdleMs", duration, "an open transaction without an operation for this long is aborted", "1h"],
  ["cluster", "cluster", { ...text("url"), list: true, read: readNats }, "NATS servers whose log makes this server a node of a cluster: nats://a,b,c", "none: the server is alone"],
  ["node", "node", text("name"), "name of the node in its cluster, which stays that of its data directory"],
  ["advertise", "advertise", text("url"), "URL at which clients and the other nodes reach this node"],
  ["cluster-creds", "clusterCreds", text("file"), "file with credentials for the NATS servers", "none"],
  ["cluster-ca", "clusterCa", text("file"), "PEM file of the authority that signed the certificates of the NATS servers", "that of the system"],
  ["cluster-monitor", "clusterMonitors", { ...text("url"), list: true }, "monitoring addresses of the NATS servers, which tell how they sync", "port 8222 of each"],
  ["cluster-shards", "clusterShards", number, "shards of a collection that does not say how many", "1"],
  ["cluster-replicas", "clusterReplicas", number, "nodes that hold a collection that does not say how many", "3"],
  ["cluster-logs", "clusterLogs", number, "logs of a new cluster; later starts change nothing", "8"],
  ["log-keep", "clusterKeepMs", duration, "how long the logs keep what a node that is away has not read; a node that was away longer copies from another one", "24h"],
  ["replace-after", "clusterReplaceMs", duration, "how long a node may be away before other nodes take over its collections, where there are other nodes", "15m"],
  ["allow-unverified-sync", "clusterUnverifiedSync", { read: readBoolean }, "accept NATS servers that do not tell how they sync", "off"],
  ["versions-kept", "versionsKept", number, "number of versions that are kept and listed per collection", "1000"],
];

const defaults: Partial<ServerConfig> = configDefaults;

export const settings: readonly Setting[] = rows.map(
  ([flag, option, { shown, ...form }, help, fallback]) => ({
    key: flag.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase()),
    flag,
    env: `QUIVER_${flag.toUpperCase().replaceAll("-", "_")}`,
    option,
    help,
    fallback: fallback ?? shown?.(defaults[option] as never),
    ...form,
  }),
);

export const configFlag = {
  flag: "config",
  env: "QUIVER_CONFIG",
  file: "quiver.config.json",
} as const;

/** The source of a value, as named in messages. */
export type Source = string;

export type ResolvedSettings = {
  readonly config: ServerConfig;
  /** The source of each option that is not a default. */
  readonly sources: ReadonlyMap<keyof ServerConfig, Source>;
};

export type SettingInputs = {
  /** Key -> value from the command line: text, true, or a list of texts. */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The path and content of the configuration file, if there is one. */
  readonly file?: { readonly path: string; readonly content: string };
};

/**
 * Determines every setting.
 * @throws UsageError naming the source of the first value that is wrong
 */
export function resolveSettings({ flags, env, file }: SettingInputs): ResolvedSettings {
  const fromFile = file ? parseFile(file.path, file.content) : {};
  const config: Record<string, unknown> = { dataDir: defaultDataDir };
  const sources = new Map<keyof ServerConfig, Source>();
  for (const row of settings) {
    const found =
      fromFlag(row, flags[row.key]) ??
      fromVariable(row, env[row.env]) ??
      fromKey(row, fromFile[row.key], file?.path);
    if (!found) continue;
    config[row.option] = readValue(row, found);
    sources.set(row.option, found.source);
  }
  config.dataDir = resolve(config.dataDir as string);
  return { config: config as ServerConfig, sources };
}

/** The configuration file to read: named by flag or variable, or the default one if it exists. */
export function findConfigFile(
  flags: SettingInputs["flags"],
  env: SettingInputs["env"],
): SettingInputs["file"] {
  const named = (flags[configFlag.flag] as string | undefined) ?? (env[configFlag.env] || undefined);
  const source = flags[configFlag.flag] !== undefined ? `--${configFlag.flag}` : configFlag.env;
  const path = named ?? configFlag.file;
  try {
    return { path, content: readFileSync(path, "utf8") };
  } catch (error) {
    if (named === undefined && (error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    const where = named === undefined ? path : `${source} ${path}`;
    throw new UsageError(`${where}: cannot read the configuration file: ${(error as Error).message}`);
  }
}

type Found = { readonly texts: readonly string[]; readonly source: Source };

function fromFlag(row: Setting, given: unknown): Found | undefined {
  if (given === undefined) return undefined;
  const texts = given === true ? ["true"] : Array.isArray(given) ? given : [given];
  return { texts, source: `--${row.flag}` };
}

function fromVariable(row: Setting, given: string | undefined): Found | undefined {
  // An empty variable counts as unset: shells and compose files clear variables in this way.
  if (given === undefined || given === "") return undefined;
  const texts = row.list ? given.split(",").map((part) => part.trim()) : [given];
  return { texts: texts.filter((part) => part !== ""), source: row.env };
}

function fromKey(row: Setting, given: unknown, path = ""): Found | undefined {
  if (given === undefined || given === null) return undefined;
  const source = `${path}: ${row.key}`;
  const items = row.list && Array.isArray(given) ? given : [given];
  for (const item of items) {
    if (typeof item === "string" || typeof item === "number" || typeof item === "boolean") continue;
    const kind = Array.isArray(item) ? "an array" : "an object";
    throw new UsageError(
      `${source}: is ${kind}, expected ${row.list ? "a list of texts" : "a single value"}.`,
    );
  }
  return { texts: items.map(String), source };
}

function readValue(row: Setting, { texts, source }: Found): unknown {
  const values = texts.map((value) => {
    try {
      return row.read(value);
    } catch (error) {
      // A key must not end up in a terminal's history or a log.
      const shown = row.option === "adminKey" ? "" : ` ${JSON.stringify(value)}`;
      throw new UsageError(`${source}${shown}: ${(error as Error).message}.`);
    }
  });
  return row.list ? values : values[0];
}

function parseFile(path: string, content: string): Record<string, unknown> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(content);
  } catch (error) {
    throw new UsageError(`${path}: is not JSON: ${(error as Error).message}.`);
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) {
    throw new UsageError(`${path}: expected a JSON object such as {"port": 9000}.`);
  }
  const known = settings.map(({ key }) => key);
  for (const key of Object.keys(parsed)) {
    // Editors use "$schema"; the server ignores it.
    if (known.includes(key) || key === "$schema") continue;
    const nearest = nearestName(key, known);
    const hint = nearest === undefined ? "quiver serve --help lists the flags" : `did you mean ${nearest}?`;
    throw new UsageError(`${path}: unknown key ${JSON.stringify(key)}; ${hint}`);
  }
  return parsed as Record<string, unknown>;
}

/** The scheme of the first address is that of those without one. */
function readNats(value: string): string {
  return value.includes("://") ? value : `nats://${value}`;
}

function readLogLevel(value: string): string {
  if ((logLevels as readonly string[]).includes(value)) return value;
  throw new Error(`expected one of ${logLevels.join(", ")}`);
}
