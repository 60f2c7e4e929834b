// How are records written and deleted over HTTP without a transaction?

import { emptyObject } from "../json-answer.ts";
import { writeRecords } from "../request/records.ts";
import type { Handlers } from "./handlers.ts";

export const streamingHandlers: Handlers<"streamingUpsert" | "streamingDelete" | "streamingDeleteAlias"> = {
  async streamingUpsert(call) {
    const collection = call.database.collection(call.params.collection_id);
    await writeRecords(call, (vectors, deadline) => collection.upsert(vectors, deadline));
    return emptyObject;
  },
  streamingDelete: ({ database, params, deadline }) =>
    database.collection(params.collection_id).delete(params.vector_id, deadline),
  streamingDeleteAlias: ({ database, params, deadline }) =>
    database.collection(params.collection_id).delete(params.vector_id, deadline),
};
