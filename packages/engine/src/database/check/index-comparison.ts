// Do the inverted indexes in memory match the records of a view?
//
// They are compared by sums (posting-sums.ts), in time slices, because the request thread owns them.

import type { Finding } from "@quiver/protocol/shapes/check";
import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import { readU32Key } from "../../base/bytes.ts";
import { Task } from "../../base/scheduler.ts";
import { RecordReader } from "../../collection/record.ts";
import { ordinalKey } from "../../collection/tables.ts";
import type { Index } from "../../index/contract.ts";
import type { PostingHashes } from "../../index/kind.ts";
import { kindNamed } from "../../index/registry.ts";
import type { View } from "../../runtime/view.ts";
import { PostingSums } from "./posting-sums.ts";

/** Records read between two checks of the clock. */
const recordsPerLook = 16;
/** How often the comparison of an index is restarted because of merges. */
const attemptsMax = 10;

/**
 * Compares indexes of a view with its records.
 * @param view pinned by the caller
 * @param assertGoOn throws when the collection closes
 * @returns the kinds that were compared; one that was merged all the time is not among them
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
    // Records that the view sees stay in the index as long as the view is pinned; others are skipped.
    const walk = side.walk((ordinal, hash) => {
      if (view.visible?.(ordinal) ?? true) sums.add(ordinal, hash);
    });
    if (!(await slices.run(walk))) continue;
    await slices.run(subtractRecords(view, side, sums));
    for (const ordinal of sums.notZero()) {
      const stored = view.snapshot.get("records", ordinalKey(ordinal));
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
    for (const [key, stored] of view.snapshot.entries("records", {
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
