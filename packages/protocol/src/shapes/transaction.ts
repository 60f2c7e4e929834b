// What does the status of a transaction contain?

import Type, { type Static } from "typebox";

const timeOf = (what: string) =>
  Type.String({ format: "date-time", description: `${what}: ISO 8601, UTC, with milliseconds.` });

export const TransactionCreated = Type.Object({
  transaction_id: Type.String({ description: "Names the transaction in requests." }),
  created_at: timeOf("Time of its creation"),
});

/** Every state carries all fields; before the commit `version_created` is null. */
export const TransactionStats = Type.Object(
  {
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
    percentage_complete: Type.Number({
      minimum: 0,
      maximum: 100,
      description: "How much of the transaction is in the indexes.",
    }),
    processing_time_seconds: Type.Integer({
      minimum: 0,
      description: "Time from the commit until now, or until the status Complete.",
    }),
    average_throughput: Type.Number({ minimum: 0, description: "Operations per second since the commit." }),
    version_created: Type.Unsafe<number | null>({
      type: ["integer", "null"],
      description: "The version that the commit made; null before it.",
    }),
  },
  { description: "What the transaction was given, and how far its indexing is." },
);

const stats = { stats: TransactionStats };
const started_at = timeOf("Time of the commit");
const last_updated = timeOf("Time of the last change");

export const TransactionState = Type.Union(
  [
    Type.Object({
      NotStarted: Type.Object({ last_updated, ...stats }, { description: "It is open." }),
    }),
    Type.Object({
      InProgress: Type.Object(
        { started_at, last_updated, ...stats },
        { description: "It is committed and visible, and is being indexed." },
      ),
    }),
    Type.Object({
      Complete: Type.Object(
        { started_at, completed_at: timeOf("Time of the end of the indexing"), ...stats },
        { description: "It is committed and indexed." },
      ),
    }),
    Type.Object({
      Aborted: Type.Object(
        { aborted_at: timeOf("Time of the abort"), ...stats },
        { description: "Its changes were discarded." },
      ),
    }),
    Type.Object({
      Failed: Type.Object(
        {
          failed_at: timeOf("Time of the failure"),
          message: Type.String({ description: "The reason." }),
          ...stats,
        },
        { description: "It could not be committed." },
      ),
    }),
  ],
  { description: "The state of a transaction: an object with the name of the state as its key." },
);

export const TransactionStatus = Type.Object({ status: TransactionState });

export const flatStates = ["not_started", "indexing_in_progress", "complete", "aborted", "failed"] as const;
export const FlatTransactionStatus = Type.Object(
  {
    status: Type.Unsafe<(typeof flatStates)[number]>({ type: "string", enum: flatStates } as never),
    stats: TransactionStats,
    started_at: Type.Unsafe<string | null>({
      type: ["string", "null"],
      description: "Time of the commit; null before it.",
    }),
    last_updated,
  },
  { description: "Response for ?format=flat." },
);

export const TransactionSummary = Type.Object({
  transaction_id: Type.String({ description: "Names the transaction in requests." }),
  created_at: timeOf("Time of its creation"),
  status: TransactionState,
});
export const TransactionList = Type.Object({
  transactions: Type.Array(TransactionSummary, { description: "Newest first." }),
});

export const AnyTransactionStatus = Type.Union([TransactionStatus, FlatTransactionStatus]);

export type TransactionCreated = Static<typeof TransactionCreated>;
export type TransactionStats = Static<typeof TransactionStats>;
export type TransactionState = Static<typeof TransactionState>;
export type TransactionStatus = Static<typeof TransactionStatus>;
export type FlatTransactionStatus = Static<typeof FlatTransactionStatus>;
export type TransactionList = Static<typeof TransactionList>;
export type AnyTransactionStatus = Static<typeof AnyTransactionStatus>;
