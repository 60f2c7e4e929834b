// Is a vector valid for its collection, and how is it encoded?
//
// The code validates everything before it encodes anything. Error messages name the position.

import { counted } from "@quiverdb/protocol/counted";
import { QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownFields } from "@quiverdb/protocol/fields";
import { finiteFloat, kindOf } from "@quiverdb/protocol/kind-of";
import { limits } from "@quiverdb/protocol/limits";
import { type DenseVector, ExactVectorInput } from "@quiverdb/protocol/shapes/vector";
import { ByteWriter, bytesBeyond, concatenated } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import { finishAtOnce, type Steps } from "../base/steps.ts";
import { depthOf } from "../metadata/merge.ts";
import { processedText } from "../text/tokenize.ts";
import { firstNotFloat, invalid, readPairs, sortSparse } from "../vector/given.ts";
import type { CollectionDefinition } from "./definition.ts";
import { type RecordContent, writeCondition, writeDelete, writeUpsert } from "./record.ts";

/** A vector to write; `metadataJson`, where given, is the exact JSON text of `metadata`. */
export type VectorWrite = ExactVectorInput;

/**
 * The encoded batch of upserts of some vectors (record.ts), all validated, in steps.
 * @param path name of the array in messages, such as `vectors`
 * @throws invalid_vector, modality_not_enabled, with the position
 */
export function* encodeUpsertsInSteps(
  definition: CollectionDefinition,
  vectors: readonly VectorWrite[],
  path: string,
): Steps<Uint8Array<ArrayBuffer>> {
  if (!Array.isArray(vectors)) throw invalid(path, "must be an array of vectors.");
  if (vectors.length > limits.recordsPerRequestMax)
    throw invalid(
      path,
      `has ${vectors.length} vectors, at most ${limits.recordsPerRequestMax} are allowed in one request.`,
    );
  const out = new ByteWriter(64 + vectors.length * (64 + 4 * (definition.dimension ?? 16)));
  const conditions = new ByteWriter(0);
  for (const [i, vector] of vectors.entries()) {
    writeUpsert(out, yield* checkVector(definition, vector, `${path}[${i}]`));
    addCondition(conditions, vector.id, vector, `${path}[${i}]`);
    if (i % recordsPerStep === recordsPerStep - 1) yield;
  }
  const batch = batchOf(conditions, out);
  invariant(
    batch.length > 0 === vectors.length > 0,
    () => `${vectors.length} vectors are encoded in ${batch.length} bytes`,
  );
  return batch;
}

/** Records that are encoded at a step. */
const recordsPerStep = 16;

/** The batch of one upsert, in steps; fields are named without a position. */
export function* encodeUpsertInSteps(
  definition: CollectionDefinition,
  vector: VectorWrite,
): Steps<Uint8Array<ArrayBuffer>> {
  const out = new ByteWriter(64 + 4 * (definition.dimension ?? 16));
  const conditions = new ByteWriter(0);
  writeUpsert(out, yield* checkVector(definition, vector, ""));
  addCondition(conditions, vector.id, vector, "");
  return batchOf(conditions, out);
}

/** What a write asks of the record that it changes; null and absent: nothing. */
export type IfRecord = { readonly if_match?: number | null; readonly if_absent?: boolean | null };

/** Appends what a write asks of a record, if anything. @throws invalid_request */
function addCondition(out: ByteWriter, id: string, given: IfRecord, at: string): void {
  const born = requiredBorn(given, at);
  if (born !== undefined) writeCondition(out, id, born);
}

/** The version that must have written the record; 0: there must be none; undefined: any. @throws invalid_request */
export function requiredBorn({ if_match, if_absent }: IfRecord, at = ""): number | undefined {
  const field = (name: string) => (at === "" ? name : `${at}.${name}`);
  if (if_absent != null && typeof if_absent !== "boolean")
    throw invalid(field("if_absent"), "must be true or false.");
  if (if_match == null) return if_absent ? 0 : undefined;
  if (if_absent) throw invalid(field("if_absent"), "is given beside if_match; give one of the two.");
  if (!Number.isSafeInteger(if_match) || if_match < 1)
    throw invalid(
      field("if_match"),
      `is ${String(if_match).slice(0, 80)}; expected the version that wrote the record, as \`include: ["version"]\` tells it.`,
    );
  return if_match;
}

const batchOf = (conditions: ByteWriter, operations: ByteWriter): Uint8Array<ArrayBuffer> =>
  conditions.length === 0 ? operations.take() : concatenated([conditions.take(), operations.take()]);

/** `encodeUpsertsInSteps`, at once. */
export function encodeUpserts(
  definition: CollectionDefinition,
  vectors: readonly VectorWrite[],
  path: string,
): Uint8Array<ArrayBuffer> {
  return finishAtOnce(encodeUpsertsInSteps(definition, vectors, path));
}

/** @throws invalid_request for a wrong condition */
export function encodeDelete(id: string, condition: IfRecord = {}): Uint8Array<ArrayBuffer> {
  const conditions = new ByteWriter(0);
  const out = new ByteWriter(8 + id.length);
  addCondition(conditions, id, condition, "");
  writeDelete(out, id);
  return batchOf(conditions, out);
}

/** Checks the id of a vector that is read or deleted. @throws invalid_request */
export function checkId(id: unknown, path: string): asserts id is string {
  const problem = idProblem(id);
  if (problem) throw new QuiverError("invalid_request", `${path} ${problem}`, { path });
}

