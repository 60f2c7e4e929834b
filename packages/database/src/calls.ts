// Which call of the engine is each entry of the route table?
//
// The counterpart of the server's handlers (server/routes) for callers in the same process: they pass objects and get objects. The engine
// checks what it is given. Keys, sessions and the audit log are the server's own and have no entry.

import type { AnswerOf, ParamsOf } from "@quiverdb/client/endpoints";
import { jsonText } from "@quiverdb/client/json";
import type { RequestParts } from "@quiverdb/client/transport";
import type { CallLimits, Collection, Database, VectorWrite } from "@quiverdb/engine/database/contract";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { RouteName } from "@quiverdb/protocol/routes";
import { Neighbors } from "@quiverdb/protocol/shapes/search";
import {
  fieldParameters,
  idParameter,
  integerParameter,
  wordParameter,
} from "@quiverdb/server/request/query";
import { indexKind } from "@quiverdb/server/routes/indexes";
import { bytesOfUpload } from "./uploads.ts";

/** Answered as a stream (responses.ts). */
export type StreamedRoute = "exportVectors" | "downloadSnapshot";

/** Entries that only a server has. */
export type ServerRoute = "createSession" | "createKey" | "listKeys" | "revokeKey" | "readAudit";

export type EmbeddedRoute = Exclude<RouteName, StreamedRoute | ServerRoute>;

/** A request in the form in which the client's methods pass it on. */
export type EmbeddedCall<R extends RouteName> = {
  readonly database: Database;
  readonly params: ParamsOf<R>;
  readonly query: NonNullable<RequestParts["query"]>;
  readonly body: never;
  readonly upload: RequestParts["upload"];
  readonly options: CallLimits;
};

type Calls = { readonly [R in EmbeddedRoute]: (call: EmbeddedCall<R>) => AnswerOf<R> | Promise<AnswerOf<R>> };

type InCollection = { readonly database: Database; readonly params: { readonly collection_id: string } };
type InTransaction = InCollection & { readonly params: { readonly transaction_id: string } };

const collectionOf = ({ database, params }: InCollection): Collection =>
  database.collection(params.collection_id);
const transactionOf = (call: InTransaction) => collectionOf(call).transaction(call.params.transaction_id);

/** The answer of a change that tells nothing. */
async function nothing(change: Promise<unknown>): Promise<Record<string, never>> {
  await change;
  return {};
}
/** The answer of a change that has no body. */
async function noBody(change: unknown): Promise<undefined> {
  await change;
}

const vectorsOf = ({ body }: { readonly body: { readonly vectors: readonly VectorWrite[] } }) => body.vectors;

/** A patch as JSON has it. @throws invalid_request for a number that JSON does not have: as null it would remove the key */
function exactPatch<Patch extends { metadata: object }>(body: Patch): Patch {
  const { metadata } = body;
  return typeof metadata === "object"
    ? { ...body, metadata: JSON.parse(jsonText(metadata, "metadata")) }
    : body;
}

