// How does the answer of an operation become the body of a response?
//
// As JSON.stringify writes it, but for the shapes below: answers that can be large are written in steps, and those with stored records, with
// results or with values of metadata have the exact texts that the engine has. Exports and files are sent as streams.

import {
  type LineExport,
  resultJson,
  type SnapshotFile,
  type Steps,
  type StoredVector,
  valueJson,
} from "@quiverdb/engine/database/contract";
import type { Operation } from "@quiverdb/engine/operations/operations";
import { invariant } from "@quiverdb/protocol/invariant";
import { limits } from "@quiverdb/protocol/limits";
import { Empty } from "@quiverdb/protocol/shapes/common";
import type { Includable } from "@quiverdb/protocol/shapes/include";
import { TextAnalysis } from "@quiverdb/protocol/shapes/index-definition";
import { Facets, type FacetValues, FetchedVectors, ScrollPage } from "@quiverdb/protocol/shapes/matching";
import { BatchSearchResponse, SearchResponse } from "@quiverdb/protocol/shapes/search";
import { VectorRecord } from "@quiverdb/protocol/shapes/vector";
import { ChangesPage, RecordHistory } from "@quiverdb/protocol/shapes/version";
import type { TSchema } from "typebox";
import type { Work } from "../admission.ts";
import type { Access } from "../auth/access.ts";
import { FileAnswer } from "../file-answer.ts";
import {
  arrayJson,
  asJson,
  emptyObject,
  type JsonPieces,
  type JsonText,
  JsonWriter,
  json,
} from "../json-answer.ts";
import { Lines } from "../lines-answer.ts";

/** The fields of a request on which the form of its answer depends. */
type Asked = {
  readonly queries?: readonly unknown[];
  readonly query_terms_list?: readonly unknown[];
  readonly top_k?: number | null;
  readonly diversity?: number | null;
  readonly include?: readonly Includable[] | null;
  readonly group_by?: string | null;
  readonly explain?: boolean | null;
  readonly walk?: boolean | null;
  readonly return_raw_text?: boolean | null;
};

/** What is sent; undefined: no body. */
export type Encoded = JsonText | JsonPieces | FileAnswer | Lines | undefined;

/** @param asked the body or the parameters of the request */
export function encodeAnswer(
  operation: Operation,
  given: unknown,
  asked: unknown,
  work: Work,
  access: Access,
): Encoded | Promise<Encoded> {
  const { answer, mediaType } = operation;
  if (answer === undefined) return undefined;
  if (answer === Empty) return emptyObject;
  if (mediaType === "application/octet-stream") return fileAnswer(given as SnapshotFile);
  if (mediaType === "application/x-ndjson") return lines(given as LineExport, work, access);
  if (answer === SearchResponse && isSmall(given as SearchResponse, asked as Asked)) return json(given);
  // Like a small response, it is written at once: steps would cost as much as the text.
  if (answer === VectorRecord) return asJson((given as StoredVector).toJson());
  const write = writers.get(answer);
  return write === undefined ? json(given) : work.task.finish(written(write, given, asked as Asked));
}

type Write = (given: never, asked: Asked, out: JsonWriter) => Steps<void>;

/** By the shape of the answer. */
const writers = new Map<TSchema, Write>([
  [SearchResponse, writeResponse],
  [BatchSearchResponse, writeResponses],
  [Facets, writeFacets],
  [TextAnalysis, (given: TextAnalysis, _, out) => writeFields(given, "terms", undefined, out)],
  [RecordHistory, (given: object, _, out) => writeFields(given, "states", stateJson, out)],
  [ChangesPage, (given: object, _, out) => writeFields(given, "changes", changeJson, out)],
  [ScrollPage, (given: object, asked, out) => writeFields(given, "vectors", recordJson(asked), out)],
  [
    FetchedVectors,
    (given: readonly (StoredVector | null)[], asked, out) => arrayJson(given, out, recordJson(asked)),
  ],
]);

/** A list of records that come one by one. */
export class RecordList {
  readonly #out = new JsonWriter();
  #separator = "[";

  readonly take = (record: StoredVector): void => {
    this.#out.add(this.#separator + record.toJson());
    this.#separator = ",";
  };

  end(): JsonText | JsonPieces {
    this.#out.add(this.#separator === "[" ? "[]" : "]");
    return this.#out.end();
  }
}

function* written(write: Write, given: unknown, asked: Asked): Steps<JsonText | JsonPieces> {
  const out = new JsonWriter();
  yield* write(given as never, asked, out);
  return out.end();
}

/** An object with one long list, which comes first but for what is before it. @param textOf of an item */
function* writeFields<T>(
  given: object,
  list: string,
  textOf: ((item: T) => string) | undefined,
  out: JsonWriter,
): Steps<void> {
  let separator = "{";
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    out.add(`${separator}${JSON.stringify(name)}:`);
    separator = ",";
    if (name === list) yield* arrayJson(value as readonly T[], out, textOf);
    else out.add(JSON.stringify(value));
  }
  out.add("}");
}

