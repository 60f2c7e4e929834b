// What does a program give to a server, and what does it get?
//
// In a file of its own, because a program that embeds the server needs these types and nothing behind them.

/** How much is logged, from everything to nothing. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
/** The least level that is logged. */
export type LogLevel = (typeof logLevels)[number];

/** How a server is configured. What is left out has its default; `--help` of `quiver serve` has the same settings. */
export type ServerOptions = {
  /** Directory of all data; created if it does not exist. Only one server can use it at a time. */
  dataDir: string;
  /** How long a start waits for another server that has the directory open and is stopping. Default 10 seconds. */
  lockWaitMs?: number;
  /** Uses a directory also if it has other files, and nothing that says it is a data directory. Default false: `data_directory_foreign`. */
  force?: boolean;
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
   * `clock`. Default 0; the command line: up to one for each core, at most 8, where there are two or more.
   */
  servingThreads?: number;

  /** How many of them start with the server; the others when the load needs them. Default: all; the command line: one. */
  servingThreadsAtStart?: number;

  /** Serves the console, a page to look at the data and search it, at `/`. The page needs no key, its requests do. Default true. */
  console?: boolean;

  /** Minimum severity of log lines. Default `info`. */
  logLevel?: LogLevel;

  /**
   * Memory budget of loaded indexes in bytes. Beyond it idle collections are unloaded, and requests that would still exceed it get 507, as
   * do requests that would take the process more than 512 MiB (and 128 MiB for each serving thread) beyond it. Default: no limit.
   */
  memoryBudgetBytes?: number;
  /** An open transaction that gets no operation for this long is aborted. Default 1 hour. */
  transactionIdleMs?: number;
  /** Number of versions that are kept and listed per collection. Default 1,000. */
  versionsKept?: number;

  /**
   * Makes the server a node of a cluster, whose log these NATS servers keep (`nats://host:4222`); needs `node` and `advertise`, and has no
   * `servingThreads`. Default: it is alone.
   */
  cluster?: readonly string[];
  /** Name of the node, which stays that of its data directory: 1 to 32 letters, digits, `-` and `_`. */
  node?: string;
  /** URL at which clients and other nodes reach the node. */
  advertise?: string;
  /** File with credentials for the NATS servers. */
  clusterCreds?: string;
  /** PEM file of the authority that signed the certificates of the NATS servers. */
  clusterCa?: string;
  /** Monitoring addresses of the NATS servers, which tell how they sync. Default: port 8222 of each. */
  clusterMonitors?: readonly string[];
  /** How many logs a new cluster has, 1 to 64; later starts change nothing. Default 8. */
  clusterLogs?: number;
  /** Shards of a collection that does not say how many, 1 to 1,024. Default 1. */
  clusterShards?: number;
  /** Nodes that hold a collection, or a shard, that does not say how many. Default 3. */
  clusterReplicas?: number;
  /** How long the logs keep what a node that is away has not read. Default: a day. */
  clusterKeepMs?: number;
  /** How long a node may be away before others take its place. */
  clusterReplaceMs?: number;
  /** Accepts NATS servers that do not tell how they sync. Default false. */
  clusterUnverifiedSync?: boolean;
};

/** A server that runs. */
export type ServerHandle = {
  /** URL for clients, without a trailing slash: `http://127.0.0.1:8443`, or `https` with a certificate. */
  readonly url: string;
  /** The port that the server listens on. */
  readonly port: number;
  /** File that this start wrote a generated admin key to; undefined if none was generated. */
  readonly adminKeyFile: string | undefined;
  /**
   * Stops the server: accepts no new connection, finishes every accepted request, then closes the database. A second call waits for the
   * first.
   */
  close(): Promise<void>;
};
