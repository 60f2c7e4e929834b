// Which log entries has a collection applied recently?
//
// No entry may be applied twice. If the same entry arrives again under the same number, the head's `sequence` shows it. If an entry was
// ordered twice and so arrives under a second number, its opId shows it. So the collection remembers the opIds of the last
// `limits.entriesRemembered` entries. Each is written in the same store write as the changes of its entry.
//
//   meta.recent                    rows of the latest entries, until they are a block
//   recent[sequence of the last]   blocks of 32 rows
//   row                            u53 sequence | 16 bytes of opId
//
// This adds no page to a small write: the latest rows lie on the page of the head, which every entry writes anyway. A block that is too
// old is removed when the next one is full. Until then its rows are ignored, so the set of remembered entries depends on the log only.

import { limits } from "@quiverdb/protocol/limits";
import { emptyBytes, fromHex, readU53, toHex, u53Key, writeU53 } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import { metaKeys, tables } from "./tables.ts";

/** Bytes of an opId. */
export const opIdBytes = 16;
/** Bytes of a row, and of a full block. */
export const recentRowBytes = 8 + opIdBytes;
export const recentBlockBytes = tables.recent.value.bytes;

/** Remembers an entry, the newest one. */
export function remember(writer: Writer, sequence: number, opId: string): void {
  const id = fromHex(opId);
  invariant(id.length === opIdBytes, `an entry has the opId '${opId}'`);
  const latest = writer.get("meta", metaKeys.recent) ?? emptyBytes;
  invariant(
    latest.length % recentRowBytes === 0 && latest.length < recentBlockBytes,
    `the latest entries have ${latest.length} bytes`,
  );
  const before = latest.length === 0 ? 0 : readU53(latest, latest.length - recentRowBytes);
  invariant(before < sequence, `entry ${sequence} is remembered after entry ${before}`);
  const rows = new Uint8Array(latest.length + recentRowBytes);
  rows.set(latest, 0);
  writeU53(rows, latest.length, sequence);
  rows.set(id, latest.length + 8);
  const isFull = rows.length === recentBlockBytes;
  writer.put("meta", metaKeys.recent, isFull ? emptyBytes : rows);
  if (!isFull) return;
  writer.put("recent", u53Key(sequence), rows);
  const old = [...writer.keys("recent", { end: u53Key(oldestRemembered(sequence)) })];
  for (const key of old) writer.delete("recent", key);
}

/** Whether an opId is remembered. @param sequence the last entry that was applied */
export function isRemembered(reader: Reader, sequence: number, opId: string): boolean {
  const oldest = oldestRemembered(sequence);
  const id = fromHex(opId);
  for (const block of recentBlocks(reader))
    for (let at = 0; at < block.length; at += recentRowBytes)
      if (isSameId(block, at + 8, id) && readU53(block, at) >= oldest) return true;
  return false;
}

function isSameId(block: Uint8Array, at: number, id: Uint8Array): boolean {
  for (let i = 0; i < opIdBytes; i++) if (block[at + i] !== id[i]) return false;
  return true;
}

/** The smallest number that is remembered when `sequence` is the last one. */
function oldestRemembered(sequence: number): number {
  return Math.max(1, sequence - limits.entriesRemembered + 1);
}

function* recentBlocks(reader: Reader): Generator<Uint8Array> {
  for (const [, block] of reader.entries("recent")) {
    invariant(block.length === recentBlockBytes, `a block of recent entries has ${block.length} bytes`);
    yield block;
  }
  yield (reader.get("meta", metaKeys.recent) ?? emptyBytes).slice();
}

/** The rows of a block, or of the latest entries, in their order. */
export function* rowsOf(bytes: Uint8Array): Generator<{ sequence: number; opId: string }> {
  for (let at = 0; at < bytes.length; at += recentRowBytes)
    yield { sequence: readU53(bytes, at), opId: toHex(bytes.subarray(at + 8, at + recentRowBytes)) };
}
