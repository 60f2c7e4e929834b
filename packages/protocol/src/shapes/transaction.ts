// What does the status of a transaction contain?

import Type, { type Static } from "typebox";

const Timestamp = Type.String({ format: "date-time", description: "ISO 8601, UTC, with milliseconds." });

export const TransactionCreated = Type.Object({ transaction_id: Type.String(), created_at: Timestamp });

/** Every state carries all fields; before the commit `version_created` is null. */
export const TransactionStats = Type.Object({
  records_upserted: Type.Integer({
    minimum: 0,
    description:
      "Number of upserts sent to the transaction; repeated upserts and several upserts of one id all count.",
  }),
  records_deleted: Type.Integer({
    minimum: 0,
    description:
      "Number of deletes sent to the transaction, including deletes of records that it had upserted itself.",
  }),
  total_operations: Type.Integer({ minimum: 0, description: "Sum of upserts and deletes." }),
  percentage_complete: Type.Number({ minimum: 0, maximum: 100 }),
  processing_time_seconds: Type.Integer({
    minimum: 0,
    description: "Time from the commit until now, or until the status Complete.",
  }),
  average_throughput: Type.Number({ minimum: 0, description: "Operations per second since the commit." }),
  version_created: Type.Unsafe<number | null>({ type: ["integer", "null"] }),
});

const stats = { stats: TransactionStats };

export const TransactionState = Type.Union([
  Type.Object({ NotStarted: Type.Object({ last_updated: Timestamp, ...stats }) }),
  Type.Object({ InProgress: Type.Object({ started_at: Timestamp, last_updated: Timestamp, ...stats }) }),
  Type.Object({ Complete: Type.Object({ started_at: Timestamp, completed_at: Timestamp, ...stats }) }),
  Type.Object({ Aborted: Type.Object({ aborted_at: Timestamp, ...stats }) }),
  Type.Object({ Failed: Type.Object({ failed_at: Timestamp, message: Type.String(), ...stats }) }),
]);

export const TransactionStatus = Type.Object({ status: TransactionState });

export const flatStates = ["not_started", "indexing_in_progress", "complete", "aborted", "failed"] as const;
export const FlatTransactionStatus = Type.Object(
  {
    status: Type.Unsafe<(typeof flatStates)[number]>({ type: "string", enum: flatStates } as never),
    stats: TransactionStats,
    started_at: Type.Unsafe<string | null>({ type: ["string", "null"] }),
    last_updated: Timestamp,
  },
  { description: "Response for ?format=flat." },
);

export const TransactionSummary = Type.Object({
  transaction_id: Type.String(),
  created_at: Timestamp,
  status: TransactionState,
});
export const TransactionList = Type.Object({
  transactions: Type.Array(TransactionSummary, { description: "Newest first." }),
});

export type TransactionCreated = Static<typeof TransactionCreated>;
export type TransactionStats = Static<typeof TransactionStats>;
export type TransactionState = Static<typeof TransactionState>;
export type TransactionStatus = Static<typeof TransactionStatus>;
export type FlatTransactionStatus = Static<typeof FlatTransactionStatus>;
export type TransactionList = Static<typeof TransactionList>;
