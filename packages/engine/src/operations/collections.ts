// Which operations are there on collections as a whole?

import { QuiverError } from "@quiverdb/protocol/errors";
import * as check from "@quiverdb/protocol/shapes/check";
import * as shape from "@quiverdb/protocol/shapes/collection";
import { RestoredCollection } from "@quiverdb/protocol/shapes/snapshot";
import { AtVersion } from "@quiverdb/protocol/shapes/version";
import { collectionPath, missingCollectionIs400, operation } from "./operation.ts";

export const collections = {
  createCollection: operation(
    {
      method: "POST",
      path: "/vectordb/collections",
      repeat: "refused",
      work: "administration",
      role: "write",
      collections: "body.name",
      audited: [
        "name",
        "dense_vector.enabled",
        "dense_vector.dimension",
        "dense_vector.auto_create_index",
        "sparse_vector.enabled",
        "sparse_vector.auto_create_index",
        "tf_idf_options.enabled",
        "store_raw_text",
        "config.max_vectors",
        "config.replication_factor",
        "config.memory_budget_bytes",
        "config.history",
      ],
      tag: "Collections",
      summary: "Create collection",
      body: shape.CreateCollection,
      status: 201,
      answer: shape.CollectionCreated,
      errors: [400, 409, 500],
    },
    ({ database, body }) => database.createCollection(body),
    {
      name: "articles",
      description: "Articles about animals",
      dense_vector: { enabled: true, dimension: 3 },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
      config: { max_vectors: null },
      store_raw_text: true,
    },
  ),
  listCollections: operation(
    {
      method: "GET",
      path: "/vectordb/collections",
      role: "read",
      keyFilter: "harmless",
      collections: "answer",
      tag: "Collections",
      summary: "List collections",
      answer: shape.CollectionList,
      errors: [500],
    },
    ({ database, reaches }) => ({
      collections: database.listCollections().filter(({ name }) => reaches(name)),
    }),
  ),
  loadedCollections: operation(
    {
      method: "GET",
      path: "/vectordb/collections/loaded",
      role: "read",
      keyFilter: "harmless",
      collections: "answer",
      tag: "Collections",
      summary: "Get loaded collections",
      answer: shape.LoadedCollections,
      errors: [500],
    },
    ({ database, reaches }) => database.loadedCollections().filter(reaches),
  ),
  getCollection: operation(
    {
      method: "GET",
      path: collectionPath,
      role: "read",
      keyFilter: "filtered",
      tag: "Collections",
      summary: "Get collection",
      answer: shape.CollectionDetail,
      errors: [404, 500],
    },
    ({ collection }) => collection.describe(),
  ),
  patchCollection: operation(
    {
      method: "PATCH",
      path: collectionPath,
      work: "administration",
      role: "write",
      audited: ["config.history"],
      tag: "Collections",
      summary: "Change how far back versions can be read",
      body: shape.PatchCollection,
      answer: shape.CollectionDetail,
    },
    async ({ collection, body }) => {
      const { history } = body.config;
      if (history === undefined) return collection.describe();
      return collection.setHistory(history);
    },
    { config: { history: null } },
    { config: { history: "all" } },
    { config: { history: { versions: 1_000 } } },
  ),
  copyCollection: operation(
    {
      method: "POST",
      path: `${collectionPath}/copy`,
      repeat: "refused",
      work: "administration",
      role: "write",
      audited: ["name", "version", "as_of"],
      tag: "Collections",
      summary: "Copy a version of the collection as a collection of another name, with its indexes",
      body: AtVersion(shape.CopyCollection),
      status: 201,
      answer: RestoredCollection,
      errors: [400, 404, 409, 410, 500, 507],
    },
    ({ database, params, body: { name, ...when }, reaches }) => {
      if (reaches(name)) return database.copyCollection(params.collection_id, when, name);
      throw new QuiverError("forbidden", `The key may not create a collection '${name.slice(0, 80)}'.`);
    },
    { name: "articles-copy" },
  ),
  deleteCollection: operation(
    {
      method: "DELETE",
      path: collectionPath,
      done: "collection_not_found",
      work: "administration",
      role: "admin",
      audited: [],
      tag: "Collections",
      summary: "Delete collection",
      status: 204,
      statusOf: missingCollectionIs400,
      errors: [400, 500],
    },
    ({ database, params }) => database.deleteCollection(params.collection_id),
  ),
  checkCollection: operation(
    {
      method: "POST",
      path: `${collectionPath}/check`,
      work: "administration",
      role: "admin",
      tag: "Collections",
      summary: "Check stored data and indexes",
      answer: check.CheckReport,
      errors: [404, 500, 503],
    },
    ({ collection }) => collection.check(),
  ),
  loadCollection: operation(
    {
      method: "POST",
      path: `${collectionPath}/load`,
      work: "administration",
      role: "write",
      tag: "Collections",
      summary: "Load collection into memory",
      answer: shape.CollectionDetail,
      statusOf: missingCollectionIs400,
      errors: [400, 500],
    },
    ({ collection, options }) => collection.load(options),
  ),
  unloadCollection: operation(
    {
      method: "POST",
      path: `${collectionPath}/unload`,
      work: "administration",
      role: "write",
      tag: "Collections",
      summary: "Unload collection from memory",
      answer: shape.CollectionUnloaded,
      statusOf: missingCollectionIs400,
      errors: [400, 500],
    },
    async ({ collection }) => {
      await collection.unload();
      return `Collection '${collection.name}' successfully unloaded`;
    },
  ),
};
