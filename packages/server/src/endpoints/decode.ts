// What becomes of a validated body before an operation runs?
//
// Dense vectors that are given as bytes become floats, and metadata keeps its exact text, in place and in steps. The declaration of the
// operation says where the body has them.

import { release, type Steps, type Task } from "@quiverdb/engine/database/contract";
import type { Operation } from "@quiverdb/engine/operations/operations";
import type { VectorInput } from "@quiverdb/protocol/shapes/vector";
import { readExamples, readVector, readVectors } from "../request/dense-vectors.ts";
import { withExactMetadata } from "../request/exact-metadata.ts";
import type { ParsedBody } from "../request/json.ts";

/**
 * Reads the vectors and the metadata of a body. Afterwards the text of a body with many records cannot be read any more.
 * @returns a promise where there is enough to read for steps
 * @throws invalid_request for what are no floats
 */
export function decodeBody(
  { vectorField, vectorLists, records, patch }: Operation,
  body: unknown,
  parsed: ParsedBody,
  task: Task,
): Promise<void> | undefined {
  if (vectorField !== undefined) readVector(body as object, vectorField);
  else if (vectorLists !== undefined) return task.finish(readLists(body as Lists, vectorLists));
  else if (records !== undefined) return task.finish(readRecords(records, body, parsed));
  else if (patch) return task.finish(readPatch(body as VectorInput, parsed));
  return undefined;
}

type Lists = Readonly<Record<string, readonly object[] | null | undefined>>;

/** @param places `list[].field`, or `list[]` */
function* readLists(body: Lists, places: readonly string[]): Steps<void> {
  for (const place of places) {
    const [list, field] = place.split(/\[\]\.?/);
    const items = body[list] ?? [];
    yield* field === "" ? readExamples(items, list) : readVectors(items, field, list);
  }
}

function* readRecords(at: "body" | "vectors", body: unknown, parsed: ParsedBody): Steps<void> {
  if (at === "body") {
    readVector(body as object, "dense_values");
    yield* withExactMetadata([body as VectorInput], parsed, at);
    return;
  }
  const { vectors } = body as { vectors: VectorInput[] };
  yield* readVectors(vectors, "dense_values", at, parsed);
  yield* withExactMetadata(vectors, parsed, at);
  release(parsed.bytes);
}

/** A patch is read like the metadata of a record that has nothing else. */
function* readPatch(body: VectorInput & { metadataJson?: string }, parsed: ParsedBody): Steps<void> {
  const [{ metadataJson }] = yield* withExactMetadata([{ id: "", metadata: body.metadata }], parsed, "body");
  if (metadataJson !== undefined) body.metadataJson = metadataJson;
}
