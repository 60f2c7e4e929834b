// Which list of a segment has the postings of a term?
//
// A binary search in the ascending terms, narrowed by a table: where the lists begin of each *step* of 2 ** bits terms, some four lists to a
// step, as terms mostly are spread.

export class ListsOfTerms {
  readonly #terms: Uint32Array;
  readonly #steps: Uint32Array;
  readonly #stepBits: number;

  /** @param terms of each list, ascending; kept */
  constructor(terms: Uint32Array) {
    this.#terms = terms;
    this.#stepBits = stepBitsFor(terms);
    this.#steps = stepsOf(terms, this.#stepBits);
  }

  /** Bytes besides the terms. */
  get memoryBytes(): number {
    return this.#steps.byteLength;
  }

  /** The list of a term, or -1. */
  of(term: number): number {
    const terms = this.#terms;
    const step = term >>> this.#stepBits;
    if (step >= this.#steps.length - 1) return -1;
    let low = this.#steps[step];
    let high = this.#steps[step + 1];
    while (high - low > 8) {
      const middle = (low + high) >>> 1;
      if (terms[middle] <= term) low = middle;
      else high = middle;
    }
    for (; low < high; low++) if (terms[low] === term) return low;
    return -1;
  }
}

/** The least bits by which there are four lists to a step on average, or more. */
function stepBitsFor(terms: Uint32Array): number {
  const last = terms[terms.length - 1] ?? 0;
  let bits = 0;
  while (bits < 31 && 4 * (last >>> bits) > terms.length) bits++;
  return bits;
}

function stepsOf(terms: Uint32Array, bits: number): Uint32Array {
  const steps = new Uint32Array(((terms[terms.length - 1] ?? 0) >>> bits) + 2);
  for (let step = 0, list = 0; step < steps.length; step++) {
    while (list < terms.length && terms[list] >>> bits < step) list++;
    steps[step] = list;
  }
  return steps;
}
