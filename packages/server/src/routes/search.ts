// How are searches served over HTTP?

import {
  resultJson,
  type SearchKind,
  type SearchRequest,
  type Steps,
} from "@quiverdb/engine/database/contract";
import { invariant } from "@quiverdb/protocol/invariant";
import { limits } from "@quiverdb/protocol/limits";
import { Neighbors, type SearchResponse } from "@quiverdb/protocol/shapes/search";
import { arrayJson, type JsonPieces, type JsonText, JsonWriter, json } from "../json-answer.ts";
import { readExamples, readVector, readVectors } from "../request/dense-vectors.ts";
import { fieldParameters } from "../request/query.ts";
import type { Call, Handlers, threadSearches } from "./handlers.ts";

type SearchName = (typeof threadSearches)[number] | "recommend" | "neighbors";

export const searchHandlers: Handlers<SearchName> = {
  searchDense(call) {
    readVector(call.body, "query_vector");
    return answered("dense", call, call.body);
  },
  async searchBatchDense(call) {
    await call.work.task.finish(readVectors(call.body.queries, "vector", "queries"));
    return answered("batchDense", call, call.body);
  },
  searchSparse: (call) => answered("sparse", call, call.body),
  searchBatchSparse: (call) => answered("batchSparse", call, call.body),
  searchText: (call) => answered("text", call, call.body),
  searchBatchText: (call) => answered("batchText", call, call.body),
  searchHybrid(call) {
    readVector(call.body, "query_vector");
    return answered("hybrid", call, call.body);
  },
  async searchBatchHybrid(call) {
    await call.work.task.finish(readVectors(call.body.queries, "query_vector", "queries"));
    return answered("batchHybrid", call, call.body);
  },
  async recommend(call) {
    const { positive, negative } = call.body;
    await call.work.task.finish(readExamples(positive, "positive"));
    await call.work.task.finish(readExamples(negative ?? [], "negative"));
    return answered("recommend", call, call.body);
  },
  neighbors(call) {
    const { vector_id } = call.params;
    return answered("neighbors", call, { ...fieldParameters(call.query, Neighbors), vector_id });
  },
};

type SearchCall = Pick<Call<"searchDense">, "database" | "params" | "deadline" | "work">;

async function answered<K extends SearchKind>(
  kind: K,
  { database, params, deadline, work }: SearchCall,
  request: SearchRequest<K>,
): Promise<JsonText | JsonPieces> {
  const body: Amount = request;
  const waits = work.expect(expectedMs(body));
  if (waits !== undefined) await waits;
  const found: SearchResponse | SearchResponse[] = await database
    .collection(params.collection_id)
    .search(kind, request, deadline);
  if (Array.isArray(found)) {
    invariant(
      found.length === queryCount(body),
      () => `${queryCount(body)} queries have ${found.length} answers`,
    );
    for (const response of found) assertAnswer(response, body);
    return work.task.finish(encoded((out) => responsesJson(found, body, out)));
  }
  assertAnswer(found, body);
  // One call for all: each further one costs as much as five results.
  const isSmall =
    body.explain !== true && body.walk !== true && body.return_raw_text !== true && !hasOwnJson(body);
  if (found.results.length <= resultsAtOnce && isSmall) return json(found);
  return work.task.finish(encoded((out) => responseJson(found, body, out)));
}

/** Results without texts and explanations that are encoded without steps. */
const resultsAtOnce = 64;

function* encoded(write: (out: JsonWriter) => Steps<void>): Steps<JsonText | JsonPieces> {
  const out = new JsonWriter();
  yield* write(out);
  return out.end();
}

/** Asserts what is true of every answer, before it is encoded. */
function assertAnswer({ results }: SearchResponse, { top_k, diversity }: Amount): void {
  const most = top_k ?? limits.topKDefault;
  invariant(results.length <= most, () => `a search for ${most} results has found ${results.length}`);
  let previous = Number.POSITIVE_INFINITY;
  for (const { id, score } of results) {
    const isRight = Number.isFinite(score) && score <= previous;
    if (!isRight) invariant(false, `the result '${id}' has the score ${score}, after ${previous}`);
    // Diverse results come in the order of their choice.
    if (!diversity) previous = score;
  }
}

/** Whether results have values that JSON.stringify does not write as they are: metadata, vectors, groups. */
const hasOwnJson = ({ include, group_by }: Amount): boolean => (include?.length ?? 0) > 0 || group_by != null;

function* responseJson(response: SearchResponse, body: Amount, out: JsonWriter): Steps<void> {
  const { results, walk, ...others } = response;
  out.add('{"results":');
  yield* arrayJson(results, out, hasOwnJson(body) ? resultJson : undefined);
  for (const [name, value] of Object.entries(others)) out.add(`,"${name}":${JSON.stringify(value)}`);
  if (walk !== undefined) {
    out.add(`,"walk":{"is_cut":${walk.is_cut},"visits":`);
    yield* arrayJson(walk.visits, out);
    out.add("}");
  }
  out.add("}");
}

function* responsesJson(responses: readonly SearchResponse[], body: Amount, out: JsonWriter): Steps<void> {
  out.add("[");
  for (const [i, response] of responses.entries()) {
    if (i > 0) out.add(",");
    yield* responseJson(response, body, out);
    yield;
  }
  out.add("]");
}

/** The fields of a request that determine the work of a search. */
type Amount = {
  readonly queries?: readonly unknown[];
  readonly query_terms_list?: readonly unknown[];
  readonly top_k?: number | null;
  readonly exact?: boolean | null;
  readonly diversity?: number | null;
  readonly syntax?: string | null;
  readonly filter?: unknown;
  readonly include?: readonly string[] | null;
  readonly group_by?: string | null;
  readonly explain?: boolean | null;
  readonly walk?: boolean | null;
  readonly return_raw_text?: boolean | null;
};

const queryCount = ({ queries, query_terms_list }: Amount): number =>
  queries?.length ?? query_terms_list?.length ?? 1;

/**
 * Estimated milliseconds of a query, of a query that scans all vectors or has operators or a filter, and of a result. Rough estimates are enough: the
 * scheduler measures the real time.
 */
const queryMs = 0.3;
const thoroughQueryMs = 4;
const resultMs = 0.004;

function expectedMs({ queries, query_terms_list, top_k, exact, diversity, syntax, filter }: Amount): number {
  const count = queryCount({ queries, query_terms_list });
  const isFiltered = filter !== undefined && filter !== null;
  const isThorough = exact === true || syntax === "operators" || isFiltered || (diversity ?? 0) > 0;
  const each = isThorough ? thoroughQueryMs : queryMs;
  return count * (each + resultMs * (top_k ?? limits.topKDefault));
}
