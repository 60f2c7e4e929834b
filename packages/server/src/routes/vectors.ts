// How are vectors read, and deleted, by id and by document over HTTP?

import type { VectorExport } from "@quiver/engine/database/contract";
import { QuiverError } from "@quiver/protocol/errors";
import { asJson, emptyObject } from "../json-answer.ts";
import { Lines } from "../lines-answer.ts";
import { idParameter } from "../request/query.ts";
import type { Handlers } from "./handlers.ts";

export const vectorHandlers: Handlers<
  "vectorsByDocument" | "getVector" | "vectorExists" | "deleteVector" | "exportVectors"
> = {
  vectorsByDocument({ database, params, query }) {
    const documentId = idParameter(query, "document_id");
    const vectors = database.collection(params.collection_id).byDocument(documentId);
    return asJson(`[${vectors.map((vector) => vector.toJson()).join(",")}]`);
  },
  getVector: ({ database, params }) =>
    asJson(database.collection(params.collection_id).get(params.vector_id).toJson()),
  vectorExists({ database, params }) {
    if (database.collection(params.collection_id).has(params.vector_id)) return;
    throw new QuiverError("vector_not_found", "The collection has no vector with this id.");
  },
  async deleteVector({ database, params, deadline }) {
    await database.collection(params.collection_id).delete(params.vector_id, deadline);
    return emptyObject;
  },
  exportVectors({ database, params }) {
    const exported = database.collection(params.collection_id).exportVectors();
    const headers = {
      "x-quiver-version": String(exported.version),
      "x-quiver-count": String(exported.count),
    };
    return new Lines(jsonTexts(exported), headers, () => exported.release());
  },
};

function* jsonTexts(exported: VectorExport): Generator<string> {
  for (const vector of exported) yield vector.toJson();
}
