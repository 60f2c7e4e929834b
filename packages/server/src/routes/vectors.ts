// How are vectors read and deleted over HTTP, by id and by document?

import type { StoredVector, VectorExport } from "@quiverdb/engine/database/contract";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import { asJson, emptyObject, JsonWriter } from "../json-answer.ts";
import { Lines } from "../lines-answer.ts";
import { filterParameter, idParameter } from "../request/query.ts";
import type { Handlers } from "./handlers.ts";

export const vectorHandlers: Handlers<
  "vectorsByDocument" | "getVector" | "vectorExists" | "deleteVector" | "exportVectors"
> = {
  async vectorsByDocument({ database, params, query, deadline }) {
    const documentId = idParameter(query, "document_id");
    const out = new JsonWriter();
    let separator = "[";
    const take = (vector: StoredVector) => {
      out.add(separator + vector.toJson());
      separator = ",";
    };
    await database.collection(params.collection_id).eachOfDocument(documentId, take, deadline);
    out.add(separator === "[" ? "[]" : "]");
    return out.end();
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
  async exportVectors({ access, database, params, query, deadline, work }) {
    // An export has the lowest priority among the requests of its key.
    work.task.expect(Number.POSITIVE_INFINITY);
    const collection = database.collection(params.collection_id);
    const filter = filterParameter(query, "filter");
    const exported = await collection.exportMatching({ filter: filter as Filter | null }, deadline);
    const end = work.hold();
    const headers = {
      // The number of a version counts the writes of all keys.
      ...(access.filter === null && { "x-quiver-version": String(exported.version) }),
      "x-quiver-count": String(exported.count),
    };
    return new Lines(jsonTexts(exported), headers, work.task, () => {
      exported.release();
      end();
    });
  },
};

function* jsonTexts(exported: VectorExport): Generator<string> {
  for (const vector of exported) yield vector.toJson();
}
