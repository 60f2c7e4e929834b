// How does a transaction run over HTTP: open, add, upsert, delete, then commit or abort?

import { QuiverError } from "@quiver/protocol/errors";
import { emptyObject, json } from "../json-answer.ts";
import { withExactMetadata } from "../request/exact-metadata.ts";
import { wordParameter } from "../request/query.ts";
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
  commitTransaction: (call) => transactionOf(call).commit(),
  abortTransaction: (call) => transactionOf(call).abort(),
  async addVector(call) {
    const vectors = withExactMetadata([call.body], call.bodyText, "body");
    try {
      await transactionOf(call).upsert(vectors);
    } catch (error) {
      throw withoutPosition(error);
    }
    return emptyObject;
  },
  async upsertVectors(call) {
    await transactionOf(call).upsert(withExactMetadata(call.body.vectors, call.bodyText, "vectors"));
    return emptyObject;
  },
  deleteVectorInTransaction: (call) => transactionOf(call).delete(call.params.vector_id),
};

type TransactionCall = Pick<Call<"commitTransaction">, "database" | "params">;

const transactionOf = ({ database, params }: TransactionCall) =>
  database.collection(params.collection_id).transaction(params.transaction_id);

/** The engine counts records; a body that is one record has no `vectors[0]`. */
function withoutPosition(error: unknown): unknown {
  if (!(error instanceof QuiverError)) return error;
  const strip = (text: string) => text.replaceAll("vectors[0].", "").replaceAll("vectors[0]", "the vector");
  const { path } = error.details;
  const details = typeof path === "string" ? { ...error.details, path: strip(path) } : error.details;
  return new QuiverError(error.code, strip(error.message), details, { cause: error });
}
