// What has the open transaction staged, and how does its commit apply it?
//
//   staged[position]   an operation (record.ts)         stagedIds[id]   its position and its kind
//
// Each id has one position: the first operation on an id gets the next one, and a later operation on it replaces the first. So repeating
// a batch changes nothing, not even the order of the commit. Operations are read and applied one at a time: a transaction may be far
// larger than memory.

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import { readU32Key, text, toHex, u32Key } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import type { Change } from "./change.ts";
import { type Encoded, type Operation, readOperations } from "./record.ts";
import { type TransactionEntry, writeTransaction } from "./transaction.ts";

/** The operation on an id, and its position. `growth`: by how much it would change the number of live records, judged when staged. */
export type StagedId = { position: number; kind: "upsert" | "delete"; growth: -1 | 0 | 1 };

function encodeStagedId({ position, kind, growth }: StagedId): Uint8Array {
  invariant(
    position >= 0 && position <= 0xffff_ffff && Math.abs(growth) <= 1,
    () => `a staged operation has position ${position} and growth ${growth}`,
  );
  const bytes = new Uint8Array(6);
  bytes.set(u32Key(position), 0);
  bytes[4] = kind === "upsert" ? 1 : 0;
  bytes[5] = growth + 1;
  return bytes;
}

/** The entry of an id among those that the open transaction has staged. */
export function decodeStagedId(bytes: Uint8Array): StagedId {
  return {
    position: readU32Key(bytes),
    kind: bytes[4] === 1 ? "upsert" : "delete",
    growth: (bytes[5] - 1) as StagedId["growth"],
  };
}

/** The limits for staging a batch. */
export type StageLimits = {
  /** Whether a live record has the id. */
  exists(id: Uint8Array): boolean;
  /** How many records the collection may still take; Infinity without max_vectors. */
  roomFor: number;
  maxVectors: number | null;
};

/** @throws vector_not_found, max_vectors_exceeded */
export function requireStageable(
  reader: Reader,
  entry: TransactionEntry,
  batch: Uint8Array,
  { exists, roomFor, maxVectors }: StageLimits,
): void {
  for (const operation of readOperations(batch))
    if (operation.kind === "delete") requireDeletable(reader, operation.id, exists);
  if (Number.isFinite(roomFor)) {
    const growth = entry.growth + stagedGrowth(reader, batch, exists);
    if (growth > roomFor) throw tooManyVectors(maxVectors, growth - roomFor);
  }
}

/** Stages operations. @param exists whether a live record has the id */
export function stage(
  writer: Writer,
  entry: TransactionEntry,
  batch: Uint8Array,
  timeMs: number,
  exists: (id: Uint8Array) => boolean,
): void {
  invariant(entry.state === "open", `an operation of '${entry.id}', which is ${entry.state}, is staged`);
  for (const operation of readOperations(batch)) stageOne(writer, entry, operation, exists(operation.id));
  failpoint("stage:staged");
  entry.updatedMs = timeMs;
  entry.stagedBytes = (entry.stagedBytes ?? 0) + batch.length;
  writeTransaction(writer, entry);
}

function requireDeletable(reader: Reader, id: Uint8Array, exists: (id: Uint8Array) => boolean): void {
  const staged = reader.get("stagedIds", id);
  if ((staged && decodeStagedId(staged).kind === "upsert") || exists(id)) return;
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

function stageOne(writer: Writer, entry: TransactionEntry, operation: Encoded, present: boolean): void {
  const earlierBytes = writer.get("stagedIds", operation.id);
  const earlier = earlierBytes && decodeStagedId(earlierBytes);
  if (earlier) entry.growth -= earlier.growth;
  if (entry.staged > limits.ordinalMax) throw new QuiverError("storage_full", "The transaction is full.");
  const position = earlier ? earlier.position : entry.staged++;
  invariant(
    position < entry.staged,
    () => `an operation of '${entry.id}' has position ${position} of ${entry.staged}`,
  );
  const growth = growthOf(operation, present);
  entry.growth += growth;
  if (operation.kind === "upsert") entry.upserts++;
  else entry.deletes++;
  writer.put("staged", u32Key(position), operation.bytes);
  failpoint("stage:operation");
  writer.put("stagedIds", operation.id, encodeStagedId({ position, kind: operation.kind, growth }));
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
 */
export function applyStaged(writer: Writer, entry: TransactionEntry, change: Change): void {
  for (let position = 0; position < entry.staged; position++) {
    const bytes = writer.get("staged", u32Key(position));
    if (bytes === undefined)
      throw new QuiverError(
        "data_corrupted",
        `Position ${position} of ${entry.staged} of the transaction's operations is missing. Send the operations again in a new one.`,
        { table: "staged", key: toHex(u32Key(position)) },
      );
    // Copy the bytes: they are valid only until the next call on the store, and applying an operation makes many calls.
    let operations = 0;
    for (const operation of readOperations(bytes.slice())) {
      operations++;
      if (operation.kind === "upsert") change.upsert(operation);
      else change.delete(operation.id);
    }
    invariant(operations === 1, () => `position ${position} of '${entry.id}' has ${operations} operations`);
  }
}
