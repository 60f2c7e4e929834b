// The status of a transaction.

import type {
  FlatTransactionStatus,
  TransactionState,
  TransactionStats,
} from "@quiverdb/protocol/shapes/transaction";
import type { TransactionEntry } from "../collection/transaction.ts";

export const isoTime = (ms: number): string => new Date(ms).toISOString();

/** Indexing progress of a committed transaction: the time of its completion, or the share that is done. */
export type IndexingProgress = { completedMs: number } | { fraction: number };

function statsOf(
  entry: TransactionEntry,
  progress: IndexingProgress | null,
  nowMs: number,
): TransactionStats {
  const operations = entry.upserts + entry.deletes;
  const { committedMs } = entry;
  const isDone = progress !== null && "completedMs" in progress;
  const untilMs = isDone ? progress.completedMs : nowMs;
  const seconds = committedMs === undefined ? 0 : Math.max(0, untilMs - committedMs) / 1000;
  const fraction = progress === null ? 0 : isDone ? 1 : progress.fraction;
  return {
    records_upserted: entry.upserts,
    records_deleted: entry.deletes,
    total_operations: operations,
    percentage_complete: Math.round(fraction * 10_000) / 100,
    processing_time_seconds: Math.floor(seconds),
    average_throughput: committedMs === undefined ? 0 : (operations * fraction) / Math.max(seconds, 0.001),
    version_created: entry.version ?? null,
  };
}

/**
 * The state in the contract's form, keyed by its name.
 * @param progress of a committed transaction; null in other states
 */
export function stateOf(
  entry: TransactionEntry,
  progress: IndexingProgress | null,
  nowMs: number,
): TransactionState {
  const stats = statsOf(entry, progress, nowMs);
  const last_updated = isoTime(entry.updatedMs);
  switch (entry.state) {
    case "open":
      return { NotStarted: { last_updated, stats } };
    case "aborted":
      return { Aborted: { aborted_at: isoTime(entry.endedMs ?? entry.updatedMs), stats } };
    case "failed": {
      const failed_at = isoTime(entry.endedMs ?? entry.updatedMs);
      return { Failed: { failed_at, message: entry.message ?? "", stats } };
    }
    default: {
      const started_at = isoTime(entry.committedMs ?? entry.updatedMs);
      return progress !== null && "completedMs" in progress
        ? { Complete: { started_at, completed_at: isoTime(progress.completedMs), stats } }
        : { InProgress: { started_at, last_updated: isoTime(nowMs), stats } };
    }
  }
}

/** The flat form that older clients ask for. */
export function flatStatusOf(
  entry: TransactionEntry,
  progress: IndexingProgress | null,
  nowMs: number,
): FlatTransactionStatus {
  const state = stateOf(entry, progress, nowMs);
  const status =
    "NotStarted" in state
      ? "not_started"
      : "InProgress" in state
        ? "indexing_in_progress"
        : "Complete" in state
          ? "complete"
          : "Aborted" in state
            ? "aborted"
            : "failed";
  const updatedMs = progress !== null && "completedMs" in progress ? progress.completedMs : entry.updatedMs;
  return {
    status,
    stats: statsOf(entry, progress, nowMs),
    started_at: entry.committedMs === undefined ? null : isoTime(entry.committedMs),
    last_updated: isoTime(updatedMs),
  };
}
