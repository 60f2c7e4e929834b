// What does a change by filter do to each record that it finds?
//
// It deletes the record, or merges a patch into its metadata. Either is an operation of a batch (record.ts), and the batches of all records
// together are one version. So that millions of them fit, an operation is encoded as soon as its record is read, into parts of a fixed size:
// beside the batch there is nothing that grows with the records. Limits are checked before memory is taken.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { ByteWriter } from "../base/byte-writer.ts";
import { bytesBeyond, emptyBytes, release, utf8 } from "../base/bytes.ts";
import type { Steps } from "../base/steps.ts";
import { depthOf } from "../metadata/depth.ts";
import { mergedMetadata } from "../metadata/merge.ts";
import type { Reader } from "../storage/store.ts";
import { RecordReader } from "./record-reader.ts";
import type { RowRules } from "./rows.ts";
import { ordinalKey } from "./tables.ts";

/** What to do with a record: delete it, or merge a patch (JSON text, RFC 7396) into its metadata. */
export type RecordChange = { readonly kind: "delete" } | { readonly kind: "patch"; readonly patch: string };

/** Records that are read at a step, and bytes of a part. */
const recordsPerStep = 32;
const partBytes = 256 * 1024;

/** The operations of some records of one version. */
export class MatchingBatch {
  readonly #reader: Reader;
  readonly #change: RecordChange;
  readonly #rules: RowRules | null;
  readonly #full: Uint8Array[] = [];
  #fullBytes = 0;
  #part = new ByteWriter(1_024);
  #records = 0;

  /** @param rules of a caller that sees only some records; null: it sees all */
  constructor(reader: Reader, change: RecordChange, rules: RowRules | null) {
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
export function requireSize(bytes: number, records: number): void {
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
