// Which records does a filter change, and how?
//
// A request that changes the records matching a filter must change exactly those of one version, whatever is written meanwhile. Finding them
// can take long, so it is done before, on an older version, by another thread, with its indexes. The writer then
//
//   - leaves out the found records that are gone: a replaced record has another ordinal, and is a new record;
//   - tests the records that are new since, which are few.
//
// What results is an operation on ids, like any other: the log has no filters, and applying it needs none.

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import { ByteWriter } from "../base/byte-writer.ts";
import { bytesBeyond, text, utf8 } from "../base/bytes.ts";
import { finishAtOnce } from "../base/steps.ts";
import { withTimes } from "../filter/filter.ts";
import { Predicate } from "../filter/predicate.ts";
import { readFilter } from "../filter/read-filter.ts";
import { depthOf } from "../metadata/depth.ts";
import { mergedMetadata } from "../metadata/merge.ts";
import type { Reader } from "../storage/store.ts";
import type { LogOperation } from "./apply.ts";
import type { Head } from "./head.ts";
import { RecordReader } from "./record-reader.ts";
import { filterOfRows, type RowFilter, RowRules } from "./rows.ts";
import { ordinalKey } from "./tables.ts";

/** Which records, in the form in which it is sent to the writer. */
export type Matching = {
  /** As it was requested. */
  readonly filter: unknown;
  /** Fields that are compared by time. */
  readonly times: readonly string[];
  /** The records that matched at a version, ascending. */
  readonly found: Uint32Array;
  /** The next unused ordinal at that version. */
  readonly end: number;
};

/** The caller sees only these records; absent: all. */
type OfRows = { readonly rows?: RowFilter | undefined };

/** Deletes the matching records, or merges a patch (JSON text, RFC 7396) into the metadata of one or of all of them. */
export type ChangeMatching = OfRows &
  (
    | { kind: "deleteMatching"; matching: Matching }
    | { kind: "updateMatching"; matching: Matching; patch: string }
    | { kind: "patch"; id: Uint8Array; patch: string }
  );

/** The operation that the request becomes in this state; null if no record matches. @throws invalid_request if it is too large */
export function changeOf(reader: Reader, head: Head, request: ChangeMatching): LogOperation | null {
  const { rows } = request;
  const rules = rows ? new RowRules(reader, rows) : null;
  const patched = (keys: readonly Uint8Array[], patch: string): LogOperation => {
    const batch = patchedBatch(reader, keys, patch);
    rules?.requireStillVisible(batch);
    return { kind: "upsert", batch };
  };
  if (request.kind === "patch") {
    const ordinal = reader.get("ids", request.id)?.slice();
    if (ordinal === undefined || rules?.seesAt(ordinal) === false) throw vectorNotFound(text(request.id));
    return patched([ordinal], request.patch);
  }
  const keys = matchingKeys(reader, head, request.matching, rows);
  if (keys.length === 0) return null;
  return request.kind === "deleteMatching"
    ? { kind: "delete", batch: deletingBatch(reader, keys) }
    : patched(keys, request.patch);
}

function vectorNotFound(id: string): QuiverError {
  return new QuiverError(
    "vector_not_found",
    `The collection has no vector '${id.slice(0, 80)}'; nothing was changed.`,
    { vector_id: id },
  );
}

/** The keys of the matching records. */
function matchingKeys(
  reader: Reader,
  head: Head,
  { filter, times, found, end }: Matching,
  rows: RowFilter | undefined,
): Uint8Array[] {
  const read = finishAtOnce(readFilter(filter));
  if (read === null) return [];
  const wanted = withTimes(read, (field) => times.includes(field));
  const predicate = new Predicate(rows ? { kind: "and", parts: [filterOfRows(rows), wanted] } : wanted);
  const keys: Uint8Array[] = [];
  for (const ordinal of found) {
    const key = ordinalKey(ordinal);
    if (reader.get("records", key) !== undefined) keys.push(key);
  }
  for (let ordinal = end; ordinal < head.nextOrdinal; ordinal++) {
    const key = ordinalKey(ordinal);
    const stored = reader.get("records", key);
    if (stored !== undefined && predicate.matches(new RecordReader(stored))) keys.push(key);
  }
  return keys;
}

const storedRecord = (reader: Reader, key: Uint8Array): RecordReader =>
  new RecordReader((reader.get("records", key) as Uint8Array).slice());

function deletingBatch(reader: Reader, keys: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new ByteWriter(32 * keys.length);
  for (const key of keys) {
    const { idBytes } = storedRecord(reader, key);
    out.u8(0);
    out.u16(idBytes.length);
    out.bytes(idBytes);
    checkSize(out.length);
  }
  return out.take();
}

/** @throws invalid_request if so many bytes are too much for one version */
function checkSize(bytes: number): void {
  if (bytes <= limits.changeBytesMax) return;
  throw new QuiverError(
    "invalid_request",
    `The records that match have more than ${limits.changeBytesMax} bytes, and are changed as one version. Narrow the filter, and send several requests.`,
    { path: "filter", limit_bytes: limits.changeBytesMax },
  );
}

function patchedBatch(reader: Reader, keys: readonly Uint8Array[], patch: string): Uint8Array<ArrayBuffer> {
  const out = new ByteWriter(1_024);
  for (const key of keys) {
    const record = storedRecord(reader, key);
    const content = record.contentWithMetadata(
      utf8(checked(mergedMetadata(record.metadataJson, patch), record.id)),
    );
    const dense = record.contents.dense ? reader.get("dense", key) : undefined;
    out.u8(1);
    out.u16(record.idBytes.length);
    out.bytes(record.idBytes);
    out.u32(content.length);
    out.bytes(content);
    out.u32(dense?.length ?? 0);
    if (dense !== undefined) out.bytes(dense);
    checkSize(out.length);
  }
  return out.take();
}

/** @throws invalid_vector if the record may not have this metadata */
function checked(metadata: string, id: string): string {
  const refuse = (problem: string) =>
    new QuiverError(
      "invalid_vector",
      `The merged metadata of the record '${id.slice(0, 80)}' ${problem}; nothing was changed.`,
      { path: "metadata", vector_id: id },
    );
  const bytes = bytesBeyond(metadata, limits.metadataBytesMax);
  if (bytes > 0) throw refuse(`has ${bytes} bytes as JSON, at most ${limits.metadataBytesMax} are allowed`);
  if (depthOf(JSON.parse(metadata), limits.metadataDepthMax) > limits.metadataDepthMax)
    throw refuse(`is nested more than ${limits.metadataDepthMax} levels deep`);
  return metadata;
}
