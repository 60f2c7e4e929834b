// Which operations are there on collections as a whole?

import { QuiverError } from "@quiverdb/protocol/errors";
import * as check from "@quiverdb/protocol/shapes/check";
import * as shape from "@quiverdb/protocol/shapes/collection";
import { RestoredCollection } from "@quiverdb/protocol/shapes/snapshot";
import { AtVersion } from "@quiverdb/protocol/shapes/version";
import type { Database } from "../database/contract.ts";
import { collectionPath, missingCollectionIs400, operation } from "./operation.ts";

/** @throws forbidden if the key does not reach what an alias stands for, stood for, or is called */
function requireReached(
  database: Pick<Database, "aliases">,
  reaches: (name: string) => boolean,
  ...names: [alias: string, ...collections: string[]]
): void {
  const before = database.aliases().find(({ alias }) => alias === names[0])?.collection;
  const closed = [...names, ...(before === undefined ? [] : [before])].find((name) => !reaches(name));
  if (closed === undefined) return;
  throw new QuiverError(
    "forbidden",
    `The key has no access to '${closed.slice(0, 80)}'. Send a key whose collections include it.`,
    { collection: closed.slice(0, 300) },
  );
}

export const collections = {
  createCollection: operation(
    {
      once: true,
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
        "config.shards",
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
    ({ database, body, options }) => database.createCollection(body, options),
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
      once: true,
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
    async ({ collection, body, options }) => {
      const { history } = body.config;
      if (history === undefined) return collection.describe();
      return collection.setHistory(history, options);
    },
    { config: { history: null } },
    { config: { history: "all" } },
    { config: { history: { versions: 1_000 } } },
  ),
  copyCollection: operation(
    {
      once: true,
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
    ({ database, params, body: { name, ...when }, reaches, options }) => {
      if (reaches(name)) return database.copyCollection(params.collection_id, when, name, options);
      throw new QuiverError("forbidden", `The key may not create a collection '${name.slice(0, 80)}'.`);
    },
    { name: "articles-copy" },
  ),
  mergeCollection: operation(
    {
      once: true,
      method: "POST",
      path: `${collectionPath}/merge`,
      work: "write",
      role: "write",
      audited: ["from", "on_conflict"],
      tag: "Collections",
      summary: "Take over what a copy of the collection has changed since it was made, as one version",
      body: shape.MergeCollection,
      answer: shape.Merged,
      errors: [400, 404, 409, 410, 500],
    },
    ({ database, params, body, reaches, options }) => {
      if (reaches(body.from)) return database.mergeCollection(params.collection_id, body, options);
      throw new QuiverError("forbidden", `The key may not read the collection '${body.from.slice(0, 80)}'.`);
    },
    { from: "articles-copy" },
  ),
  listAliases: operation(
    {
      method: "GET",
      path: "/vectordb/aliases",
      role: "read",
      collections: "answer",
      tag: "Aliases",
      summary: "List aliases",
      answer: shape.AliasList,
      errors: [500],
    },
    ({ database, reaches }) => ({
      aliases: database.aliases().filter(({ collection }) => reaches(collection)),
    }),
  ),
  putAlias: operation(
    {
      once: true,
      method: "PUT",
      path: "/vectordb/aliases/{alias}",
      work: "administration",
      role: "write",
      collections: "answer",
      audited: ["collection"],
      tag: "Aliases",
      summary: "Make an alias another name of a collection, at once, whatever it was before",
      body: shape.PutAlias,
      answer: shape.Alias,
      errors: [400, 404, 409, 500],
    },
    ({ database, params: { alias }, body: { collection }, reaches, options }) => {
      requireReached(database, reaches, alias, collection);
      return database.putAlias(alias, collection, options);
    },
    { collection: "articles" },
  ),
  deleteAlias: operation(
    {
      once: true,
      method: "DELETE",
      path: "/vectordb/aliases/{alias}",
      done: "alias_not_found",
      work: "administration",
      role: "write",
      collections: "answer",
      audited: [],
      tag: "Aliases",
      summary: "Delete an alias; the collection stays",
      status: 204,
      errors: [404, 500],
    },
    ({ database, params: { alias }, reaches, options }) => {
      requireReached(database, reaches, alias);
      return database.deleteAlias(alias, options);
    },
  ),
  deleteCollection: operation(
    {
      once: true,
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
    ({ database, params, options }) => database.deleteCollection(params.collection_id, options),
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
