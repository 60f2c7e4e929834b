// Which log entries has a collection applied lately?
//
// An entry that comes again is not applied again. The head's `sequence` tells that of an entry under its own number. This table
// tells it of an entry that was ordered twice, and so has come under a second number: it remembers the opIds of the last
// `limits.entriesRemembered` entries, and is written in the same store write as what they change.
//
//   recent[first byte of the opId] = rows of u53 sequence | 16 bytes of opId, by ascending sequence
//
// One row is read and written for each entry, whatever the number of those remembered. A row that is too old leaves when its
// bucket is written next, and counts for nothing until then: what is remembered depends on the log alone.

import { limits } from "@quiver/protocol/limits";
import { compareBytes, emptyBytes, fromHex, readU53, toHex, writeU53 } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";

/** Bytes of an opId, and of a row. */
export const opIdBytes = 16;
export const recentRowBytes = 8 + opIdBytes;

/** The smallest number that is remembered when `sequence` is the last one. */
export function oldestRemembered(sequence: number): number {
  return Math.max(1, sequence - limits.entriesRemembered + 1);
}

/** Whether an opId is remembered. @param sequence the last entry that was applied */
export function isRemembered(reader: Reader, sequence: number, opId: string): boolean {
  const id = fromHex(opId);
  const oldest = oldestRemembered(sequence);
  for (const row of recentRows(reader.get("recent", id.subarray(0, 1)) ?? emptyBytes))
    if (row.sequence >= oldest && compareBytes(row.opId, id) === 0) return true;
  return false;
}

/** The opId of an entry; undefined where it is not remembered. Reads all that are. */
export function opIdOf(reader: Reader, sequence: number): string | undefined {
  for (const [, rows] of reader.entries("recent"))
    for (const row of recentRows(rows)) if (row.sequence === sequence) return toHex(row.opId);
  return undefined;
}

/** The rows of a bucket, in their order, as views on its bytes. */
export function* recentRows(bucket: Uint8Array): Generator<{ sequence: number; opId: Uint8Array }> {
  for (let at = 0; at < bucket.length; at += recentRowBytes)
    yield { sequence: readU53(bucket, at), opId: bucket.subarray(at + 8, at + recentRowBytes) };
}

/** Remembers an entry, the newest one, and drops what is too old of its bucket. */
export function remember(writer: Writer, sequence: number, opId: string): void {
  const id = fromHex(opId);
  invariant(id.length === opIdBytes, `an entry has the opId '${opId}'`);
  const key = id.slice(0, 1);
  const rows = writer.get("recent", key) ?? emptyBytes;
  const oldest = oldestRemembered(sequence);
  let from = 0;
  while (from < rows.length && readU53(rows, from) < oldest) from += recentRowBytes;
  const kept = rows.length - from;
  const bytes = new Uint8Array(kept + recentRowBytes);
  bytes.set(rows.subarray(from), 0);
  writeU53(bytes, kept, sequence);
  bytes.set(id, kept + 8);
  writer.put("recent", key, bytes);
}