function idProblem(id: unknown): string | null {
  const wanted = `; expected a string of 1 to ${limits.idBytesMax} bytes of UTF-8.`;
  if (typeof id !== "string") return `is ${kindOf(id)}${wanted}`;
  if (id === "") return `is empty${wanted}`;
  if (!id.isWellFormed()) return `has half of a surrogate pair, which UTF-8 cannot hold${wanted}`;
  const bytes = bytesBeyond(id, limits.idBytesMax);
  return bytes > 0 ? `has ${bytes} bytes${wanted}` : null;
}

function* checkVector(
  definition: CollectionDefinition,
  vector: VectorWrite,
  at: string,
): Steps<RecordContent> {
  const field = (name: string) => (at === "" ? name : `${at}.${name}`);
  if (typeof vector !== "object" || vector === null) throw invalid(at, "must be a vector object.");
  refuseUnknownFields(ExactVectorInput, vector, at);
  const problem = idProblem(vector.id);
  if (problem) throw invalid(field("id"), problem);
  const documentId = vector.document_id ?? null;
  if (documentId !== null) {
    const documentProblem = idProblem(documentId);
    if (documentProblem) throw invalid(field("document_id"), documentProblem);
  }
  // Words take several steps. Nobody can change the arrays of the caller between their check and their copy.
  const text = yield* checkText(definition, vector.text ?? null, field("text"));
  const record: RecordContent = {
    id: vector.id,
    documentId,
    dense: checkDense(definition, vector.dense_values ?? null, field("dense_values")),
    sparse: checkSparse(definition, vector, field),
    text,
    metadataJson: checkMetadata(vector, field("metadata")),
  };
  if (record.dense === null && record.sparse === null && record.text === null)
    throw invalid(
      at === "" ? "the vector" : at,
      "has no content: give at least one of dense_values, sparse_indices with sparse_values, or text.",
    );
  return record;
}

function requireEnabled(enabled: boolean, path: string, kind: string): void {
  if (!enabled)
    throw new QuiverError(
      "modality_not_enabled",
      `${path} is given, but the collection was created without ${kind}. Leave it out or create the collection with it.`,
      { path },
    );
}

function checkDense(
  definition: CollectionDefinition,
  values: DenseVector | null,
  path: string,
): ArrayLike<number> | null {
  if (values === null) return null;
  requireEnabled(definition.dense, path, "dense vectors");
  if (!Array.isArray(values) && !ArrayBuffer.isView(values))
    throw invalid(path, "must be an array of numbers.");
  if (values.length !== definition.dimension)
    throw invalid(
      path,
      `has ${counted(values.length, "value")}, the collection's dimension is ${definition.dimension}.`,
      { received: values.length, expected: definition.dimension },
    );
  const wrong = firstNotFloat(values);
  if (wrong >= 0) throw invalid(`${path}[${wrong}]`, `is ${values[wrong]}; ${finiteFloat}`);
  return values;
}

/**
 * Indices and values of a sparse vector given in any of the accepted forms, sorted by index.
 * @param indicesPath, valuesPath their names in messages
 * @throws invalid_vector
 */
function checkSparse(
  definition: CollectionDefinition,
  vector: VectorWrite,
  field: (name: string) => string,
): RecordContent["sparse"] {
  const given = vector.sparse_values ?? null;
  const indices = vector.sparse_indices ?? null;
  if (given === null && indices === null) return null;
  const path = field("sparse_values");
  requireEnabled(definition.sparse, given === null ? field("sparse_indices") : path, "sparse vectors");
  if (given === null) throw invalid(path, "is missing; sparse_indices come together with sparse_values.");
  const pairs = given.length > 0 && typeof given[0] === "object";
  if (indices === null && given.length > 0 && !pairs)
    throw invalid(
      field("sparse_indices"),
      "is missing; give one index for each of sparse_values, or sparse_values as [index, value] pairs.",
    );
  if (pairs) return sortSparse(readPairs(given, path), path);
  if (indices !== null && indices.length !== given.length)
    throw invalid(
      field("sparse_indices"),
      `has ${indices.length} indices for ${given.length} sparse_values; expected as many.`,
    );
  return sortSparse(
    { indices: (indices ?? []) as number[], values: given as number[] },
    path,
    field("sparse_indices"),
  );
}

function* checkText(
  definition: CollectionDefinition,
  text: string | null,
  path: string,
): Steps<RecordContent["text"]> {
  if (text === null) return null;
  requireEnabled(definition.text, path, "text search");
  if (typeof text !== "string") throw invalid(path, "must be a string.");
  if (!text.isWellFormed()) throw invalid(path, "has half of a surrogate pair, which UTF-8 cannot hold.");
  const bytes = bytesBeyond(text, limits.textBytesMax);
  if (bytes > 0) throw invalid(path, `has ${bytes} bytes, at most ${limits.textBytesMax} are allowed.`);
  return definition.storeRawText
    ? { kind: "raw", value: text }
    : { kind: "processed", value: yield* processedText(text) };
}

function checkMetadata(vector: VectorWrite, path: string): string | null {
  const { metadata } = vector;
  if (metadata === null || metadata === undefined) return null;
  if (typeof metadata !== "object" || Array.isArray(metadata)) throw invalid(path, "must be a JSON object.");
  const depth = depthOf(metadata, limits.metadataDepthMax);
  if (depth > limits.metadataDepthMax)
    throw invalid(path, `is nested more than ${limits.metadataDepthMax} levels deep.`);
  const json = vector.metadataJson ?? JSON.stringify(metadata);
  const bytes = bytesBeyond(json, limits.metadataBytesMax);
  if (bytes > 0)
    throw invalid(path, `has ${bytes} bytes as JSON, at most ${limits.metadataBytesMax} are allowed.`);
  return json;
}
