// How fast is a plain JavaScript loop over an inverted index, and which results are exact?
//
// The rival that anyone could write in an afternoon: postings list by list in flat arrays, every posting of every term of the query scored
// in f64, the best kept in a small sorted array. It skips nothing, so its results are the ground truth for the others.
//
// The rows that a query touches are either listed on the way, or found by a scan of all rows afterwards. Listing needs a test per posting
// whether its row is new, which branch prediction cannot predict: it makes long queries half as slow again, but it is the faster way for
// short queries over many rows. Each query uses the faster way.

/** Scores within this relative distance of the k-th tie with it, because engines that sum in f32 cannot distinguish them. */
const tie = 1e-6;

/** The correct results of one query. */
export type Accepted = {
  /** Number of results, at most k. */
  readonly count: number;
  /** All rows that score as much as the last of them, or more. */
  readonly ids: ReadonlySet<number>;
};

/** Rows are listed if the number of a query's postings is below this fraction of the rows. */
const listedShare = 0.3;

/** The best rows so far, best first. */
class Best {
  readonly ids: number[] = [];
  readonly scores: number[] = [];
  /** What a score must exceed. */
  floor = 0;
  readonly #k: number;

  constructor(k: number) {
    this.#k = k;
  }

  /** Takes a row with a score above the floor. */
  take(row: number, score: number): void {
    const { ids, scores } = this;
    // With so few entries, shifting them is faster than a heap.
    let at = Math.min(scores.length, this.#k - 1);
    for (; at > 0 && scores[at - 1] < score; at--) {
      scores[at] = scores[at - 1];
      ids[at] = ids[at - 1];
    }
    scores[at] = score;
    ids[at] = row;
    if (scores.length === this.#k) this.floor = scores[this.#k - 1];
  }
}

/** A term of a query: its list, and the weight of its postings' values. */
export type QueryTerm = { readonly list: number; readonly weight: number };

function grown<T extends Uint32Array | Float32Array>(values: T): T {
  const larger = new (values.constructor as new (length: number) => T)(2 * values.length);
  larger.set(values);
  return larger;
}

export class PlainIndex {
  // Appended postings, until `finish` sorts them.
  #lists = new Uint32Array(1 << 20);
  #rows = new Uint32Array(1 << 20);
  #values = new Float32Array(1 << 20);
  #count = 0;
  #listCount = 0;
  /** Where each list begins; the last entry is where all end. */
  protected offsets = new Uint32Array(1);
  /** By posting: its row, ascending within a list, and its value. */
  protected rows = new Uint32Array(0);
  protected values = new Float32Array(0);
  /** By row: 0 while nothing is added. */
  protected readonly scores: Float64Array;
  readonly #touched: Uint32Array;

  constructor(rowCount: number) {
    this.scores = new Float64Array(rowCount);
    this.#touched = new Uint32Array(rowCount);
  }

  /** Adds a posting; rows come in ascending order, values are greater than 0. */
  append(list: number, row: number, value: number): void {
    if (!(value > 0))
      throw new Error(`a posting of row ${row} has the value ${value}; it must be greater than 0`);
    if (this.#count === this.#lists.length) {
      this.#lists = grown(this.#lists);
      this.#rows = grown(this.#rows);
      this.#values = grown(this.#values);
    }
    this.#lists[this.#count] = list;
    this.#rows[this.#count] = row;
    this.#values[this.#count++] = value;
    if (list >= this.#listCount) this.#listCount = list + 1;
  }

  /** Sorts what was appended by list; counting keeps the order of rows. */
  finish(): void {
    const count = this.#count;
    this.offsets = new Uint32Array(this.#listCount + 1);
    this.rows = new Uint32Array(count);
    this.values = new Float32Array(count);
    for (let i = 0; i < count; i++) this.offsets[this.#lists[i] + 1]++;
    for (let list = 0; list < this.#listCount; list++) this.offsets[list + 1] += this.offsets[list];
    const next = this.offsets.slice();
    for (let i = 0; i < count; i++) {
      const at = next[this.#lists[i]]++;
      this.rows[at] = this.#rows[i];
      this.values[at] = this.#values[i];
    }
    this.#lists = new Uint32Array(0);
    this.#rows = new Uint32Array(0);
    this.#values = new Float32Array(0);
  }

  /** Postings of a list. */
  lengthOf(list: number): number {
    return list < this.#listCount ? this.offsets[list + 1] - this.offsets[list] : 0;
  }

  /** The k best rows, best first. */
  search(terms: readonly QueryTerm[], k: number): number[] {
    let postings = 0;
    for (const { list } of terms) postings += this.lengthOf(list);
    return postings > listedShare * this.scores.length
      ? this.#bestOfAll(terms, k)
      : this.#scored(terms, (count) => this.#best(count, k).ids);
  }

  /** What counts as right among the k best. @param allows whether a row may be found at all */
  accepted(terms: readonly QueryTerm[], k: number, allows = (_row: number): boolean => true): Accepted {
    return this.#scored(terms, (count) => {
      const { ids, scores } = this.#best(count, k, allows);
      const floor = (scores.at(-1) ?? 0) * (1 - tie);
      const all = this.#touched.subarray(0, count).filter((row) => this.scores[row] >= floor && allows(row));
      return { count: ids.length, ids: new Set(all) };
    });
  }

  get bytes(): number {
    const { offsets, rows, values, scores } = this;
    return [offsets, rows, values, scores, this.#touched].reduce(
      (sum, { byteLength }) => sum + byteLength,
      0,
    );
  }

  /** Adds one term's products to the scores. Returns the new number of touched rows, given that `count` were touched before. */
  protected accumulate({ list, weight }: QueryTerm, touched: Uint32Array, count: number): number {
    const { scores, rows, values } = this;
    const end = this.offsets[list + 1];
    let touchedCount = count;
    for (let i = this.offsets[list]; i < end; i++) {
      const row = rows[i];
      const score = scores[row];
      if (score === 0) touched[touchedCount++] = row;
      scores[row] = score + weight * values[i];
    }
    return touchedCount;
  }

  /** Lets `act` read the scores of a query, and clears them. */
  #scored<T>(terms: readonly QueryTerm[], act: (touchedCount: number) => T): T {
    let count = 0;
    for (const term of terms)
      if (term.list < this.#listCount) count = this.accumulate(term, this.#touched, count);
    const result = act(count);
    for (let i = 0; i < count; i++) this.scores[this.#touched[i]] = 0;
    return result;
  }

  #best(count: number, k: number, allows = (_row: number): boolean => true): Best {
    const best = new Best(k);
    for (let i = 0; i < count; i++) {
      const row = this.#touched[i];
      if (this.scores[row] > best.floor && allows(row)) best.take(row, this.scores[row]);
    }
    return best;
  }

  #bestOfAll(terms: readonly QueryTerm[], k: number): number[] {
    const { scores } = this;
    for (const term of terms) if (term.list < this.#listCount) this.addAll(term);
    const best = new Best(k);
    for (let row = 0; row < scores.length; row++) if (scores[row] > best.floor) best.take(row, scores[row]);
    scores.fill(0);
    return best.ids;
  }

  /** `accumulate` without listing the rows. */
  protected addAll({ list, weight }: QueryTerm): void {
    const { scores, rows, values } = this;
    const end = this.offsets[list + 1];
    for (let i = this.offsets[list]; i < end; i++) scores[rows[i]] += weight * values[i];
  }
}

/** The fraction of the ground truth that was found; `found` has k ids per query, -1 for none. */
export function acceptedShare(found: Int32Array, truth: readonly Accepted[], k: number): number {
  let met = 0;
  let wanted = 0;
  truth.forEach(({ count, ids }, i) => {
    const right = [...new Set(found.subarray(i * k, (i + 1) * k))].filter((id) => ids.has(id));
    met += Math.min(count, right.length);
    wanted += count;
  });
  return met / wanted;
}