const recordJson =
  ({ include }: Pick<Asked, "include">) =>
  (vector: StoredVector | null) =>
    vector === null ? "null" : vector.toJson(include);

type State = { readonly version: number; readonly until: number | null; readonly vector: StoredVector };
const stateJson = ({ version, until, vector }: State): string =>
  `{"version":${version},"until":${until},"vector":${vector.toJson()}}`;

export type Change = {
  readonly version: number;
  readonly op: string;
  readonly id: string;
  readonly place?: string;
  readonly vector?: StoredVector;
};
export function changeJson({ version, op, id, place, vector }: Change): string {
  const at = place === undefined ? "" : `,"place":"${place}"`;
  const told = `"version":${version},"op":"${op}","id":${JSON.stringify(id)}${at}`;
  return vector === undefined ? `{${told}}` : `{${told},"vector":${vector.toJson()}}`;
}

const facetJson = ({ value, count }: FacetValues[number]): string =>
  `{"value":${valueJson(value)},"count":${count}}`;

function* writeFacets({ facets, ...others }: Facets, _: Asked, out: JsonWriter): Steps<void> {
  out.add('{"facets":');
  if (Array.isArray(facets)) yield* arrayJson(facets, out, facetJson);
  else {
    let separator = "{";
    for (const [field, values] of Object.entries(facets)) {
      out.add(`${separator}${JSON.stringify(field)}:`);
      separator = ",";
      yield* arrayJson(values, out, facetJson);
    }
    out.add("}");
  }
  for (const [name, value] of Object.entries(others))
    if (value !== undefined) out.add(`,"${name}":${JSON.stringify(value)}`);
  out.add("}");
}

/** Results without texts and explanations that are encoded without steps. */
const resultsAtOnce = 64;

/** Whether one call of JSON.stringify writes the response; each further one would cost as much as five results. */
function isSmall(response: SearchResponse, asked: Asked): boolean {
  if (response.results.length > resultsAtOnce || hasOwnJson(asked)) return false;
  if (asked.explain === true || asked.walk === true || asked.return_raw_text === true) return false;
  assertResponse(response, asked);
  return true;
}

/** Asserts what is true of every response, before it is encoded. */
function assertResponse({ results }: SearchResponse, { top_k, diversity }: Asked): void {
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
const hasOwnJson = ({ include, group_by }: Asked): boolean => (include?.length ?? 0) > 0 || group_by != null;

function* writeResponse(response: SearchResponse, asked: Asked, out: JsonWriter): Steps<void> {
  assertResponse(response, asked);
  const { results, walk, ...others } = response;
  out.add('{"results":');
  yield* arrayJson(results, out, hasOwnJson(asked) ? resultJson : undefined);
  for (const [name, value] of Object.entries(others)) out.add(`,"${name}":${JSON.stringify(value)}`);
  if (walk !== undefined) {
    out.add(`,"walk":{"is_cut":${walk.is_cut},"visits":`);
    yield* arrayJson(walk.visits, out);
    out.add("}");
  }
  out.add("}");
}

function* writeResponses(responses: readonly SearchResponse[], asked: Asked, out: JsonWriter): Steps<void> {
  const queries = asked.queries?.length ?? asked.query_terms_list?.length;
  invariant(responses.length === queries, () => `${queries} queries have ${responses.length} answers`);
  out.add("[");
  for (const [i, response] of responses.entries()) {
    if (i > 0) out.add(",");
    yield* writeResponse(response, asked, out);
    yield;
  }
  out.add("]");
}

function lines(exported: LineExport, work: Work, access: Access): Lines {
  const end = work.hold();
  const headers = {
    // The number of a version counts the writes of all keys.
    ...(access.filter === null && { "x-quiver-version": String(exported.version) }),
    "x-quiver-count": String(exported.count),
  };
  return new Lines(jsonTexts(exported), headers, work.task, () => {
    exported.release();
    end();
  });
}

/** @param exported of several shards, its lines come from other nodes */
async function* jsonTexts(exported: LineExport): AsyncGenerator<string> {
  for await (const line of exported) yield line.toJson();
}

function fileAnswer({ snapshot, stream }: SnapshotFile): FileAnswer {
  const { id, sha256, size_bytes, version_number, hash } = snapshot;
  const headers = {
    etag: `"${sha256}"`,
    "content-disposition": `attachment; filename="quiver-${id}.qbackup"`,
    "repr-digest": `sha-256=:${Buffer.from(sha256, "hex").toString("base64")}:`,
    "x-quiver-sha256": sha256,
    "x-quiver-version": String(version_number),
    "x-quiver-hash": hash,
  };
  return new FileAnswer(size_bytes, headers, stream);
}
