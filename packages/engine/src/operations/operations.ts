// Which operations are there?

import { collections } from "./collections.ts";
import { indexes } from "./indexes.ts";
import { keys } from "./keys.ts";
import type { Operation } from "./operation.ts";
import { records } from "./records.ts";
import { searches } from "./searches.ts";
import { snapshots } from "./snapshots.ts";
import { transactions } from "./transactions.ts";
import { versions } from "./versions.ts";

/** All operations by name, in the order of the documents that are made from them. */
export const operations = {
  ...collections,
  ...indexes,
  ...searches,
  ...transactions,
  ...records,
  ...versions,
  ...snapshots,
  ...keys,
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof operations;
export type { Operation };

/** Their names and records, in this order. */
export const allOperations = Object.entries(operations) as [OperationName, Operation][];
