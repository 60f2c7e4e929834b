// How are transactions served over HTTP: create, add, upsert, delete, commit or abort?

import { emptyObject, json } from "../json-answer.ts";
import { readVector } from "../request/dense-vectors.ts";
import { withExactMetadata } from "../request/exact-metadata.ts";
import { wordParameter } from "../request/query.ts";
import { writeRecords } from "../request/records.ts";
import type { Call, Handlers } from "./handlers.ts";

export const transactionHandlers: Handlers<
  | "createTransaction"
  | "listTransactions"
  | "getTransactionStatus"
  | "commitTransaction"
  | "abortTransaction"
  | "addVector"
  | "upsertVectors"
  | "deleteVectorInTransaction"
> = {
  createTransaction: async ({ database, params }) =>
    json(await database.collection(params.collection_id).beginTransaction()),
  listTransactions: ({ database, params }) => json(database.collection(params.collection_id).transactions()),
  getTransactionStatus(call) {
    const flat = wordParameter(call.query, "format", ["flat"]) === "flat";
    const transaction = transactionOf(call);
    return json(flat ? transaction.flatStatus() : transaction.status());
  },
  commitTransaction: (call) => transactionOf(call).commit(call.deadline),
  abortTransaction: (call) => transactionOf(call).abort(call.deadline),
  async addVector(call) {
    const { body, parsed, work, deadline } = call;
    readVector(body, "dense_values");
    const [vector] = await work.task.finish(withExactMetadata([body], parsed, "body"));
    await transactionOf(call).add(vector, deadline);
    return emptyObject;
  },
  async upsertVectors(call) {
    const transaction = transactionOf(call);
    await writeRecords(call, (vectors, deadline) => transaction.upsert(vectors, deadline));
    return emptyObject;
  },
  deleteVectorInTransaction: (call) => transactionOf(call).delete(call.params.vector_id, call.deadline),
};

type TransactionCall = Pick<Call<"commitTransaction">, "database" | "params">;

const transactionOf = ({ database, params }: TransactionCall) =>
  database.collection(params.collection_id).transaction(params.transaction_id);
