// Which records does a filter change, and how?
//
// A request that changes the records matching a filter must change exactly those of one version, whatever is written meanwhile. Finding them
// and encoding what becomes of them can take long, so it is done before, in steps, on an older version, by another
// thread, with its indexes. The writer then
//
//   - leaves out the operations of records that are gone: a replaced record has another ordinal, and is a new record;
//   - tests the records that are new since, which are few, and adds their operations.
//
// Nothing is left to do if the version is still the same. What results is an operation on ids, like any other: the log has no filters, and
// applying it needs none.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import {
  ByteWriter,
  bytesBeyond,
  concatenated,
  emptyBytes,
  readU32Key,
  release,
  text,
  utf8,
} from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import { finishAtOnce, type Steps } from "../base/steps.ts";
import { withTimes } from "../filter/filter.ts";
import { Predicate } from "../filter/predicate.ts";
import { readFilter } from "../filter/read-filter.ts";
import { depthOf, mergedMetadata } from "../metadata/merge.ts";
import type { Reader } from "../storage/store.ts";
import type { LogOperation } from "./apply.ts";
import type { Head } from "./head.ts";
import { filterOfKey, KeyFilterRules, type WriterKeyFilter } from "./key-filter.ts";
import { RecordReader, readOperations } from "./record.ts";
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
type OfKeyFilter = { readonly keyFilter?: WriterKeyFilter | undefined };

/**
 * Deletes the matching records, or merges a patch (JSON text, RFC 7396) into the metadata of one or of all of them. The batch has the
 * operations of those that matched.
 */
export type ChangeMatching = OfKeyFilter &
  (
    | { kind: "deleteMatching"; matching: Matching; batch: Uint8Array }
    | { kind: "updateMatching"; matching: Matching; batch: Uint8Array; patch: string }
    /** `born`: the version that must have written the record. */
    | { kind: "patch"; id: Uint8Array; patch: string; born?: number }
  );

