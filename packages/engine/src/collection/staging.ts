// What has the open transaction staged, and how does its commit apply it?
//
// The operations lie in the spool of the transaction (store.ts, S6), in the order in which they came, in frames:
//
//   spool      frame ...
//   frame      u32 bytes of the operations | u32 CRC-32 over the place of the frame and the operations | operation (record.ts) ...
//
//   stagedIds[id]              the place of its first operation, the kind of its last one, whether there is a later one than the first
//   staged[place of the first] if there is a later one: where the last one lies, its length and its CRC-32
//
//   conditions[id]             the version that must have written the record when the transaction commits; 0: there must be none
//
// A place is the number of bytes before an operation in the spool. The commit applies the last operation of each id, in the order of the
// first ones. So repeating a batch changes nothing, not even the order of the commit. One frame is in memory at a time: a transaction may be
// far larger than memory.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { readU32LE, readU53, text, toHex, u53Key, utf8, writeU32LE, writeU53 } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import { host } from "../base/host.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import type { Change } from "./change.ts";
import {
  type Encoded,
  type Operation,
  operationsOf,
  type RecordCondition,
  readConditions,
  readOperations,
} from "./record.ts";
import { tables } from "./tables.ts";
import { type TransactionEntry, writeTransaction } from "./transaction.ts";

/** The operation on an id. `growth`: by how much it would change the number of live records, judged when staged. */
export type StagedId = {
  /** Place of the first operation. */
  place: number;
  kind: "upsert" | "delete";
  /** Whether a later operation has replaced the first one. */
  isReplaced: boolean;
  growth: -1 | 0 | 1;
};

/** Bytes of an entry of the table `stagedIds`. */
const stagedIdBytes = tables.stagedIds.value.bytes;

function encodeStagedId({ place, kind, isReplaced, growth }: StagedId): Uint8Array {
  invariant(
    place >= frameHeaderBytes && Math.abs(growth) <= 1,
    () => `a staged operation has place ${place} and growth ${growth}`,
  );
  const bytes = new Uint8Array(stagedIdBytes);
  writeU53(bytes, 0, place);
  bytes[8] = (kind === "upsert" ? 1 : 0) | (isReplaced ? 2 : 0);
  bytes[9] = growth + 1;
  return bytes;
}

/** The entry of an id among those that the open transaction has staged. */
export function decodeStagedId(bytes: Uint8Array): StagedId {
  return {
    place: readU53(bytes),
    kind: bytes[8] & 1 ? "upsert" : "delete",
    isReplaced: (bytes[8] & 2) !== 0,
    growth: (bytes[9] - 1) as StagedId["growth"],
  };
}

/** Where an operation lies in the spool. */
export type Located = { place: number; length: number; checksum: number };

/** Bytes of an entry of the table `staged`. */
const locatedBytes = tables.staged.value.bytes;

function encodeLocated({ place, length, checksum }: Located): Uint8Array {
  const bytes = new Uint8Array(locatedBytes);
  writeU53(bytes, 0, place);
  writeU32LE(bytes, 8, length);
  writeU32LE(bytes, 12, checksum);
  return bytes;
}

/** An entry of the table `staged`. */
export function decodeLocated(bytes: Uint8Array): Located {
  return { place: readU53(bytes), length: readU32LE(bytes, 8), checksum: readU32LE(bytes, 12) };
}

/** A frame has more bytes than this only if it has a single operation. */
const frameBytesMax = 1024 * 1024;
/** Bytes of a frame before its operations. */
export const frameHeaderBytes = 8;

const spoolSeed = host.crc32(utf8("spool"));
const checksumAt = (place: number, bytes: Uint8Array): number =>
  host.crc32(bytes, host.crc32(u53Key(place), spoolSeed));

/** The limits for staging a batch. */
export type StageLimits = {
  /** Whether a live record has the id. */
  exists(id: Uint8Array): boolean;
  /** Whether one has it that the caller sees. */
  sees(id: Uint8Array): boolean;
  /** How many records the collection may still take; Infinity without max_vectors. */
  roomFor: number;
  maxVectors: number | null;
};

