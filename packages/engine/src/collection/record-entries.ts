// Which entries does a record have, and in which tables?
//
//   records[ordinal]             the record                        ids[id]                         ordinal
//   dense[ordinal]               its vector, if it has one         documents[document, ordinal]    nothing, if it is in a document
//
// Changes (change.ts) and restores (database/snapshots/read-backup.ts) write them here, so that verify-records.ts finds them.

import { emptyBytes } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import type { Writer } from "../storage/store.ts";
import { RecordReader } from "./record.ts";
import { documentKey, ordinalKey, ordinalOfDocumentKey } from "./tables.ts";

/**
 * Writes the entries of a record, and names it by its id instead of another record.
 * @param ordinal greater than all others
 * @param record as it is stored; not borrowed from the store
 * @param dense empty for none
 */
export function putRecord(writer: Writer, ordinal: number, record: Uint8Array, dense: Uint8Array): void {
  const { idBytes, documentIdBytes } = new RecordReader(record);
  const key = ordinalKey(ordinal);
  writer.put("ids", idBytes, key);
  failpoint("upsert:named");
  writer.append("records", key, record);
  if (dense.length > 0) writer.append("dense", key, dense);
  if (documentIdBytes.length > 0) writer.put("documents", documentKey(documentIdBytes, ordinal), emptyBytes);
}

/** Removes the entries of a record, except that of its id. @param record may be borrowed from the store */
export function deleteRecord(writer: Writer, ordinal: number, record: RecordReader): void {
  const document = record.documentIdBytes.slice();
  const key = ordinalKey(ordinal);
  writer.delete("records", key);
  failpoint("delete:record-gone");
  writer.delete("dense", key);
  if (document.length > 0) writer.delete("documents", documentKey(document, ordinal));
}

/** `deleteRecord` for one that is unreadable: searches all documents. @returns whether it had a vector */
export function deleteDamaged(writer: Writer, ordinal: number): boolean {
  const key = ordinalKey(ordinal);
  writer.delete("records", key);
  for (const document of writer.keys("documents"))
    if (ordinalOfDocumentKey(document) === ordinal) {
      writer.delete("documents", document);
      break;
    }
  return writer.delete("dense", key);
}
