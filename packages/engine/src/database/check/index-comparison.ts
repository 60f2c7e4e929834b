// Do the inverted indexes in memory agree with the records of a view?
//
// The comparison uses sums of hashes (posting-sums.ts). It runs in time slices, because these indexes belong to the request thread.

import type { Finding } from "@quiver/protocol/shapes/check";
import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import { readU32Key } from "../../base/bytes.ts";
import { Task } from "../../base/scheduler.ts";
import { RecordReader } from "../../collection/record-reader.ts";
import { ordinalKey } from "../../collection/tables.ts";
import type { Index } from "../../index/contract.ts";
import type { PostingHashes } from "../../index/kind.ts";
import { kindNamed } from "../../index/registry.ts";
import type { View } from "../../runtime/view.ts";
import { PostingSums } from "./posting-sums.ts";

/** Records read between two checks of the clock. */
const recordsPerLook = 16;
/** Attempts to compare an index whose segments are merged meanwhile. */
const attemptsMax = 10;

/**
 * Compares indexes of a view with its records.
 * @param view pinned by the caller
 * @param assertGoOn throws when the collection closes
 * @returns the kinds that were compared; without an index that was merged during every attempt
 */
export async function comparePostings(
  view: View,
  kinds: readonly IndexKind[],
  find: (finding: Finding) => void,
  assertGoOn: () => void,
): Promise<IndexKind[]> {
  const compared: IndexKind[] = [];
  for (const kind of kinds) {
    const index: Index | undefined = view.indexes[kind];
    const postings = index && kindNamed(kind).postings?.(index);
    if (postings && (await compare(view, kind, postings, find, assertGoOn))) compared.push(kind);
  }
  return compared;
}

async function compare(
  view: View,
  name: string,
  side: PostingHashes,
  find: (finding: Finding) => void,
  assertGoOn: () => void,
): Promise<boolean> {
  const slices = new Slices(assertGoOn);
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const sums = new PostingSums();
    // While the view is pinned, the index holds all records that the view sees. Other records are skipped.
    const walk = side.walk((ordinal, hash) => {
      if (view.visible?.(ordinal) ?? true) sums.add(ordinal, hash);
    });
    if (!(await slices.run(walk))) continue;
    await slices.run(subtractRecords(view, side, sums));
    for (const ordinal of sums.notZero()) {
      const stored = view.readTxn.get("records", ordinalKey(ordinal));
      const id = stored && new RecordReader(stored).id;
      find({
        kind: "index",
        derived: true,
        ordinal,
        version: view.version,
        ...(id !== undefined && { record_id: id }),
        message:
          id === undefined
            ? `The ${name} index has postings of ordinal ${ordinal}, which version ${view.version} does not have.`
            : `The postings of the record '${id}' in the ${name} index are not those of the record.`,
      });
    }
    return true;
  }
  return false;
}

function* subtractRecords(view: View, side: PostingHashes, sums: PostingSums): Generator<void, boolean> {
  let from = 0;
  for (;;) {
    let read = 0;
    for (const [key, stored] of view.readTxn.entries("records", {
      start: ordinalKey(from),
      limit: recordsPerLook,
    })) {
      const ordinal = readU32Key(key);
      for (const hash of side.hashesOf(new RecordReader(stored))) sums.add(ordinal, -hash);
      from = ordinal + 1;
      read++;
    }
    if (read === 0) return true;
    yield;
  }
}

/** Runs generators in time slices of the background. */
class Slices {
  readonly #assertGoOn: () => void;
  readonly #task: Task;

  constructor(assertGoOn: () => void) {
    this.#assertGoOn = assertGoOn;
    this.#task = new Task({ key: "check" });
  }

  async run<T>(steps: Generator<void, T>): Promise<T> {
    for (;;) {
      const step = steps.next();
      if (step.done) return step.value;
      if (!this.#task.isOver()) continue;
      await this.#task.slice();
      this.#assertGoOn();
    }
  }
}