/** @throws vector_not_found, max_vectors_exceeded */
export function requireStageable(
  reader: Reader,
  entry: TransactionEntry,
  batch: Uint8Array,
  { exists, sees, roomFor, maxVectors }: StageLimits,
): void {
  for (const operation of readOperations(batch))
    if (operation.kind === "delete") requireDeletable(reader, operation.id, sees);
  if (Number.isFinite(roomFor)) {
    // Records written meanwhile may have taken the room. What adds none, as a deletion, is staged all the same: it may make room.
    const added = stagedGrowth(reader, batch, exists);
    const growth = entry.growth + added;
    if (added > 0 && growth > roomFor) throw tooManyVectors(maxVectors, growth - roomFor);
  }
}

/** What the records of the open transaction must be at its commit. */
export function* stagedConditions(reader: Reader): Generator<RecordCondition> {
  for (const [id, born] of reader.entries("conditions")) yield { id: id.slice(), born: readU53(born) };
}

/** Stages operations, and their conditions. @param exists whether a live record has the id */
export function stage(
  writer: Writer,
  entry: TransactionEntry,
  whole: Uint8Array,
  timeMs: number,
  exists: (id: Uint8Array) => boolean,
): void {
  invariant(entry.state === "open", `an operation of '${entry.id}', which is ${entry.state}, is staged`);
  for (const { id, born } of readConditions(whole)) writer.put("conditions", id.slice(), u53Key(born));
  const batch = operationsOf(whole);
  let from = 0;
  let to = 0;
  for (const { bytes } of readOperations(batch)) {
    if (to > from && to + bytes.length - from > frameBytesMax) {
      stageFrame(writer, entry, batch.subarray(from, to), exists);
      from = to;
    }
    to += bytes.length;
  }
  if (to > from) stageFrame(writer, entry, batch.subarray(from, to), exists);
  failpoint("stage:staged");
  entry.updatedMs = timeMs;
  entry.stagedBytes = (entry.stagedBytes ?? 0) + batch.length;
  writeTransaction(writer, entry);
}

function stageFrame(
  writer: Writer,
  entry: TransactionEntry,
  frame: Uint8Array,
  exists: (id: Uint8Array) => boolean,
): void {
  const at = entry.spoolBytes ?? 0;
  const header = new Uint8Array(frameHeaderBytes);
  writeU32LE(header, 0, frame.length);
  writeU32LE(header, 4, checksumAt(at, frame));
  writer.writeSpool(entry.sequence, at, [header, frame]);
  let place = at + frameHeaderBytes;
  for (const operation of readOperations(frame)) {
    stageOne(writer, entry, operation, place, exists(operation.id));
    place += operation.bytes.length;
  }
  entry.spoolBytes = place;
}

function requireDeletable(reader: Reader, id: Uint8Array, sees: (id: Uint8Array) => boolean): void {
  const staged = reader.get("stagedIds", id);
  if ((staged && decodeStagedId(staged).kind === "upsert") || sees(id)) return;
  const name = text(id);
  throw new QuiverError(
    "vector_not_found",
    `The vector '${name.slice(0, 80)}' is neither in the collection nor in the transaction, so it cannot be deleted.`,
    { vector_id: name },
  );
}

function growthOf(operation: Operation, present: boolean): StagedId["growth"] {
  if (operation.kind === "upsert") return present ? 0 : 1;
  return present ? -1 : 0;
}

/** By how much a batch would change the transaction's growth. */
function stagedGrowth(reader: Reader, batch: Uint8Array, exists: (id: Uint8Array) => boolean): number {
  const growths = new Map<string, number>();
  let before = 0;
  for (const operation of readOperations(batch)) {
    const name = text(operation.id);
    if (!growths.has(name)) {
      const staged = reader.get("stagedIds", operation.id);
      if (staged) before += decodeStagedId(staged).growth;
    }
    growths.set(name, growthOf(operation, exists(operation.id)));
  }
  let after = 0;
  for (const growth of growths.values()) after += growth;
  return after - before;
}

function stageOne(
  writer: Writer,
  entry: TransactionEntry,
  operation: Encoded,
  place: number,
  present: boolean,
): void {
  const { id, kind, bytes } = operation;
  const earlierBytes = writer.get("stagedIds", id);
  const earlier = earlierBytes && decodeStagedId(earlierBytes);
  if (earlier) entry.growth -= earlier.growth;
  else entry.staged++;
  if (entry.staged > limits.ordinalMax) throw new QuiverError("storage_full", "The transaction is full.");
  const growth = growthOf(operation, present);
  entry.growth += growth;
  if (kind === "upsert") entry.upserts++;
  else entry.deletes++;
  const first = earlier?.place ?? place;
  const isReplaced = earlier !== undefined;
  if (isReplaced) {
    const checksum = checksumAt(place, bytes);
    writer.put("staged", u53Key(first), encodeLocated({ place, length: bytes.length, checksum }));
  }
  failpoint("stage:operation");
  writer.put("stagedIds", id, encodeStagedId({ place: first, kind, isReplaced, growth }));
}

