// Does the checkpoint of an index agree with the records?
//
// A user whose searches miss records learns from `quiver check` whether an index is to blame, and that nothing is lost: it can be rebuilt.
//
// The check verifies the checksums of the file, restores the index from it as a start would, and removes the records that were closed
// since. Then a dense index compares its graph with the stored vectors: codes, links, levels, and whether every node can be reached. An
// inverted index proves its invariants, and its postings are compared with the records (index-comparison.ts). A checkpoint of another
// configuration or format, or of a version that the log no longer contains, is not damage: a start does not use it.

import { existsSync } from "node:fs";
import { deserialize } from "node:v8";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { readU32Key, toHex } from "../../base/bytes.ts";
import { invariant } from "../../base/invariant.ts";
import { finishAtOnce } from "../../base/steps.ts";
import type { IndexDefinitions } from "../../collection/apply.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import { RecordReader } from "../../collection/record.ts";
import { ordinalKey, versionKey } from "../../collection/tables.ts";
import { decodeVersion } from "../../collection/versions.ts";
import { InPlaceBuilders } from "../../index/builders.ts";
import type { CheckpointMeta } from "../../index/checkpoint-adapter.ts";
import type { Index } from "../../index/contract.ts";
import type { Kind } from "../../index/kind.ts";
import { kindNamed } from "../../index/registry.ts";
import { CheckpointReader, OtherCheckpointFormat } from "../../process/checkpoint-file.ts";
import type { LmdbFile } from "../../storage/lmdb-file.ts";
import { checkpointOf } from "../updaters.ts";
import { differingOrdinals } from "./index-comparison.ts";

/** The content of a collection's store, read from its file. */
export type Truth = {
  readonly file: LmdbFile;
  readonly definition: CollectionDefinition;
  readonly indexes: IndexDefinitions;
};

/**
 * Compares a checkpoint with the records of a collection.
 * @returns the problem; undefined if there is none; false if a start would use no checkpoint
 */
export async function checkpointProblem(
  path: string,
  kind: IndexKind,
  truth: Truth,
): Promise<string | undefined | false> {
  if (!existsSync(path)) return false;
  try {
    const reader = new CheckpointReader(path);
    try {
      return await compare(reader, kind, truth);
    } finally {
      reader.close();
    }
  } catch (error) {
    if (error instanceof OtherCheckpointFormat) return false;
    return (error as Error).message;
  }
}

async function compare(
  reader: CheckpointReader,
  kind: IndexKind,
  { file, definition, indexes }: Truth,
): Promise<undefined | false> {
  const nothing = () => undefined;
  const { configuration, form } = checkpointOf(definition, kind, indexes, {
    memoryBudgetBytes: undefined,
    builders: new InPlaceBuilders(),
    // The check examines the checkpoint as it is, so the index may not rebuild anything.
    measures: false,
    readVector: nothing,
    mayTake: () => true,
    onProgress: nothing,
    onNotice: nothing,
    wake: nothing,
  });
  const bytes = new Uint8Array(reader.lengthOf(0));
  reader.read(0, bytes);
  // The other parts are verified even if a start would not use the checkpoint.
  for (let part = 1; part < reader.partCount; part++)
    reader.read(part, new Uint8Array(reader.lengthOf(part)));
  const meta = reader.meta as CheckpointMeta;
  if (meta.configuration !== configuration) return false;
  const entry = file.get("versions", versionKey(meta.version));
  // A version that the log no longer contains cannot be compared; a start accepts it, too.
  if (entry !== undefined && toHex(decodeVersion(meta.version, entry).hash) !== meta.hash) return false;
  const state = deserialize(bytes) as unknown;
  const index = await form.restored(state, async (images) => {
    invariant(reader.partCount === images.length + 1, `the checkpoint has ${reader.partCount - 1} images`);
    for (const [i, image] of images.entries()) reader.read(i + 1, image);
  });
  try {
    compareIndex(kindNamed(kind), index, form.endOf(state), file);
  } finally {
    index.close();
  }
  return undefined;
}

/** Removes closed records from an index. @param has whether an ordinal below `end` is live */
function takeOutClosed(index: Index, end: number, live: Iterable<number>): void {
  let at = 0;
  const upTo = (ordinal: number) => {
    for (; at < Math.min(ordinal, end); at++) if (index.has(at)) index.remove(at);
  };
  for (const ordinal of live) {
    upTo(ordinal);
    at = ordinal + 1;
  }
  upTo(end);
}

function* ordinalsOf(file: LmdbFile, table: string, end: number): Generator<number> {
  for (const { key } of file.entries(table, false)) {
    const ordinal = readU32Key(key);
    if (ordinal >= end) return;
    yield ordinal;
  }
}

function compareIndex(kind: Kind, index: Index, end: number, file: LmdbFile): void {
  takeOutClosed(index, end, ordinalsOf(file, kind.table, end));
  if (kind.prove !== undefined) {
    assertHolds(index, ordinalsOf(file, kind.table, end));
    kind.prove(index, (ordinal) => vectorIn(file, ordinal));
  } else index.check();
  if (kind.postings === undefined) return;
  const differing = finishAtOnce(differingOrdinals(kind.postings(index), () => true, recordsIn(file, end)));
  invariant(differing?.length === 0, `the postings of ordinal ${differing?.[0]} are not those of its record`);
}

/** Proves that the index has every record of the table, and no other. */
function assertHolds(index: Index, ordinals: Iterable<number>): void {
  let live = 0;
  for (const ordinal of ordinals) {
    live++;
    invariant(index.has(ordinal), `the record of ordinal ${ordinal} is not in the index`);
  }
  invariant(index.count === live, `the index has ${index.count} records; expected are ${live}`);
}

function vectorIn(file: LmdbFile, ordinal: number): Uint8Array {
  const vector = file.get("dense", ordinalKey(ordinal));
  invariant(vector !== undefined, `the vector of ordinal ${ordinal} is missing or damaged`);
  return vector.slice();
}

/** The records of ordinals below `end`. A damaged one is a finding of its own, and is not compared. */
function* recordsIn(
  file: LmdbFile,
  end: number,
): Generator<[ordinal: number, record: RecordReader | undefined]> {
  for (const [key, record] of file.payloads("records")) {
    const ordinal = readU32Key(key);
    if (ordinal >= end) return;
    yield [ordinal, record && new RecordReader(record)];
  }
}