/** The operation that the request becomes in this state; null if no record matches. @throws invalid_request if it is too large */
export function changeOf(reader: Reader, head: Head, request: ChangeMatching): LogOperation | null {
  const rules = request.keyFilter ? new KeyFilterRules(reader, request.keyFilter) : null;
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
  { matching, keyFilter, batch }: Exclude<ChangeMatching, { kind: "patch" }>,
  fresh: MatchingBatch,
): Uint8Array {
  if (isUnchanged(head, matching)) return batch;
  const kept = keptOperations(reader, batch, matching.end);
  const predicate = predicateOf(matching, keyFilter);
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

function predicateOf({ filter, times }: Matching, keyFilter: WriterKeyFilter | undefined): Predicate {
  const read = finishAtOnce(readFilter(filter));
  invariant(read !== null, "a change by filter has no filter");
  const wanted = withTimes(read, (field) => times.includes(field));
  return new Predicate(keyFilter ? { kind: "and", parts: [filterOfKey(keyFilter), wanted] } : wanted);
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

// ---- What does a change by filter do to each record that it finds?
//
// It deletes the record, or merges a patch into its metadata. Either is an operation of a batch (record.ts), and the batches of all records
// together are one version. So that millions of them fit, an operation is encoded as soon as its record is read, into parts of a fixed size:
// beside the batch there is nothing that grows with the records. Limits are checked before memory is taken.

/** What to do with a record: delete it, or merge a patch (JSON text, RFC 7396) into its metadata. */
export type RecordChange = { readonly kind: "delete" } | { readonly kind: "patch"; readonly patch: string };

/** Records that are read at a step, and bytes of a part. */
const recordsPerStep = 32;
const partBytes = 256 * 1024;

/** The operations of some records of one version. */
export class MatchingBatch {
  readonly #reader: Reader;
  readonly #change: RecordChange;
  readonly #rules: KeyFilterRules | null;
  readonly #full: Uint8Array[] = [];
  #fullBytes = 0;
  #part = new ByteWriter(1_024);
  #records = 0;

  /** @param rules of a caller that sees only some records; null: it sees all */
  constructor(reader: Reader, change: RecordChange, rules: KeyFilterRules | null) {
    this.#reader = reader;
    this.#change = change;
    this.#rules = rules;
  }

  /** Bytes of the operations. */
  get bytes(): number {
    return this.#fullBytes + this.#part.length;
  }

  /**
   * Encodes the changes of records, in steps.
   * @param ordinals of live records
   * @param count how many there are
   * @throws invalid_request if they are too many for one version, or too large; invalid_vector if a record may not have the merged
   * metadata; forbidden if the caller would not see a patched record any more
   */
  *encode(ordinals: Iterable<number>, count: number): Steps<Uint8Array<ArrayBuffer>> {
    requireChangeable(count);
    let read = 0;
    for (const ordinal of ordinals) {
      this.add(ordinal);
      if (++read % recordsPerStep === 0) yield;
    }
    return yield* this.take();
  }

  /** Encodes the change of one record. @throws as `encode` */
  add(ordinal: number): void {
    const key = ordinalKey(ordinal);
    const stored = this.#reader.get("records", key);
    if (stored === undefined) return;
    const record = new RecordReader(stored);
    if (this.#change.kind === "delete") this.#addDelete(record);
    else this.#addPatched(key, record, this.#change.patch);
    this.#records++;
    requireSize(this.bytes, this.#records);
    if (this.#part.length < partBytes) return;
    const full = this.#part.take();
    this.#full.push(full);
    this.#fullBytes += full.length;
    this.#part = new ByteWriter(partBytes + partBytes / 8);
  }

  #addDelete({ idBytes }: RecordReader): void {
    const out = this.#part;
    out.u8(0);
    out.u16(idBytes.length);
    out.bytes(idBytes);
  }

  #addPatched(key: Uint8Array, record: RecordReader, patch: string): void {
    const metadata = mergedMetadata(record.metadataJson, patch);
    requireMetadata(metadata, record);
    const content = record.contentWithMetadata(utf8(metadata));
    const id = record.idBytes.slice();
    // This read takes the place of the record in the store's buffer.
    const dense = record.contents.dense ? (this.#reader.get("dense", key) ?? emptyBytes) : emptyBytes;
    this.#rules?.requireStillVisible({ kind: "upsert", id, content, dense });
    const out = this.#part;
    out.u8(1);
    out.u16(id.length);
    out.bytes(id);
    out.u32(content.length);
    out.bytes(content);
    out.u32(dense.length);
    out.bytes(dense);
  }

  /** The batch, in memory of its own. The parts are freed one by one, so that they and the batch are not there twice. */
  *take(): Steps<Uint8Array<ArrayBuffer>> {
    const last = this.#part.take();
    if (this.#full.length === 0) return last;
    const batch = new Uint8Array(this.#fullBytes + last.length);
    let at = 0;
    for (const part of [...this.#full.splice(0), last]) {
      batch.set(part, at);
      at += part.length;
      release(part);
      yield;
    }
    return batch;
  }
}

/** @throws invalid_request if so many records are too many for one version */
export function requireChangeable(records: number): void {
  if (records <= limits.changeRecordsMax) return;
  throw new QuiverError(
    "invalid_request",
    `${records} records match, at most ${limits.changeRecordsMax} are changed by one request, as one version; nothing was changed. ` +
      "Narrow the filter, for example by a range of ids, and send several requests.",
    { path: "filter", records, limit_records: limits.changeRecordsMax },
  );
}

/** @throws invalid_request if so many bytes are too much for one version */
function requireSize(bytes: number, records: number): void {
  if (bytes <= limits.changeBytesMax) return;
  throw new QuiverError(
    "invalid_request",
    `The first ${records} records that match have ${bytes} bytes, at most ${limits.changeBytesMax} are changed by one request, as one ` +
      "version; nothing was changed. Narrow the filter, for example by a range of ids, and send several requests.",
    { path: "filter", records, limit_bytes: limits.changeBytesMax },
  );
}

/** @throws invalid_vector if the record may not have this metadata */
function requireMetadata(metadata: string, { id }: RecordReader): void {
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
}
