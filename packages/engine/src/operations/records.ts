// Which operations are there on records outside of transactions?

import { QuiverError } from "@quiverdb/protocol/errors";
import { Empty } from "@quiverdb/protocol/shapes/common";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import * as matching from "@quiverdb/protocol/shapes/matching";
import * as vector from "@quiverdb/protocol/shapes/vector";
import { AtVersion, RecordHistory, WhenFields } from "@quiverdb/protocol/shapes/version";
import { collectionPath, missingCollectionIs400, operation } from "./operation.ts";
import { fieldsOf, filterJson, requiredId } from "./parameters.ts";

/** What a filter may cost, in milliseconds, is not known before; it is not small. */
const filterMs = 4;

const articleVector = [0.1, 0.9, 0.2];
const filter = { topic: "bees", year: { gte: 2000 } };

const reading = {
  role: "read",
  keyFilter: "filtered",
  tag: "Vectors",
} as const;
const writing = {
  role: "write",
  keyFilter: "filtered",
  work: "write",
  tag: "Vectors",
} as const;

/** Of both paths. */
const streamingDeletion = {
  method: "DELETE",
  done: "vector_not_found",
  work: "write",
  threads: true,
  role: "write",
  keyFilter: "filtered",
  tag: "Streaming",
  status: 204,
  query: fieldsOf(vector.IfVersionOrMatch),
  errors: [404, 412, 500],
} as const;

