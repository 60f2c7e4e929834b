// How are searches served over HTTP?

import type { Collection, Deadline, Steps } from "@quiver/engine/database/contract";
import { invariant } from "@quiver/protocol/invariant";
import { limits } from "@quiver/protocol/limits";
import type { SearchResponse } from "@quiver/protocol/shapes/search";
import { arrayJson, type JsonPieces, type JsonText, JsonWriter, json } from "../json-answer.ts";
import { readVector, readVectors } from "../request/dense-vectors.ts";
import type { Call, Handlers } from "./handlers.ts";

type SearchName =
  | "searchDense"
  | "searchBatchDense"
  | "searchSparse"
  | "searchBatchSparse"
  | "searchText"
  | "searchBatchText"
  | "searchHybrid"
  | "searchBatchHybrid";

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
};

type SearchCall = Pick<Call<"searchDense">, "database" | "params" | "deadline" | "work"> & {
  readonly body: Amount;
};
type Search<T> = (collection: Collection, deadline: Deadline) => Promise<T>;

/** Handles a request with one query. */
async function one(call: SearchCall, search: Search<SearchResponse>): Promise<JsonText | JsonPieces> {
  const { database, params, deadline, work, body } = call;
  const waits = work.expect(expectedMs(body));
  if (waits !== undefined) await waits;
  const response = await search(database.collection(params.collection_id), deadline);
  assertAnswer(response, body);
  // One call for all: each further one costs as much as five results.
  if (response.results.length <= resultsAtOnce && body.explain !== true && body.return_raw_text !== true)
    return json(response);
  return work.task.finish(encoded((out) => responseJson(response, out)));
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
  return work.task.finish(encoded((out) => responsesJson(responses, out)));
}

function* encoded(write: (out: JsonWriter) => Steps<void>): Steps<JsonText | JsonPieces> {
  const out = new JsonWriter();
  yield* write(out);
  return out.end();
}

/** Asserts what is true of every answer, before it is encoded. */
function assertAnswer({ results }: SearchResponse, { top_k }: Amount): void {
  const most = top_k ?? limits.topKDefault;
  invariant(results.length <= most, () => `a search for ${most} results has found ${results.length}`);
  let previous = Number.POSITIVE_INFINITY;
  for (const { id, score } of results) {
    const isRight = Number.isFinite(score) && score <= previous;
    if (!isRight) invariant(false, `the result '${id}' has the score ${score}, after ${previous}`);
    previous = score;
  }
}

function* responseJson({ results }: SearchResponse, out: JsonWriter): Steps<void> {
  out.add('{"results":');
  yield* arrayJson(results, out);
  out.add("}");
}

function* responsesJson(responses: readonly SearchResponse[], out: JsonWriter): Steps<void> {
  out.add("[");
  for (const [i, response] of responses.entries()) {
    if (i > 0) out.add(",");
    yield* responseJson(response, out);
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
  readonly syntax?: string | null;
  readonly explain?: boolean | null;
  readonly return_raw_text?: boolean | null;
};

const queryCount = ({ queries, query_terms_list }: Amount): number =>
  queries?.length ?? query_terms_list?.length ?? 1;

/**
 * Estimated milliseconds of a query, of a query that scans all vectors or has operators, and of a result. Rough estimates are enough: the
 * scheduler measures the real time.
 */
const queryMs = 0.3;
const thoroughQueryMs = 4;
const resultMs = 0.004;

function expectedMs({ queries, query_terms_list, top_k, exact, syntax }: Amount): number {
  const count = queryCount({ queries, query_terms_list });
  const each = exact === true || syntax === "operators" ? thoroughQueryMs : queryMs;
  return count * (each + resultMs * (top_k ?? limits.topKDefault));
}
