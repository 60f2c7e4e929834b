// Are the inverted indexes in memory what the records of a view say?
//
// They are compared by sums (posting-sums.ts), in slices, for they are the request thread's.

import type { Finding } from "@quiver/protocol/shapes/check";
import { readU32Key } from "../../base/bytes.ts";
import { Task } from "../../base/scheduler.ts";
import { RecordReader } from "../../collection/record.ts";
import { ordinalKey } from "../../collection/tables.ts";
import type { View } from "../../runtime/view.ts";
import { type PostingSide, PostingSums, sparsePostings, textPostings } from "./posting-sums.ts";

/** Records read between two looks at the clock. */
const recordsPerLook = 16;
/** How often an index that is merged meanwhile is begun anew. */
const attemptsMax = 10;

/**
 * Compares the inverted indexes of a view with its records.
 * @param view pinned by the caller
 * @param assertGoOn throws when the collection closes
 * @returns the kinds that were compared; one that was merged all the time is not among them
 */
export async function compareInverted(
  view: View,
  find: (finding: Finding) => void,
  assertGoOn: () => void,
): Promise<string[]> {
  const compared: string[] = [];
  const { sparse, "tf-idf": text } = view.indexes;
  if (sparse && (await compare(view, "sparse", sparsePostings(sparse), find, assertGoOn)))
    compared.push("sparse");
  if (text && (await compare(view, "text", textPostings(text), find, assertGoOn))) compared.push("tf-idf");
  return compared;
}

async function compare(
  view: View,
  name: string,
  side: PostingSide,
  find: (finding: Finding) => void,
  assertGoOn: () => void,
): Promise<boolean> {
  const slices = new Slices(assertGoOn);
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const sums = new PostingSums();
    // What the view sees is held in the index for as long as the view is pinned; what it does not see is left out.
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

function* subtractRecords(view: View, side: PostingSide, sums: PostingSums): Generator<void, boolean> {
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
