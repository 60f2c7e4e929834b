// Which operations are there on transactions?

import { Empty } from "@quiverdb/protocol/shapes/common";
import * as transaction from "@quiverdb/protocol/shapes/transaction";
import * as vector from "@quiverdb/protocol/shapes/vector";
import { collectionPath, missingCollectionIs400, operation } from "./operation.ts";
import { fieldsOf, word } from "./parameters.ts";

const one = `${collectionPath}/transactions/{transaction_id}` as const;
const missingIs400 = {
  collection_not_found: 400,
  transaction_not_found: 400,
  vector_not_found: 400,
} as const;

const writing = {
  role: "write",
  keyFilter: "filtered",
  work: "write",
  tag: "Transactions",
  status: 204,
  statusOf: missingIs400,
  errors: [400, 500],
} as const;

export const transactions = {
  createTransaction: operation(
    {
      once: true,
      method: "POST",
      path: `${collectionPath}/transactions`,
      repeat: "refused",
      work: "write",
      role: "write",
      keyFilter: "filtered",
      tag: "Transactions",
      summary: "Create transaction",
      answer: transaction.TransactionCreated,
      statusOf: missingCollectionIs400,
      errors: [400, 409, 500],
    },
    ({ collection, options }) => collection.beginTransaction(options),
  ),
  listTransactions: operation(
    {
      method: "GET",
      path: `${collectionPath}/transactions`,
      role: "read",
      keyFilter: "filtered",
      tag: "Transactions",
      summary: "List open and recent transactions",
      answer: transaction.TransactionList,
      statusOf: missingCollectionIs400,
      errors: [400, 500],
    },
    ({ collection }) => collection.transactions(),
  ),
  getTransactionStatus: operation(
    {
      method: "GET",
      path: `${one}/status`,
      role: "read",
      keyFilter: "filtered",
      tag: "Transactions",
      summary: "Get transaction status",
      query: { format: word(["flat"], "`flat` returns the flat form that older clients expect.") },
      answer: transaction.AnyTransactionStatus,
      statusOf: missingCollectionIs400,
    },
    ({ transaction, query }) => (query.format === "flat" ? transaction.flatStatus() : transaction.status()),
  ),
  commitTransaction: operation(
    {
      once: true,
      // The client (transaction.ts) decides what a repeated commit or abort means if the transaction is no longer open.
      method: "POST",
      path: `${one}/commit`,
      ...writing,
      summary: "Commit transaction",
      query: fieldsOf(vector.IfVersion),
      errors: [400, 412, 500],
    },
    ({ transaction, query, options }) => transaction.commit(options, query),
  ),
  abortTransaction: operation(
    {
      once: true,
      method: "POST",
      path: `${one}/abort`,
      ...writing,
      summary: "Abort transaction",
    },
    ({ transaction, options }) => transaction.abort(options),
  ),
  addVector: operation(
    {
      once: true,
      method: "POST",
      path: `${one}/vectors`,
      work: "write",
      role: "write",
      keyFilter: "filtered",
      tag: "Transactions",
      summary: "Add vector",
      body: vector.VectorInput,
      answer: Empty,
      statusOf: missingIs400,
      errors: [400, 500],
      records: "body",
    },
    ({ transaction, body, options }) => transaction.add(body, options),
    { id: "a4", dense_values: [0.3, 0.3, 0.3], text: "Ants build", metadata: { topic: "ants", year: 2010 } },
  ),
  upsertVectors: operation(
    {
      once: true,
      method: "POST",
      path: `${one}/upsert`,
      work: "write",
      role: "write",
      keyFilter: "filtered",
      tag: "Transactions",
      summary: "Upsert vectors",
      body: vector.UpsertVectors,
      answer: Empty,
      statusOf: missingIs400,
      errors: [400, 500],
      records: "vectors",
    },
    ({ transaction, body, options }) => transaction.upsert(body.vectors, options),
    {
      vectors: [
        {
          id: "a5",
          dense_values: [0.4, 0.1, 0.3],
          text: "Ants carry",
          metadata: { topic: "ants", year: 2011 },
        },
      ],
    },
  ),
  deleteVectorInTransaction: operation(
    {
      once: true,
      method: "DELETE",
      path: `${one}/vectors/{vector_id}`,
      done: "vector_not_found",
      ...writing,
      summary: "Delete vector in transaction",
      query: fieldsOf(vector.IfMatch),
    },
    ({ transaction, params, query, options }) => transaction.delete(params.vector_id, options, query),
  ),
};
