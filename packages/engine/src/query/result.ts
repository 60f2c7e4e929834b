// What does a result contain, and how does it become JSON?
//
// The id, its document, the score, and the fields that the request includes. Metadata keeps the text that was written: it is parsed only if
// somebody reads it as an object, and an answer over HTTP never does.

import { base64 } from "@quiverdb/protocol/base64";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { Includable } from "@quiverdb/protocol/shapes/include";
import type { SearchResponse, SearchResult } from "@quiverdb/protocol/shapes/search";
import type { Steps } from "../base/steps.ts";
import { numberJson, pairsOf, valueJson } from "../collection/reading.ts";
import { recordOf } from "../collection/record-id-cache.ts";
import { readFloats } from "../vector/floats.ts";
import type { SearchedView } from "../views/view.ts";
import { vectorsOf } from "./legs.ts";
import type { Hit } from "./rank.ts";

/** What results have beside id, document and score. */
export type Wanted = { readonly returnRawText: boolean; readonly include: readonly Includable[] };

/** A result with metadata: a property of its own like the others, which is parsed when it is read first. */
class ResultWithMetadata implements SearchResult {
  readonly id: string;
  readonly document_id: string | null;
  readonly score: number;
  readonly text: string | null;
  declare readonly metadata: Record<string, unknown>;
  readonly #json: string;
  #parsed: Record<string, unknown> | undefined;

  /** @param json the exact text of the metadata */
  constructor({ id, document_id, score, text }: SearchResult, json: string) {
    this.id = id;
    this.document_id = document_id;
    this.score = score;
    this.text = text;
    this.#json = json;
    Object.defineProperty(this, "metadata", parsedWhenRead);
  }

  /** The exact text of a result's metadata; undefined if it was not asked for, or there is none. */
  static textOf(result: SearchResult): string | undefined {
    return #json in result ? result.#json : undefined;
  }

  /** As `console.log` shows it. */
  [Symbol.for("nodejs.util.inspect.custom")](): object {
    return { ...this };
  }

  static parsedOf(result: ResultWithMetadata): Record<string, unknown> {
    result.#parsed ??= JSON.parse(result.#json) as Record<string, unknown>;
    return result.#parsed;
  }
}

/** One for all results: a getter for each would cost ten times as much, and so would a table of the texts. */
const parsedWhenRead: PropertyDescriptor = {
  enumerable: true,
  configurable: true,
  get(this: ResultWithMetadata) {
    return ResultWithMetadata.parsedOf(this);
  },
};

/** Records that are fetched at a step. */
const fetchedPerStep = 128;

export function* fetchAll(
  view: SearchedView,
  hits: readonly Hit[],
  wanted: Wanted,
  size: ResultSize,
): Steps<SearchResult[]> {
  const results: SearchResult[] = [];
  for (const hit of hits) if (results.push(fetch(view, hit, wanted, size)) % fetchedPerStep === 0) yield;
  return results;
}

function fetch(
  view: SearchedView,
  { ordinal, score }: Hit,
  { returnRawText, include }: Wanted,
  size: ResultSize,
): SearchResult {
  const { id, documentId } = view.recordIds.of(view.readTxn, ordinal);
  let bytes = id.length + (documentId?.length ?? 0);
  if (!returnRawText && include.length === 0) {
    size.add(bytes);
    return { id, document_id: documentId, score, text: null };
  }
  if (!returnRawText && include.length === 1 && include[0] === "metadata") {
    const json = view.recordIds.metadataOf(view.readTxn, ordinal);
    size.add(bytes + (json?.length ?? 0));
    return withMetadata({ id, document_id: documentId, score, text: null }, json);
  }
  // Borrowed: read to the end before the vector is.
  const record = recordOf(view.readTxn, ordinal);
  const text = returnRawText || include.includes("text") ? record.rawText : null;
  const basis = { id, document_id: documentId, score, text };
  const result: SearchResult = include.includes("metadata")
    ? withMetadata(basis, record.metadataJson)
    : basis;
  bytes += record.byteLength;
  if (include.includes("version")) result.version = record.born;
  if (include.includes("sparse_values")) {
    const { sparse } = record;
    result.sparse_values = sparse && pairsOf(sparse);
  }
  const hasDense = record.contents.dense;
  if (include.includes("dense_values")) {
    result.dense_values = hasDense ? Array.from(readFloats(vectorsOf(view)(ordinal))) : null;
    bytes += 8 * (result.dense_values?.length ?? 0);
  }
  if (include.includes("dense_f32")) {
    result.dense_f32 = hasDense ? base64(vectorsOf(view)(ordinal)) : null;
    bytes += result.dense_f32?.length ?? 0;
  }
  size.add(bytes);
  return result;
}

