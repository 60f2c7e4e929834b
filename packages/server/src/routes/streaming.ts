// How are records written and deleted over HTTP without a transaction?

import { invariant } from "@quiver/protocol/invariant";
import { emptyObject } from "../json-answer.ts";
import { readVectors } from "../request/dense-vectors.ts";
import { withExactMetadata } from "../request/exact-metadata.ts";
import type { Handlers } from "./handlers.ts";

export const streamingHandlers: Handlers<"streamingUpsert" | "streamingDelete" | "streamingDeleteAlias"> = {
  async streamingUpsert({ database, params, body, parsed, deadline, work }) {
    const collection = database.collection(params.collection_id);
    await work.task.finish(readVectors(body.vectors, "dense_values", "vectors", parsed.binary?.floats));
    const vectors = await work.task.finish(withExactMetadata(body.vectors, parsed, "vectors"));
    invariant(
      vectors.length === body.vectors.length,
      () => `${body.vectors.length} vectors have become ${vectors.length}`,
    );
    await collection.upsert(vectors, deadline);
    return emptyObject;
  },
  streamingDelete: ({ database, params, deadline }) =>
    database.collection(params.collection_id).delete(params.vector_id, deadline),
  streamingDeleteAlias: ({ database, params, deadline }) =>
    database.collection(params.collection_id).delete(params.vector_id, deadline),
};