export const calls: Calls = {
  createCollection: ({ database, body }) => database.createCollection(body),
  listCollections: ({ database }) => ({ collections: database.listCollections() }),
  loadedCollections: ({ database }) => database.loadedCollections(),
  getCollection: (call) => collectionOf(call).describe(),
  deleteCollection: ({ database, params }) => noBody(database.deleteCollection(params.collection_id)),
  checkCollection: (call) => collectionOf(call).check(),
  loadCollection: (call) => collectionOf(call).load(call.options),
  async unloadCollection(call) {
    await collectionOf(call).unload();
    return `Collection '${call.params.collection_id}' successfully unloaded`;
  },

  createDenseIndex: (call) => nothing(collectionOf(call).createDenseIndex(call.body)),
  createSparseIndex: (call) => nothing(collectionOf(call).createSparseIndex(call.body)),
  createTextIndex: (call) => nothing(collectionOf(call).createTextIndex(call.body)),
  analyzeText: (call) => collectionOf(call).analyzeText(call.body, call.options),
  getIndexes: (call) => collectionOf(call).indexes(),
  measureRecall(call) {
    const sample = integerParameter(call.query, "sample", 1, limits.recallSampleMax);
    const top_k = integerParameter(call.query, "top_k", 1, limits.topKMax);
    const ef_search = integerParameter(call.query, "ef_search", 1, limits.efMax);
    return collectionOf(call).measureRecall({ sample, top_k, ef_search }, call.options);
  },
  deleteIndex: (call) => noBody(collectionOf(call).deleteIndex(indexKind(call.params.index_type))),
  createMetadataIndex: (call) =>
    nothing(collectionOf(call).createMetadataIndex(call.params.field, call.body)),
  getMetadataIndexes: (call) => collectionOf(call).metadataIndexes(),
  deleteMetadataIndex: (call) => noBody(collectionOf(call).deleteMetadataIndex(call.params.field)),

  searchDense: (call) => collectionOf(call).search("dense", call.body, call.options),
  searchBatchDense: (call) => collectionOf(call).search("batchDense", call.body, call.options),
  searchSparse: (call) => collectionOf(call).search("sparse", call.body, call.options),
  searchBatchSparse: (call) => collectionOf(call).search("batchSparse", call.body, call.options),
  searchText: (call) => collectionOf(call).search("text", call.body, call.options),
  searchBatchText: (call) => collectionOf(call).search("batchText", call.body, call.options),
  searchHybrid: (call) => collectionOf(call).search("hybrid", call.body, call.options),
  searchBatchHybrid: (call) => collectionOf(call).search("batchHybrid", call.body, call.options),
  recommend: (call) => collectionOf(call).search("recommend", call.body, call.options),
  neighbors: (call) =>
    collectionOf(call).search(
      "neighbors",
      { ...fieldParameters(call.query, Neighbors), vector_id: call.params.vector_id },
      call.options,
    ),

  createTransaction: (call) => collectionOf(call).beginTransaction(),
  listTransactions: (call) => collectionOf(call).transactions(),
  getTransactionStatus(call) {
    const flat = wordParameter(call.query, "format", ["flat"]) === "flat";
    const transaction = transactionOf(call);
    return flat ? transaction.flatStatus() : transaction.status();
  },
  commitTransaction: (call) => noBody(transactionOf(call).commit(call.options)),
  abortTransaction: (call) => noBody(transactionOf(call).abort(call.options)),
  addVector: (call) => nothing(transactionOf(call).add(call.body as VectorWrite, call.options)),
  upsertVectors: (call) => nothing(transactionOf(call).upsert(vectorsOf(call), call.options)),
  deleteVectorInTransaction: (call) =>
    noBody(transactionOf(call).delete(call.params.vector_id, call.options)),

  countVectors: (call) => collectionOf(call).count(call.body, call.options),
  facetVectors: (call) => collectionOf(call).facet(call.body, call.options),
  async scrollVectors(call) {
    const { include } = call.body as { include?: never };
    const { vectors, nextCursor, ...others } = await collectionOf(call).scroll(call.body, call.options);
    return { vectors: vectors.map((vector) => vector.toRecord(include)), next_cursor: nextCursor, ...others };
  },
  async fetchVectors(call) {
    const { include } = call.body as { include?: never };
    const vectors = await collectionOf(call).fetch(call.body, call.options);
    return vectors.map((vector) => vector?.toRecord(include) ?? null);
  },
  deleteMatching: (call) => collectionOf(call).deleteMatching(call.body, call.options),
  updateMatching: (call) => collectionOf(call).updateMatching(exactPatch(call.body), call.options),
  patchVector: (call) =>
    nothing(collectionOf(call).patch(call.params.vector_id, exactPatch(call.body), call.options)),

  async vectorsByDocument(call) {
    const documentId = idParameter(call.query, "document_id");
    const vectors = await collectionOf(call).byDocument(documentId, call.options);
    return vectors.map((vector) => vector.toRecord());
  },
  getVector: (call) => collectionOf(call).get(call.params.vector_id).toRecord(),
  vectorExists(call) {
    if (collectionOf(call).has(call.params.vector_id)) return undefined;
    throw new QuiverError("vector_not_found", "The collection has no vector with this id.");
  },
  deleteVector: (call) => nothing(collectionOf(call).delete(call.params.vector_id, call.options)),
  streamingUpsert: (call) => nothing(collectionOf(call).upsert(vectorsOf(call), call.options)),
  streamingDelete: (call) => noBody(collectionOf(call).delete(call.params.vector_id, call.options)),
  streamingDeleteAlias: (call) => noBody(collectionOf(call).delete(call.params.vector_id, call.options)),

  listVersions(call) {
    const limit = integerParameter(call.query, "limit", 1, limits.versionsPageMax);
    const before = integerParameter(call.query, "before", 0, Number.MAX_SAFE_INTEGER);
    return collectionOf(call).versions({ limit, before });
  },
  currentVersion: (call) => collectionOf(call).currentVersion(),
  getVersion: (call) => collectionOf(call).version(call.params.version_hash),

  createSnapshot: ({ database, params, body }) => database.snapshots.create(params.collection_id, body),
  listSnapshots: ({ database, params }) => database.snapshots.list(params.collection_id),
  listAllSnapshots: ({ database }) => database.snapshots.listAll(),
  checkSnapshots: ({ database, params }) => database.snapshots.check(params.collection_id),
  checkAllSnapshots: ({ database }) => database.snapshots.check(),
  uploadSnapshot: ({ database, upload }) => database.snapshots.receive(bytesOfUpload(upload)),
  getSnapshot: ({ database, params }) => database.snapshots.get(params.collection_id, params.snapshot_id),
  deleteSnapshot: ({ database, params }) =>
    noBody(database.snapshots.delete(params.collection_id, params.snapshot_id)),
  restoreCollection: ({ database, params, body }) => database.restoreCollection(params.collection_id, body),
};
