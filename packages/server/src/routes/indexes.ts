// How are indexes created, read and deleted over HTTP?

import { limits } from "@quiverdb/protocol/limits";
import { type IndexKind, indexKinds } from "@quiverdb/protocol/shapes/index-definition";
import { arrayJson, emptyObject, JsonWriter, json } from "../json-answer.ts";
import { integerParameter } from "../request/query.ts";
import { fieldError } from "../request/validation.ts";
import type { Handlers } from "./handlers.ts";

export const indexHandlers: Handlers<
  | "createDenseIndex"
  | "createSparseIndex"
  | "createTextIndex"
  | "analyzeText"
  | "getIndexes"
  | "measureRecall"
  | "deleteIndex"
  | "createMetadataIndex"
  | "getMetadataIndexes"
  | "deleteMetadataIndex"
> = {
  async createDenseIndex({ database, params, body }) {
    await database.collection(params.collection_id).createDenseIndex(body);
    return emptyObject;
  },
  async createSparseIndex({ database, params, body }) {
    await database.collection(params.collection_id).createSparseIndex(body);
    return emptyObject;
  },
  async createTextIndex({ database, params, body }) {
    await database.collection(params.collection_id).createTextIndex(body);
    return emptyObject;
  },
  async analyzeText({ database, params, body, deadline, work }) {
    const { language, terms } = await database.collection(params.collection_id).analyzeText(body, deadline);
    const out = new JsonWriter();
    out.add(`{"language":${JSON.stringify(language)},"terms":`);
    await work.task.finish(arrayJson(terms, out));
    out.add("}");
    return out.end();
  },
  getIndexes: ({ database, params }) => json(database.collection(params.collection_id).indexes()),
  async measureRecall({ database, params, query, deadline }) {
    const sample = integerParameter(query, "sample", 1, limits.recallSampleMax);
    const top_k = integerParameter(query, "top_k", 1, limits.topKMax);
    const ef_search = integerParameter(query, "ef_search", 1, limits.efMax);
    return json(
      await database.collection(params.collection_id).measureRecall({ sample, top_k, ef_search }, deadline),
    );
  },
  deleteIndex: ({ database, params }) =>
    database.collection(params.collection_id).deleteIndex(indexKind(params.index_type)),
  async createMetadataIndex({ database, params, body }) {
    await database.collection(params.collection_id).createMetadataIndex(params.field, body);
    return emptyObject;
  },
  getMetadataIndexes: ({ database, params }) =>
    json(database.collection(params.collection_id).metadataIndexes()),
  deleteMetadataIndex: ({ database, params }) =>
    database.collection(params.collection_id).deleteMetadataIndex(params.field),
};

/** The path has `tf_idf`, the response of Get index has `tf-idf`; both are accepted. */
export function indexKind(text: string): IndexKind {
  const name = text === "tf_idf" ? "tf-idf" : text;
  const kind = indexKinds.find((candidate) => candidate === name);
  if (kind !== undefined) return kind;
  const expected = "one of dense, sparse, tf_idf";
  const received = text.length <= 24 ? JSON.stringify(text) : `${text.length} characters`;
  throw fieldError("index_type", expected, received, `index_type must be ${expected}, not ${received}.`);
}