export const records = {
  streamingUpsert: operation(
    {
      once: true,
      // Last write wins by id. Between a lost response and the repeated request another writer may change the same id; the repeated request
      // then overwrites that change, just as a slower client would have done.
      method: "POST",
      path: `${collectionPath}/streaming/upsert`,
      work: "write",
      threads: true,
      role: "write",
      keyFilter: "filtered",
      tag: "Streaming",
      summary: "Streaming upsert",
      body: vector.StreamingUpsert,
      // For bodies that are records alone.
      query: fieldsOf(vector.IfVersion),
      answer: Empty,
      records: "vectors",
      errors: [400, 404, 412, 500],
    },
    ({ collection, body, query, options }) =>
      collection.upsert(body.vectors, options, { if_version: body.if_version ?? query.if_version ?? null }),
    {
      vectors: [
        {
          id: "a1",
          document_id: "bees",
          dense_values: articleVector,
          sparse_indices: [17, 4021],
          sparse_values: [0.5, 1.2],
          text: "How bees navigate by the sun",
          metadata: { topic: "bees", year: 2021, tags: ["insects", "light"] },
        },
        {
          id: "a2",
          dense_values: [0.2, 0.8, 0.1],
          text: "Bees dance",
          metadata: { topic: "bees", year: 2003 },
        },
        {
          id: "a3",
          dense_values: [0.9, 0.1, 0.4],
          text: "Whales sing",
          metadata: { topic: "whales", year: 1998 },
        },
      ],
    },
  ),
  streamingDelete: operation(
    {
      once: true,
      ...streamingDeletion,
      path: `${collectionPath}/streaming/delete/{vector_id}`,
      summary: "Streaming delete",
    },
    ({ collection, params, query, options }) => collection.delete(params.vector_id, options, query),
  ),
  streamingDeleteAlias: operation(
    {
      once: true,
      ...streamingDeletion,
      path: `${collectionPath}/streaming/vectors/{vector_id}`,
      summary: "Streaming delete (alternative path)",
    },
    ({ collection, params, query, options }) => collection.delete(params.vector_id, options, query),
  ),
  countVectors: operation(
    {
      method: "POST",
      path: `${collectionPath}/vectors/count`,
      ...reading,
      summary: "Count the vectors that match a filter",
      body: AtVersion(matching.CountMatching),
      past: true,
      answer: matching.Count,
      expectedMs: () => filterMs,
    },
    ({ collection, body, options }) => collection.count(body, options),
    { filter },
    {},
  ),
  facetVectors: operation(
    {
      method: "POST",
      path: `${collectionPath}/vectors/facet`,
      ...reading,
      summary: "Count the values of a field among the vectors that match a filter",
      body: AtVersion(matching.FacetVectors),
      past: true,
      answer: matching.Facets,
      expectedMs: () => filterMs,
    },
    ({ collection, body, options }) => collection.facet(body, options),
    { field: "topic", filter: { year: { gte: 2000 } }, limit: 10 },
    { fields: ["topic", "year"], limit: 10 },
  ),
  scrollVectors: operation(
    {
      method: "POST",
      path: `${collectionPath}/vectors/scroll`,
      role: "read",
      keyFilter: "filtered",
      tag: "Vectors",
      summary: "Read the vectors that match a filter page by page",
      body: AtVersion(matching.ScrollVectors),
      past: true,
      answer: matching.ScrollPage,
      statusOf: { index_not_found: 400 },
      expectedMs: () => filterMs,
    },
    ({ collection, body, options, reader }) => collection.scroll(body, options, reader),
    { filter, limit: 100, include: ["metadata"] },
    { order_by: { field: "year", direction: "desc" } },
  ),
  fetchVectors: operation(
    {
      method: "POST",
      path: `${collectionPath}/vectors/fetch`,
      ...reading,
      summary: "Get vectors by their ids",
      body: AtVersion(matching.FetchVectors),
      past: true,
      answer: matching.FetchedVectors,
    },
    ({ collection, body, options }) => collection.fetch(body, options),
    { ids: ["a1", "a3"], include: ["metadata", "text"] },
  ),
  deleteMatching: operation(
    {
      once: true,
      // The count of a repeated request is that of the second time.
      method: "POST",
      path: `${collectionPath}/vectors/delete`,
      repeat: "refused",
      ...writing,
      summary: "Delete the vectors that match a filter, as one version",
      body: matching.DeleteMatching,
      answer: matching.Deleted,
      expectedMs: () => filterMs,
    },
    ({ collection, body, options }) => collection.deleteMatching(body, options),
    { filter: { topic: "ants", year: { lt: 2011 } } },
  ),
  updateMatching: operation(
    {
      once: true,
      method: "POST",
      path: `${collectionPath}/vectors/update`,
      repeat: "refused",
      ...writing,
      summary: "Merge a patch into the metadata of the vectors that match a filter, as one version",
      body: matching.UpdateMatching,
      answer: matching.Updated,
      patch: true,
      expectedMs: () => filterMs,
    },
    ({ collection, body, options }) => collection.updateMatching(body, options),
    { filter: { topic: "whales" }, metadata: { topic: "mammals" } },
  ),
  patchVector: operation(
    {
      once: true,
      method: "PATCH",
      path: `${collectionPath}/vectors/{vector_id}`,
      ...writing,
      summary: "Merge a patch into the metadata of a vector",
      body: matching.PatchMetadata,
      answer: Empty,
      patch: true,
      errors: [400, 404, 412, 500],
    },
    ({ collection, params, body, options }) => collection.patch(params.vector_id, body, options),
    { metadata: { year: 2022, tags: null } },
  ),
  vectorsByDocument: operation(
    {
      method: "GET",
      path: `${collectionPath}/vectors`,
      role: "read",
      keyFilter: "filtered",
      tag: "Vectors",
      summary: "Query vectors by document id",
      query: { document_id: requiredId("Id of the document."), ...fieldsOf(WhenFields) },
      past: true,
      answer: vector.VectorRecords,
      oneByOne: true,
      statusOf: missingCollectionIs400,
      errors: [400, 500],
    },
    ({ collection, query, options, take }) => collection.eachOfDocument(query.document_id, take, options),
  ),
  getVector: operation(
    {
      method: "GET",
      path: `${collectionPath}/vectors/{vector_id}`,
      role: "read",
      keyFilter: "filtered",
      tag: "Vectors",
      summary: "Get vector by id",
      query: fieldsOf(WhenFields),
      past: true,
      answer: vector.VectorRecord,
      statusOf: missingCollectionIs400,
    },
    ({ collection, params }) => collection.get(params.vector_id),
  ),
  vectorExists: operation(
    {
      method: "HEAD",
      path: `${collectionPath}/vectors/{vector_id}`,
      role: "read",
      keyFilter: "filtered",
      tag: "Vectors",
      summary: "Check vector existence",
      query: fieldsOf(WhenFields),
      past: true,
      errors: [404, 500],
    },
    async ({ collection, params }) => {
      if (await collection.has(params.vector_id)) return;
      throw new QuiverError("vector_not_found", "The collection has no vector with this id.");
    },
  ),
  vectorHistory: operation(
    {
      method: "GET",
      path: `${collectionPath}/vectors/{vector_id}/history`,
      role: "read",
      tag: "Versions",
      summary: "Get every state of a vector that is kept, newest first",
      answer: RecordHistory,
    },
    ({ collection, params }) => collection.history(params.vector_id),
  ),
  deleteVector: operation(
    {
      once: true,
      method: "DELETE",
      path: `${collectionPath}/vectors/{vector_id}`,
      done: "vector_not_found",
      work: "write",
      role: "write",
      keyFilter: "filtered",
      tag: "Vectors",
      summary: "Delete vector (the same as a streaming delete)",
      query: fieldsOf(vector.IfVersionOrMatch),
      answer: Empty,
      errors: [404, 412, 500],
    },
    ({ collection, params, query, options }) => collection.delete(params.vector_id, options, query),
  ),
  exportVectors: operation(
    {
      method: "GET",
      path: `${collectionPath}/export`,
      work: "export",
      role: "read",
      keyFilter: "filtered",
      tag: "Vectors",
      summary:
        "Export every vector of the current or an earlier version, one record per line; header x-quiver-version names the version",
      query: {
        ...fieldsOf(WhenFields),
        filter: filterJson('Exports only the records that satisfy this filter, as JSON: {"color": "red"}.'),
      },
      answer: vector.ExportedRecords,
      past: true,
      mediaType: "application/x-ndjson",
      expectedMs: () => Number.POSITIVE_INFINITY,
    },
    ({ collection, query, options }) =>
      collection.exportMatching({ filter: query.filter as Filter | undefined }, options),
  ),
};
