// Which sparse vectors have the greatest dot product with a query?
//
// An inverted index: for each dimension, the records that have it and their weights. A search goes through the lists
// of the query's dimensions and adds up every record's dot product in f64: products of two f32 are exact there, and
// they are added in the ascending order of dimensions, so a score depends on the two vectors and nothing else. No f32
// input makes it overflow.
//
// A record is found when it shares a dimension with the query, be its score zero or negative.

import { GrowableTable, missing } from "../../base/growable-table.ts";
import { invariant } from "../../base/invariant.ts";
import { Accumulator } from "../accumulator.ts";
import { type Candidates, type Index, nothing, type Visible } from "../contract.ts";
import { absent } from "../ordinal-map.ts";
import { Postings } from "../postings.ts";
import { RecordTable } from "../record-table.ts";

/** Unique u32 dimensions, in any order, and their finite weights, side by side. Borrowed. */
export type SparseVector = {
  readonly indices: Uint32Array;
  readonly values: Float32Array;
};

/** A dimension that a query and a record share. `product` is `queryWeight * weight`, exact in f64. */
export type SparseMatch = {
  readonly dimension: number;
  readonly queryWeight: number;
  readonly weight: number;
  readonly product: number;
};

/** A query's dimension that some record has: its list and the query's weight. */
type QueryTerm = { readonly list: number; readonly weight: number };

// States of a record during a search.
const considered = 1;

export class SparseIndex implements Index {
  readonly #postings = new Postings(Float32Array);
  /** Dimension -> list. */
  readonly #lists = new GrowableTable();
  /** List -> dimension. */
  #dimensions: number[] = [];
  readonly #records = new RecordTable(this.#postings, (list) => this.#drop(list));
  readonly #accumulator = new Accumulator();

  get count(): number {
    return this.#records.count;
  }

  has(ordinal: number): boolean {
    return this.#records.slotOf(ordinal) !== absent;
  }

  /** Adds a record. A vector without entries is held and never found. */
  add(ordinal: number, indices: Uint32Array, values: Float32Array): void {
    assertSparse(indices, values);
    const slot = this.#records.add(ordinal, indices.length);
    for (let i = 0; i < indices.length; i++) this.#postings.append(this.#listOf(indices[i]), slot, values[i]);
  }

  /** Nothing to do: a closed record is found as before, and `visible` decides. */
  retire(_ordinal: number): void {}

  remove(ordinal: number): void {
    if (this.has(ordinal)) this.#records.remove(ordinal);
  }

  /**
   * The k records with the greatest dot products, with all ties at the boundary, of those that share a dimension
   * with the query.
   *
   * With `threshold` t > 0, at most 1, only *some* of these are considered: those with a posting whose |q_i * w| is at
   * least t times the greatest |q_i * w| of any posting of the query's dimensions, closed records' included. What is
   * considered is scored in full.
   */
  search(query: SparseVector, k: number, threshold: number, visible: Visible): Candidates {
    assertSparse(query.indices, query.values);
    invariant(threshold >= 0 && threshold <= 1, `the threshold ${threshold} is not in [0, 1]`);
    if (k <= 0) return nothing;
    const terms = this.#termsOf(query);
    this.#accumulator.begin(this.#records.slotsEnd);
    try {
      if (threshold > 0) this.#consider(terms, threshold);
      for (const term of terms) this.#accumulate(term, threshold === 0);
      return this.#accumulator.best(this.#records, k, considered, visible);
    } finally {
      this.#accumulator.end();
    }
  }

