// How does a tail become a run?
//
// List by list, in the order of terms, a bounded piece at a time, while searches go on in the tail, to which nothing is added any
// more. Records that were removed before are left out; those that are removed meanwhile are removed from the run when it takes the
// place of the tail.

import { invariant } from "../../base/invariant.ts";
import { absent } from "../ordinal-map.ts";
import type { Arena } from "./arena.ts";
import type { Run } from "./run.ts";
import { type RunPlan, RunWriter } from "./run-writer.ts";
import type { Tail } from "./tail.ts";

/** No record of the run. */
const gone = 0xffff_ffff;

export class Sealing {
  readonly tail: Tail<Float32Array | Uint32Array>;
  readonly #writer: RunWriter;
  /** By slot: the number of the record, or `gone`. */
  readonly #numbers: Uint32Array;
  /** Ascending. */
  readonly #terms: Uint32Array;
  #at = 0;
  readonly #records: Uint16Array;
  readonly #values: Float32Array | Uint32Array;
  readonly #removedLater: number[] = [];

  /**
   * @param tail of which some record is left
   * @returns undefined where the arena is too full
   */
  static begin(
    arena: Arena,
    tail: Tail<Float32Array | Uint32Array>,
    isText: boolean,
    how: Pick<RunPlan, "kind" | "levels" | "averageLength" | "amountOf">,
  ): Sealing | undefined {
    const numbers = new Uint32Array(tail.slotsEnd).fill(gone);
    const ordinals = new Uint32Array(tail.count);
    const lengths = new Uint32Array(isText ? tail.count : 0);
    let next = 0;
    for (let slot = 0; slot < tail.slotsEnd; slot++) {
      if (tail.ordinals.values[slot] === absent) continue;
      ordinals[next] = tail.ordinals.values[slot];
      if (isText) lengths[next] = tail.lengths.values[slot];
      numbers[slot] = next++;
    }
    const writer = RunWriter.begin(arena, {
      ...how,
      ordinals,
      lengths,
      listsMax: tail.lists.size,
      postingsMax: tail.postings.total,
    });
    return writer && new Sealing(tail, isText, writer, numbers);
  }

  private constructor(
    tail: Tail<Float32Array | Uint32Array>,
    isText: boolean,
    writer: RunWriter,
    numbers: Uint32Array,
  ) {
    this.tail = tail;
    this.#writer = writer;
    this.#numbers = numbers;
    this.#terms = Uint32Array.from(tail.lists.terms).sort();
    this.#records = new Uint16Array(tail.slotsEnd);
    this.#values = isText ? new Uint32Array(tail.slotsEnd) : new Float32Array(tail.slotsEnd);
  }

  /** A record of the tail is removed while it is being sealed. */
  remove(ordinal: number): void {
    this.#removedLater.push(ordinal);
  }

  /** Goes on for about so many postings. @returns whether all lists are written */
  step(postings: number): boolean {
    for (let budget = postings; budget > 0 && this.#at < this.#terms.length; )
      budget -= this.#writeList(this.#terms[this.#at++]) + 4;
    return this.#at === this.#terms.length;
  }

  /** The run. */
  finish(): Run {
    invariant(this.#at === this.#terms.length, "a tail is sealed whose lists are not all written");
    const run = this.#writer.finish();
    for (const ordinal of this.#removedLater) run.remove(run.recordOf(ordinal));
    return run;
  }

  /** @returns how many postings were read */
  #writeList(term: number): number {
    const { postings, lists } = this.tail;
    const read = postings.read(lists.get(term) as number);
    let count = 0;
    for (let i = 0; i < read.count; i++) {
      const record = this.#numbers[read.slots[i]];
      if (record === gone) continue;
      this.#records[count] = record;
      this.#values[count++] = read.values[i];
    }
    this.#writer.addList(term, count, this.#records, this.#values);
    return read.count;
  }
}