export function tooManyVectors(maxVectors: number | null, excess: number): QuiverError {
  return new QuiverError(
    "max_vectors_exceeded",
    `The operation would exceed the collection's max_vectors of ${maxVectors} by ${excess}. Nothing was changed; delete vectors first.`,
    { max_vectors: maxVectors, excess },
  );
}

/**
 * Applies all staged operations to a change. The caller publishes it and ends the transaction in the same
 * write. A delete of an id that is gone by now does nothing.
 * @throws data_corrupted
 */
export function applyStaged(writer: Writer, entry: TransactionEntry, change: Change): void {
  const spool = spoolOf(writer, entry.sequence);
  const hasReplaced = entry.upserts + entry.deletes > entry.staged;
  let applied = 0;
  for (const { place, operation } of spoolOperations(spool, entry.spoolBytes ?? 0)) {
    const last = hasReplaced ? lastOperation(writer, spool, operation, place) : operation;
    if (last === null) continue;
    applied++;
    if (last.kind === "upsert") change.upsert(last);
    else change.delete(last.id);
  }
  if (applied !== entry.staged)
    throw unreadable(`has ${applied} operations for ${entry.staged} ids`, entry.spoolBytes ?? 0);
}

/** The last operation on the id of an operation; null if another operation is the first one on the id. */
function lastOperation(writer: Writer, spool: ReadSpool, operation: Encoded, place: number): Encoded | null {
  const found = writer.get("stagedIds", operation.id);
  if (found === undefined) throw unreadable("has an operation on an id that is not staged", place);
  const staged = decodeStagedId(found);
  if (staged.place !== place) return null;
  if (!staged.isReplaced) return operation;
  const located = writer.get("staged", u53Key(place));
  if (located === undefined) throw unreadable("has a replaced operation without a later one", place);
  return operationAt(spool, decodeLocated(located));
}

/** Fills `into` with bytes of a spool; false if it ends before, or does not exist. */
export type ReadSpool = (at: number, into: Uint8Array) => boolean;

const spoolOf =
  (writer: Writer, spool: number): ReadSpool =>
  (at, into) =>
    writer.readSpool(spool, at, into);

/** All operations of a spool, with their places, as views that are valid until the next. @throws data_corrupted */
export function* spoolOperations(
  spool: ReadSpool,
  spoolBytes: number,
): Generator<{ place: number; operation: Encoded }> {
  const header = new Uint8Array(frameHeaderBytes);
  let buffer = new Uint8Array(0);
  for (let at = 0; at < spoolBytes; ) {
    const length = spool(at, header) ? readU32LE(header, 0) : 0;
    let place = at + frameHeaderBytes;
    if (length === 0 || place + length > spoolBytes) throw unreadable("has no whole frame", at);
    if (buffer.length < length)
      buffer = new Uint8Array(Math.max(length, Math.min(frameBytesMax, spoolBytes)));
    const frame = buffer.subarray(0, length);
    if (!spool(place, frame) || checksumAt(at, frame) !== readU32LE(header, 4))
      throw unreadable("has a frame that fails its checksum", at);
    for (const operation of readOperations(frame)) {
      yield { place, operation };
      place += operation.bytes.length;
    }
    at = place;
  }
}

/** One operation of a spool. @throws data_corrupted */
export function operationAt(spool: ReadSpool, { place, length, checksum }: Located): Encoded {
  const bytes = new Uint8Array(length);
  if (!spool(place, bytes) || checksumAt(place, bytes) !== checksum)
    throw unreadable("has an operation that fails its checksum", place);
  const [operation] = readOperations(bytes);
  return operation;
}

function unreadable(problem: string, place: number): QuiverError {
  return new QuiverError(
    "data_corrupted",
    `The spool of the transaction's operations ${problem} (at byte ${place}). Send the operations again in a new transaction.`,
    { table: "staged", key: toHex(u53Key(place)) },
  );
}