  get memoryBytes(): number {
    const parts = [this.#postings, this.#lists, this.#records, this.#accumulator];
    return parts.reduce((sum, part) => sum + part.memoryBytes, 8 * this.#dimensions.length);
  }

  close(): void {
    this.#postings.close();
    this.#records.close();
    for (const dimension of this.#dimensions) this.#lists.delete(dimension);
    this.#dimensions = [];
  }

  check(): void {
    this.#postings.check();
    this.#records.check();
    let postings = 0;
    for (const [dimension, list] of this.#lists.entries()) {
      invariant(
        this.#dimensions[list] === dimension,
        `list ${list} of dimension ${dimension} claims another, ${this.#dimensions[list]}`,
      );
      const length = this.#postings.lengthOf(list);
      invariant(length > 0, `dimension ${dimension} has an empty list`);
      postings += length;
      this.#records.checkList(list);
      const { count, values } = this.#postings.read(list);
      for (let i = 0; i < count; i++)
        invariant(Number.isFinite(values[i]), `dimension ${dimension} has a weight ${values[i]}`);
    }
    const { total } = this.#postings;
    invariant(postings === total, `the dimensions have ${postings} postings of ${total}`);
  }

  /** The query's dimensions that have lists, ascending. */
  #termsOf({ indices, values }: SparseVector): QueryTerm[] {
    const order = Uint32Array.from(indices.keys()).sort((a, b) => indices[a] - indices[b]);
    const terms: QueryTerm[] = [];
    for (const i of order) {
      const list = this.#lists.get(indices[i]);
      if (list !== missing) terms.push({ list, weight: values[i] });
    }
    return terms;
  }

  /** Marks the records that a posting gives reason to consider. */
  #consider(terms: readonly QueryTerm[], threshold: number): void {
    const { ordinals } = this.#records;
    let greatest = 0;
    for (const { list, weight } of terms) {
      const { count, slots, values } = this.#postings.read(list);
      for (let i = 0; i < count; i++) {
        const product = Math.abs(weight * values[i]);
        if (product > greatest && ordinals[slots[i]] !== absent) greatest = product;
      }
    }
    const limit = threshold * greatest;
    for (const { list, weight } of terms) {
      const { count, slots, values } = this.#postings.read(list);
      for (let i = 0; i < count; i++) {
        if (Math.abs(weight * values[i]) < limit) continue;
        if (this.#accumulator.states[slots[i]] === 0) this.#accumulator.touch(slots[i], considered);
      }
    }
  }

  /** Adds one dimension's products to the scores; of all records, or of those already considered. */
  #accumulate({ list, weight }: QueryTerm, considerAll: boolean): void {
    const accumulator = this.#accumulator;
    const { states, scores } = accumulator;
    const { count, slots, values } = this.#postings.read(list);
    for (let i = 0; i < count; i++) {
      const slot = slots[i];
      if (states[slot] === 0) {
        if (!considerAll) continue;
        accumulator.touch(slot, considered);
      }
      scores[slot] += weight * values[i];
    }
  }

  #listOf(dimension: number): number {
    let list = this.#lists.get(dimension);
    if (list === missing) {
      list = this.#postings.create();
      this.#lists.set(dimension, list);
      this.#dimensions[list] = dimension;
    }
    return list;
  }

  /** Forgets a dimension that no record has any more. */
  #drop(list: number): void {
    this.#lists.delete(this.#dimensions[list]);
    this.#postings.destroy(list);
  }

  /**
   * What the scores of a search are made of. Added up in the order of the calls, beginning with 0, a record's products
   * are its score, bit for bit.
   * @param ordinals records that are held, each once
   * @param onMatch told each dimension that a record shares with the query, and the record's place in `ordinals`; of one
   * record by ascending dimension. What it throws ends the call
   */
  explain(
    ordinals: readonly number[],
    query: SparseVector,
    onMatch: (at: number, match: SparseMatch) => void,
  ): void {
    const places = new Map(ordinals.map((ordinal, at) => [this.#records.slotOf(ordinal), at]));
    for (const { list, weight: queryWeight } of this.#termsOf(query)) {
      const dimension = this.#dimensions[list];
      const { count, slots, values } = this.#postings.read(list);
      for (let i = 0; i < count; i++) {
        const at = places.get(slots[i]);
        if (at === undefined) continue;
        onMatch(at, { dimension, queryWeight, weight: values[i], product: queryWeight * values[i] });
      }
    }
  }
}

function assertSparse(indices: Uint32Array, values: Float32Array): void {
  invariant(indices.length === values.length, `${indices.length} dimensions have ${values.length} weights`);
  for (let i = 0; i < values.length; i++) {
    // The message is made only where it is needed: this runs for every weight.
    if (!Number.isFinite(values[i]))
      invariant(false, `the weight of dimension ${indices[i]} is ${values[i]}`);
  }
}
