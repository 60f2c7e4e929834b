// What does a caller who sees only some records learn from an error?
//
// Nothing of the other records and transactions.

import { type ErrorCode, QuiverError } from "@quiverdb/protocol/errors";

/** Messages of the errors that name numbers, ids or places of all records. */
const general: Partial<Record<ErrorCode, string>> = {
  max_vectors_exceeded:
    "The operation would exceed the collection's max_vectors. Nothing was changed; delete vectors first.",
  memory_budget_exceeded: "The operation needs more memory than there is. Nothing was changed.",
  transaction_ongoing:
    "There is an on-going transaction! A collection has at most one; try again when it has ended.",
  data_corrupted: "The collection has damaged data. An administrator finds it with 'quiver check'.",
};

/** An error as such a caller gets it. */
export function discreetError(error: unknown): unknown {
  const message = error instanceof QuiverError ? general[error.code] : undefined;
  if (message === undefined) return error;
  return new QuiverError((error as QuiverError).code, message, {}, { cause: error });
}

/** The same methods, whose errors do not tell of other records and transactions. */
export function discreet<T extends object>(methods: T): T {
  const wrap = (method: (...args: unknown[]) => unknown) =>
    function discreetly(...args: unknown[]): unknown {
      try {
        const made = method(...args);
        return made instanceof Promise ? made.catch(rethrow) : made;
      } catch (error) {
        return rethrow(error);
      }
    };
  const wrapped = Object.entries(methods).map(([name, member]) => [
    name,
    typeof member === "function" ? wrap(member as (...args: unknown[]) => unknown) : member,
  ]);
  return Object.fromEntries(wrapped) as T;
}

const rethrow = (error: unknown): never => {
  throw discreetError(error);
};
