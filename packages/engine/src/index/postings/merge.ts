// How do several runs become one?
//
// List by list, in the order of terms, a bounded piece at a time, while searches go on in the old runs. Records that were
// removed before are left out; those that are removed meanwhile are removed from the new run when it takes its place.

import { kinds } from "@quiver/kernels/postings";
import type { Arena } from "./arena.ts";
import type { Run } from "./run.ts";
import { type AmountOf, RunWriter } from "./run-writer.ts";

/** No record of the new run. */
const gone = 0xffff_ffff;

export class Merge {
  /** Neighbours, by ascending ordinals. */
  readonly sources: readonly Run[];
  readonly #writer: RunWriter;
  /** Of each source: the new number of a record, or `gone`. */
  readonly #renumbered: readonly Uint32Array[];
  /** Of each source: the list that comes next. */
  readonly #at: number[];
  #records = new Uint16Array(1_024);
  #values: Float32Array | Uint32Array;
  readonly #removedLater: number[] = [];

  /** @returns undefined where the arena is too full. @param sources of which some record is left */
  static begin(
    arena: Arena,
    sources: readonly Run[],
    averageLength: number,
    amountOf: AmountOf,
  ): Merge | undefined {
    const count = sources.reduce((sum, run) => sum + run.count, 0);
    const isText = sources[0].kind !== kinds.sparse;
    const ordinals = new Uint32Array(count);
    const lengths = new Uint32Array(isText ? count : 0);
    const renumbered: Uint32Array[] = [];
    let next = 0;
    for (const run of sources) {
      const numbers = new Uint32Array(run.recordCount).fill(gone);
      for (let record = 0; record < run.recordCount; record++) {
        if (run.isRemoved(record)) continue;
        ordinals[next] = run.ordinals[record];
        if (isText) lengths[next] = run.lengths[record];
        numbers[record] = next++;
      }
      renumbered.push(numbers);
    }
    const writer = RunWriter.begin(arena, {
      // A frequency that needs four bytes makes the run wide.
      kind: Math.max(...sources.map((run) => run.kind)),
      levels: sources[0].levels,
      averageLength,
      amountOf,
      ordinals,
      lengths,
      listsMax: countTerms(sources),
      postingsMax: sources.reduce((sum, run) => sum + run.postings, 0),
    });
    return writer && new Merge(sources, writer, renumbered, isText);
  }

  private constructor(
    sources: readonly Run[],
    writer: RunWriter,
    renumbered: readonly Uint32Array[],
    isText: boolean,
  ) {
    this.sources = sources;
    this.#writer = writer;
    this.#renumbered = renumbered;
    this.#at = sources.map(() => 0);
    this.#values = isText ? new Uint32Array(1_024) : new Float32Array(1_024);
  }

  /** A record of a source is removed while the merge is on. */
  remove(ordinal: number): void {
    this.#removedLater.push(ordinal);
  }

  /** Goes on for about so many postings. @returns whether all lists are written */
  step(postings: number): boolean {
    for (let budget = postings; budget > 0; ) {
      const term = this.#nextTerm();
      if (term === undefined) return true;
      budget -= this.#mergeList(term) + 4;
    }
    return this.#nextTerm() === undefined;
  }

  /** The new run. */
  finish(): Run {
    const run = this.#writer.finish();
    for (const ordinal of this.#removedLater) run.remove(run.recordOf(ordinal));
    return run;
  }

  #nextTerm(): number | undefined {
    let least: number | undefined;
    for (const [i, run] of this.sources.entries()) {
      const at = this.#at[i];
      if (at < run.listCount && (least === undefined || run.terms[at] < least)) least = run.terms[at];
    }
    return least;
  }

  /** @returns how many postings were read */
  #mergeList(term: number): number {
    let read = 0;
    for (const [i, run] of this.sources.entries())
      if (run.terms[this.#at[i]] === term) read += run.countOf(this.#at[i]);
    this.#reserve(read);
    let count = 0;
    for (const [i, run] of this.sources.entries()) {
      const list = this.#at[i];
      if (run.terms[list] !== term) continue;
      this.#at[i]++;
      count = this.#append(run, list, this.#renumbered[i], count);
    }
    this.#writer.addList(term, count, this.#records, this.#values);
    return read;
  }

  /** Appends what is left of a list to the `count` postings that are there; returns how many there are then. */
  #append(run: Run, list: number, renumbered: Uint32Array, count: number): number {
    const records = this.#records;
    const values = this.#values;
    const length = run.countOf(list);
    const numbers = run.arena.halves;
    const first = run.recordsAt(list);
    const exact = run.exactColumn;
    const exactAt = run.exactAt(list);
    let end = count;
    for (let i = 0; i < length; i++) {
      const record = renumbered[numbers[first + i]];
      if (record === gone) continue;
      records[end] = record;
      values[end++] = exact[exactAt + i];
    }
    return end;
  }

  #reserve(count: number): void {
    if (this.#records.length >= count) return;
    this.#records = new Uint16Array(2 * count);
    const Values = this.#values.constructor as new (length: number) => Float32Array | Uint32Array;
    this.#values = new Values(2 * count);
  }
}

/** Different terms in all runs. */
function countTerms(runs: readonly Run[]): number {
  if (runs.length === 1) return runs[0].listCount;
  const at = runs.map(() => 0);
  for (let count = 0; ; count++) {
    let least = Number.POSITIVE_INFINITY;
    for (let i = 0; i < runs.length; i++)
      if (at[i] < runs[i].listCount) least = Math.min(least, runs[i].terms[at[i]]);
    if (least === Number.POSITIVE_INFINITY) return count;
    for (let i = 0; i < runs.length; i++) if (runs[i].terms[at[i]] === least) at[i]++;
  }
}
