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
  searchDense: async ({ database, params, body, deadline }) =>
    json(await database.collection(params.collection_id).searchDense(body, deadline)),
  searchBatchDense: async ({ database, params, body, deadline }) =>
    json(await database.collection(params.collection_id).searchBatchDense(body, deadline)),
  searchSparse: async ({ database, params, body, deadline }) =>
    json(await database.collection(params.collection_id).searchSparse(body, deadline)),
  searchBatchSparse: async ({ database, params, body, deadline }) =>
    json(await database.collection(params.collection_id).searchBatchSparse(body, deadline)),
  searchText: async ({ database, params, body, deadline }) =>
    json(await database.collection(params.collection_id).searchText(body, deadline)),
  searchBatchText: async ({ database, params, body, deadline }) =>
    json(await database.collection(params.collection_id).searchBatchText(body, deadline)),
  searchHybrid: async ({ database, params, body, deadline }) =>
    json(await database.collection(params.collection_id).searchHybrid(body, deadline)),
  searchBatchHybrid: async ({ database, params, body, deadline }) =>
    json(await database.collection(params.collection_id).searchBatchHybrid(body, deadline)),
};
