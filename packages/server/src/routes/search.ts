// How does a search come in and go out over HTTP?

import { json } from "../json-answer.ts";
import type { Handlers } from "./handlers.ts";

export const searchHandlers: Handlers<
  | "searchDense"
  | "searchBatchDense"
  | "searchSparse"
  | "searchBatchSparse"
  | "searchText"
  | "searchBatchText"
  | "searchHybrid"
  | "searchBatchHybrid"
> = {
  searchDense: async ({ database, params, body }) =>
    json(await database.collection(params.collection_id).searchDense(body)),
  searchBatchDense: async ({ database, params, body }) =>
    json(await database.collection(params.collection_id).searchBatchDense(body)),
  searchSparse: async ({ database, params, body }) =>
    json(await database.collection(params.collection_id).searchSparse(body)),
  searchBatchSparse: async ({ database, params, body }) =>
    json(await database.collection(params.collection_id).searchBatchSparse(body)),
  searchText: async ({ database, params, body }) =>
    json(await database.collection(params.collection_id).searchText(body)),
  searchBatchText: async ({ database, params, body }) =>
    json(await database.collection(params.collection_id).searchBatchText(body)),
  searchHybrid: async ({ database, params, body }) =>
    json(await database.collection(params.collection_id).searchHybrid(body)),
  searchBatchHybrid: async ({ database, params, body }) =>
    json(await database.collection(params.collection_id).searchBatchHybrid(body)),
};
