// How are searches served over HTTP?

import { type Collection, type Deadline, resultJson, type Steps } from "@quiverdb/engine/database/contract";
import type { ThreadCollection } from "@quiverdb/engine/database/threads/thread-database";
import { invariant } from "@quiverdb/protocol/invariant";
import { limits } from "@quiverdb/protocol/limits";
import { Neighbors, type SearchResponse } from "@quiverdb/protocol/shapes/search";
import { arrayJson, type JsonPieces, type JsonText, JsonWriter, json } from "../json-answer.ts";
import { readExamples, readVector, readVectors } from "../request/dense-vectors.ts";
import { fieldParameters } from "../request/query.ts";
import type { Call, Handlers } from "./handlers.ts";

type SearchName =
  | "searchDense"
  | "searchBatchDense"
  | "searchSparse"
  | "searchBatchSparse"
  | "searchText"
  | "searchBatchText"
  | "searchHybrid"
  | "searchBatchHybrid"
  | "recommend"
  | "neighbors";

export const searchHandlers: Handlers<SearchName> = {
  searchDense(call) {
    readVector(call.body, "query_vector");
    return one(call, (to, deadline) => to.searchDense(call.body, deadline));
  },
  async searchBatchDense(call) {
    await call.work.task.finish(readVectors(call.body.queries, "vector", "queries"));
    return batch(call, (to, deadline) => to.searchBatchDense(call.body, deadline));
  },
  searchSparse: (call) => one(call, (to, deadline) => to.searchSparse(call.body, deadline)),
  searchBatchSparse: (call) => batch(call, (to, deadline) => to.searchBatchSparse(call.body, deadline)),
  searchText: (call) => one(call, (to, deadline) => to.searchText(call.body, deadline)),
  searchBatchText: (call) => batch(call, (to, deadline) => to.searchBatchText(call.body, deadline)),
  searchHybrid(call) {
    readVector(call.body, "query_vector");
    return one(call, (to, deadline) => to.searchHybrid(call.body, deadline));
  },
  async searchBatchHybrid(call) {
    await call.work.task.finish(readVectors(call.body.queries, "query_vector", "queries"));
    return batch(call, (to, deadline) => to.searchBatchHybrid(call.body, deadline));
  },
  async recommend(call) {
    const { positive, negative } = call.body;
    await call.work.task.finish(readExamples(positive, "positive"));
    await call.work.task.finish(readExamples(negative ?? [], "negative"));
    return one<ByExample>(call, (to, deadline) => to.recommend(call.body, deadline));
  },
  neighbors(call) {
    const body = fieldParameters(call.query, Neighbors);
    return one<ByExample>({ ...call, body }, (to, deadline) =>
      to.neighbors(call.params.vector_id, body, deadline),
    );
  },
};

type ByExample = Pick<Collection, "recommend" | "neighbors">;

type SearchCall<C = ThreadCollection> = Pick<Call<"searchDense">, "params" | "deadline" | "work"> & {
  readonly database: { collection(name: string): C };
  readonly body: Amount;
};
type Search<T, C = ThreadCollection> = (collection: C, deadline: Deadline) => Promise<T>;

/** Handles a request with one query. */
async function one<C>(
  call: SearchCall<C>,
  search: Search<SearchResponse, C>,
): Promise<JsonText | JsonPieces> {
  const { database, params, deadline, work, body } = call;
  const waits = work.expect(expectedMs(body));
  if (waits !== undefined) await waits;
  const response = await search(database.collection(params.collection_id), deadline);
  assertAnswer(response, body);
  // One call for all: each further one costs as much as five results.
  const isSmall =
    body.explain !== true && body.walk !== true && body.return_raw_text !== true && !hasOwnJson(body);
  if (response.results.length <= resultsAtOnce && isSmall) return json(response);
  return work.task.finish(encoded((out) => responseJson(response, body, out)));
}

/** Results without texts and explanations that are encoded without steps. */
const resultsAtOnce = 64;

/** Handles a request with many queries. */
async function batch(
  call: SearchCall,
  search: Search<readonly SearchResponse[]>,
): Promise<JsonText | JsonPieces> {
  const { database, params, deadline, work, body } = call;
  const waits = work.expect(expectedMs(body));
  if (waits !== undefined) await waits;
  const responses = await search(database.collection(params.collection_id), deadline);
  invariant(
    responses.length === queryCount(body),
    () => `${queryCount(body)} queries have ${responses.length} answers`,
  );
  for (const response of responses) assertAnswer(response, body);
  return work.task.finish(encoded((out) => responsesJson(responses, body, out)));
}

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
