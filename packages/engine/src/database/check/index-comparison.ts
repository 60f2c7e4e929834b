// Do the inverted indexes in memory agree with the records of a view?
//
// The comparison runs in time slices, because these indexes belong to the request thread.

import { isQuiverError } from "@quiverdb/protocol/errors";
import type { Finding } from "@quiverdb/protocol/shapes/check";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { readU32Key } from "../../base/bytes.ts";
import type { Task } from "../../base/scheduler.ts";
import type { Steps } from "../../base/steps.ts";
import { RecordReader } from "../../collection/record.ts";
import { ordinalKey } from "../../collection/tables.ts";
import type { PostingHashes, StoredContent } from "../../index/kind.ts";
import { kindNamed } from "../../index/registry.ts";
import type { View } from "../../views/view.ts";

/** Keys read at a time. */
const keysPerRead = 64;
/** Attempts to compare an index whose segments are merged meanwhile. */
const attemptsMax = 10;

/**
 * Compares indexes of a view with its records.
 * @param view pinned by the caller
 * @param task the slices; its interest ends when the collection closes
 * @returns the kinds that were compared; without an index that was merged during every attempt
 */
export async function comparePostings(
  view: View,
  kinds: readonly IndexKind[],
  find: (finding: Finding) => void,
  task: Task,
): Promise<IndexKind[]> {
  const compared: IndexKind[] = [];
  for (const kind of kinds) {
    const index = view.indexes[kind];
    const postings = index && kindNamed(kind).postings?.(index);
    if (postings === undefined) continue;
    // While the view is pinned, the index holds all records that the view sees. Other records are skipped.
    const sees = (ordinal: number) => view.visible?.(ordinal) ?? true;
    let differing: number[] | undefined;
    for (let attempt = 0; attempt < attemptsMax && differing === undefined; attempt++)
      differing = await task.finish(differingOrdinals(postings, sees, recordsOf(view)));
    if (differing === undefined) continue;
    compared.push(kind);
    for (const ordinal of differing) find(findingOf(view, kind, ordinal));
  }
  return compared;
}

/** Borrowed: the records of a view, by ordinal. Other reads may come between two of them. */
function* recordsOf(view: View): Generator<[ordinal: number, record: RecordReader | undefined]> {
  for (let from = 0; ; ) {
    const keys = [...view.readTxn.keys("records", { start: ordinalKey(from), limit: keysPerRead })];
    if (keys.length === 0) return;
    for (const key of keys) yield [readU32Key(key), recordAt(view, key)];
    from = readU32Key(keys[keys.length - 1]) + 1;
  }
}

/** Undefined for a damaged record, which is a finding of its own. */
function recordAt(view: View, key: Uint8Array): RecordReader | undefined {
  try {
    const stored = view.readTxn.get("records", key);
    return stored && new RecordReader(stored);
  } catch (error) {
    if (!isQuiverError(error, "data_corrupted")) throw error;
    return undefined;
  }
}

function findingOf(view: View, kind: IndexKind, ordinal: number): Finding {
  const { version } = view;
  const id = recordAt(view, ordinalKey(ordinal))?.id;
  const finding = { kind: "index", derived: true, ordinal, version } as const;
  if (id === undefined) {
    const message = `The ${kind} index has postings of ordinal ${ordinal}, which version ${version} does not have.`;
    return { ...finding, message };
  }
  const message = `The postings of the record '${id}' in the ${kind} index are not those of the record.`;
  return { ...finding, record_id: id, message };
}

// ---- Does an inverted index have exactly the postings of its records?
//
// `quiver check` answers this for a user who doubts the results: searches of an index that lacks a posting miss a record silently, and
// nothing else would show it.
//
// For each record, the comparison sums a hash of every posting (index/inverted/check.ts); the order does not matter. Postings of
// the index are added and those of the record are subtracted. A sum that is not zero at the end names a record that differs.

/** Records read in one step. */
const recordsPerStep = 16;

/**
 * The ordinals whose postings are not those of their record, ascending; undefined if lists were moved meanwhile.
 * @param sees whether an ordinal of the index is compared
 * @param records all records that the index should have; an unreadable one is undefined, and is not compared
 */
export function* differingOrdinals(
  postings: PostingHashes,
  sees: (ordinal: number) => boolean,
  records: Iterable<readonly [ordinal: number, record: StoredContent | undefined]>,
): Steps<number[] | undefined> {
  const sums = new Sums();
  const isWhole = yield* postings.walk((ordinal, hash) => {
    if (sees(ordinal)) sums.add(ordinal, hash);
  });
  if (!isWhole) return undefined;
  let read = 0;
  for (const [ordinal, record] of records) {
    if (record === undefined) sums.forget(ordinal);
    else for (const hash of postings.hashesOf(record)) sums.add(ordinal, -hash);
    if (++read % recordsPerStep === 0) yield;
  }
  return [...sums.notZero()].sort((a, b) => a - b);
}

/** A sum for each ordinal. */
class Sums {
  readonly #chunks = new Map<number, Uint32Array>();

  add(ordinal: number, hash: number): void {
    const number = ordinal >>> 16;
    let chunk = this.#chunks.get(number);
    if (chunk === undefined) {
      chunk = new Uint32Array(65_536);
      this.#chunks.set(number, chunk);
    }
    chunk[ordinal & 0xffff] += hash;
  }

  forget(ordinal: number): void {
    const chunk = this.#chunks.get(ordinal >>> 16);
    if (chunk !== undefined) chunk[ordinal & 0xffff] = 0;
  }

  *notZero(): Generator<number> {
    for (const [number, chunk] of this.#chunks)
      for (let at = 0; at < chunk.length; at++) if (chunk[at] !== 0) yield number * 65_536 + at;
  }
}
