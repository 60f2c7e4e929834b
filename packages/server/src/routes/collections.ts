// How are collections created, listed, loaded, unloaded and deleted over HTTP?

import { json } from "../json-answer.ts";
import type { Handlers } from "./handlers.ts";

export const collectionHandlers: Handlers<
  | "createCollection"
  | "listCollections"
  | "loadedCollections"
  | "getCollection"
  | "deleteCollection"
  | "checkCollection"
  | "loadCollection"
  | "unloadCollection"
> = {
  createCollection: async ({ database, body }) => json(await database.createCollection(body)),
  listCollections: ({ database, access }) =>
    json({ collections: database.listCollections().filter(({ name }) => access.reaches(name)) }),
  loadedCollections: ({ database, access }) =>
    json(database.loadedCollections().filter((name) => access.reaches(name))),
  getCollection: async ({ database, params }) =>
    json(await database.collection(params.collection_id).describe()),
  deleteCollection: ({ database, params }) => database.deleteCollection(params.collection_id),
  checkCollection: async ({ database, params }) =>
    json(await database.collection(params.collection_id).check()),
  loadCollection: async ({ database, params, deadline }) =>
    json(await database.collection(params.collection_id).load(deadline)),
  unloadCollection: async ({ database, params }) => {
    const collection = database.collection(params.collection_id);
    await collection.unload();
    return json(`Collection '${collection.name}' successfully unloaded`);
  },
};
