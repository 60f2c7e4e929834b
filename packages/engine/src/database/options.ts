// How is a database opened?
//
// In a file of its own, because a program that embeds the database needs these types and nothing behind them.

/** Where a database is, and what it may use. */
export type DatabaseOptions = {
  /** Directory of all data; created if it does not exist. Only one process can use it at a time. */
  dataDir: string;
  /** How long opening waits for another process that has the directory open and is stopping. Default 10 seconds. */
  lockWaitMs?: number;
  /** Uses a directory also if it has other files, and nothing that says it is a data directory. Default false: `data_directory_foreign`. */
  force?: boolean;
  /**
   * Memory budget of loaded indexes in bytes. Beyond it idle collections are unloaded; operations that would still exceed it are rejected
   * with `memory_budget_exceeded`, as are operations that would take the process more than 512 MiB beyond it (128 MiB more for each of `readerThreads`). Default: no limit.
   */
  memoryBudgetBytes?: number;
  /** An open transaction that gets no operation for this long is aborted. Default one hour. */
  transactionIdleMs?: number;
  /** Threads that build dense indexes. Default: the cores but one, 1 to 8. */
  builderThreads?: number;
  /** Threads besides the caller's that may search, at most (`Database.threads`). Each takes some memory of every graph. Default 0. */
  readerThreads?: number;
  /**
   * How long a search waits for an index that lags behind what was acknowledged; then it is rejected with `not_ready` and the progress.
   * Default: as long as the call may take.
   */
  indexWaitMs?: number;
  /** Number of versions that are kept and listed per collection. Default 1,000. */
  versionsKept?: number;
  /** Receives what happens in the background. Never keys, vectors or texts. */
  log?: DatabaseLog;
  /** Milliseconds since 1970. */
  clock?: () => number;
};

/** A log with the methods of pino. */
export type DatabaseLog = {
  /** What happened. */
  info(fields: Record<string, unknown>, message: string): void;
  /** What may need somebody. */
  warn(fields: Record<string, unknown>, message: string): void;
  /** What failed. */
  error(fields: Record<string, unknown>, message: string): void;
};
