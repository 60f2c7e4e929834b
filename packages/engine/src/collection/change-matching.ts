// Which records does a filter change, and how?
//
// A request that changes the records matching a filter must change exactly those of one version, whatever is written meanwhile. Finding them
// and encoding what becomes of them (matching-batch.ts) can take long, so it is done before, in steps, on an older version, by another
// thread, with its indexes. The writer then
//
//   - leaves out the operations of records that are gone: a replaced record has another ordinal, and is a new record;
//   - tests the records that are new since, which are few, and adds their operations.
//
// Nothing is left to do if the version is still the same. What results is an operation on ids, like any other: the log has no filters, and
// applying it needs none.

import { QuiverError } from "@quiverdb/protocol/errors";
import { ByteWriter } from "../base/byte-writer.ts";
import { concatenated, readU32Key, text } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import { finishAtOnce } from "../base/steps.ts";
import { withTimes } from "../filter/filter.ts";
import { Predicate } from "../filter/predicate.ts";
import { readFilter } from "../filter/read-filter.ts";
import type { Reader } from "../storage/store.ts";
import type { LogOperation } from "./apply.ts";
import type { Head } from "./head.ts";
import { MatchingBatch, type RecordChange, requireChangeable, requireSize } from "./matching-batch.ts";
import { readOperations } from "./record.ts";
import { RecordReader } from "./record-reader.ts";
import { filterOfRows, type RowFilter, RowRules } from "./rows.ts";
import { ordinalKey } from "./tables.ts";

/** Which records, in the form in which it is sent to the writer. */
export type Matching = {
  /** As it was requested. */
  readonly filter: unknown;
  /** Fields that are compared by time. */
  readonly times: readonly string[];
  /** The version at which the records of the batch matched, its live records, and the next unused ordinal. */
  readonly version: number;
  readonly live: number;
  readonly end: number;
};

/** The caller sees only these records; absent: all. */
type OfRows = { readonly rows?: RowFilter | undefined };

/**
 * Deletes the matching records, or merges a patch (JSON text, RFC 7396) into the metadata of one or of all of them. The batch has the
 * operations of those that matched.
 */
export type ChangeMatching = OfRows &
  (
    | { kind: "deleteMatching"; matching: Matching; batch: Uint8Array }
    | { kind: "updateMatching"; matching: Matching; batch: Uint8Array; patch: string }
    | { kind: "patch"; id: Uint8Array; patch: string }
  );

/** The operation that the request becomes in this state; null if no record matches. @throws invalid_request if it is too large */
export function changeOf(reader: Reader, head: Head, request: ChangeMatching): LogOperation | null {
  const rules = request.rows ? new RowRules(reader, request.rows) : null;
  if (request.kind === "patch") {
    const ordinal = reader.get("ids", request.id)?.slice();
    if (ordinal === undefined || rules?.seesAt(ordinal) === false) throw vectorNotFound(text(request.id));
    const patched = new MatchingBatch(reader, { kind: "patch", patch: request.patch }, rules);
    patched.add(readU32Key(ordinal));
    return { kind: "upsert", batch: finishAtOnce(patched.take()) };
  }
  const isDelete = request.kind === "deleteMatching";
  const change: RecordChange = isDelete ? { kind: "delete" } : { kind: "patch", patch: request.patch };
  const batch = currentBatch(reader, head, request, new MatchingBatch(reader, change, rules));
  return batch.length === 0 ? null : { kind: isDelete ? "delete" : "upsert", batch };
}

function vectorNotFound(id: string): QuiverError {
  return new QuiverError(
    "vector_not_found",
    `The collection has no vector '${id.slice(0, 80)}'; nothing was changed.`,
    { vector_id: id },
  );
}

/** The operations of the records that match now. The batch of the request stays as it is, because a request can be tried again. */
function currentBatch(
  reader: Reader,
  head: Head,
  { matching, rows, batch }: Exclude<ChangeMatching, { kind: "patch" }>,
  fresh: MatchingBatch,
): Uint8Array {
  if (isUnchanged(head, matching)) return batch;
  const kept = keptOperations(reader, batch, matching.end);
  const predicate = predicateOf(matching, rows);
  let { records } = kept;
  for (let ordinal = matching.end; ordinal < head.nextOrdinal; ordinal++) {
    const stored = reader.get("records", ordinalKey(ordinal));
    if (stored === undefined || !predicate.matches(new RecordReader(stored))) continue;
    requireChangeable(++records);
    fresh.add(ordinal);
    requireSize(kept.operations.length + fresh.bytes, records);
  }
  if (fresh.bytes === 0) return kept.operations;
  return concatenated([kept.operations, finishAtOnce(fresh.take())]);
}

/** Whether nothing was written since. Requests of the same log entry have the same version, but open or close records. */
function isUnchanged(head: Head, { version, live, end }: Matching): boolean {
  return head.version === version && head.nextOrdinal === end && head.live === live;
}

function predicateOf({ filter, times }: Matching, rows: RowFilter | undefined): Predicate {
  const read = finishAtOnce(readFilter(filter));
  invariant(read !== null, "a change by filter has no filter");
  const wanted = withTimes(read, (field) => times.includes(field));
  return new Predicate(rows ? { kind: "and", parts: [filterOfRows(rows), wanted] } : wanted);
}

/** The operations on records that are still there: their ids have ordinals below the end. */
function keptOperations(
  reader: Reader,
  batch: Uint8Array,
  end: number,
): { operations: Uint8Array; records: number } {
  let kept: ByteWriter | null = null;
  let records = 0;
  let at = 0;
  for (const { id, bytes } of readOperations(batch)) {
    const ordinal = reader.get("ids", id);
    if (ordinal !== undefined && readU32Key(ordinal) < end) {
      kept?.bytes(bytes);
      records++;
    } else if (kept === null) {
      kept = new ByteWriter(batch.length);
      kept.bytes(batch.subarray(0, at));
    }
    at += bytes.length;
  }
  return { operations: kept?.take() ?? batch, records };
}