function withMetadata(result: SearchResult, json: string | null): SearchResult {
  return json === null ? { ...result, metadata: null } : new ResultWithMetadata(result, json);
}

/** A result as it is posted to another thread: metadata as its exact text. */
type PostedResult = { readonly result: SearchResult; readonly metadata: string | undefined };

/** A response as it is posted. */
export type PostedResponse = Omit<SearchResponse, "results"> & { readonly results: readonly PostedResult[] };

export const postedResponse = (response: SearchResponse): PostedResponse => ({
  ...response,
  results: response.results.map(postedResult),
});

export const receivedResponse = (posted: PostedResponse): SearchResponse => ({
  ...posted,
  results: posted.results.map(receivedResult),
});

function postedResult(result: SearchResult): PostedResult {
  const metadata = ResultWithMetadata.textOf(result);
  if (metadata === undefined) return { result, metadata };
  // Reading the metadata would parse it.
  const others = Object.entries(Object.getOwnPropertyDescriptors(result)).filter(
    ([name]) => name !== "metadata",
  );
  return { result: Object.defineProperties({}, Object.fromEntries(others)) as SearchResult, metadata };
}

/** The same result in the other thread. */
function receivedResult({ result, metadata }: PostedResult): SearchResult {
  if (metadata === undefined) return result;
  const { id, document_id, score, text, ...others } = result;
  return Object.assign(withMetadata({ id, document_id, score, text }, metadata), others);
}

/** JSON text of a result with metadata exactly as it was written, minus zero as `-0`, and a group that is infinite as a number. */
export function resultJson(result: SearchResult): string {
  const { id, document_id, score, text, sparse_values, dense_values, dense_f32, explanation, group } = result;
  const { version } = result;
  let json = `{"id":${JSON.stringify(id)},"document_id":${JSON.stringify(document_id)},"score":${JSON.stringify(score)}`;
  json += `,"text":${JSON.stringify(text)}`;
  if (sparse_values !== undefined) json += `,"sparse_values":${sparseJson(sparse_values)}`;
  const metadata = ResultWithMetadata.textOf(result);
  if (metadata !== undefined) json += `,"metadata":${metadata}`;
  else if (result.metadata === null) json += ',"metadata":null';
  if (dense_values !== undefined) json += `,"dense_values":${denseJson(dense_values)}`;
  if (dense_f32 !== undefined) json += `,"dense_f32":${JSON.stringify(dense_f32)}`;
  if (version !== undefined) json += `,"version":${version}`;
  if (explanation !== undefined) json += `,"explanation":${JSON.stringify(explanation)}`;
  if (group !== undefined) json += `,"group":${valueJson(group)}`;
  return `${json}}`;
}

const denseJson = (values: SearchResult["dense_values"]): string =>
  values == null ? "null" : `[${values.map(numberJson).join(",")}]`;

const sparseJson = (pairs: SearchResult["sparse_values"]): string =>
  pairs == null ? "null" : `[${pairs.map(([index, value]) => `[${index},${numberJson(value)}]`).join(",")}]`;

/** Approximate memory of the results of one request. */
export class ResultSize {
  #bytes = 0;

  /** @throws invalid_request if it is more than one response may have */
  add(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= limits.resultBytesMax) return;
    throw new QuiverError(
      "invalid_request",
      `The results have more than ${limits.resultBytesMax} bytes. Reduce top_k, or leave out return_raw_text and include.`,
      { path: "top_k", limit: limits.resultBytesMax },
    );
  }
}
