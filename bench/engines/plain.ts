// How does a benchmark use a plain JavaScript loop, and what are the exact results?
//
// Of text the same analysis as Quiver's and the same BM25, every posting scored:
//
//     idf * tf / (tf + norm(length))        norm = k1 * (1 - b + b * length / average), computed once for each passage

import { createAnalyzer } from "../../packages/engine/src/text/analyzer.ts";
import { tokenize } from "../../packages/engine/src/text/tokenize.ts";
import { PlainIndex, type QueryTerm } from "../shared/plain-index.ts";
import { b, type EngineKind, type Item, k1, type Shape } from "./engine.ts";

class PlainTextIndex extends PlainIndex {
  readonly #analyzer;
  readonly #lists = new Map<string, number>();
  /** By row: its length in terms; after `finish`, its norm. */
  readonly #norms: Float64Array;
  #totalLength = 0;

  constructor(language: Shape["language"], rowCount: number) {
    super(rowCount);
    this.#analyzer = createAnalyzer(language);
    this.#norms = new Float64Array(rowCount);
  }

  /** Terms of all passages. */
  get totalLength(): number {
    return this.#totalLength;
  }

  add(row: number, text: string): void {
    const frequencies = new Map<string, number>();
    const terms = this.#analyzer.terms(tokenize(text));
    for (const term of terms) frequencies.set(term, (frequencies.get(term) ?? 0) + 1);
    for (const [term, frequency] of frequencies) {
      this.append(this.#listOf(term), row, frequency);
    }
    this.#norms[row] = terms.length;
    this.#totalLength += terms.length;
  }

  #listOf(term: string): number {
    const known = this.#lists.get(term);
    if (known !== undefined) return known;
    this.#lists.set(term, this.#lists.size);
    return this.#lists.size - 1;
  }

  override finish(): void {
    super.finish();
    const average = this.#totalLength / this.#norms.length;
    this.#norms.forEach((length, row) => {
      this.#norms[row] = k1 * (1 - b + (b * length) / average);
    });
  }

  /** The query's terms that a passage has. */
  termsOf(query: string): QueryTerm[] {
    const repetitions = new Map<number, number>();
    for (const term of this.#analyzer.terms(tokenize(query))) {
      const list = this.#lists.get(term);
      if (list !== undefined) repetitions.set(list, (repetitions.get(list) ?? 0) + 1);
    }
    return [...repetitions].map(([list, times]) => {
      const df = this.lengthOf(list);
      return { list, weight: times * Math.log(1 + (this.#norms.length - df + 0.5) / (df + 0.5)) };
    });
  }

  override get bytes(): number {
    return super.bytes + this.#norms.byteLength;
  }

  protected override accumulate({ list, weight }: QueryTerm, touched: Uint32Array, count: number): number {
    const { scores, rows, values } = this;
    const norms = this.#norms;
    const end = this.offsets[list + 1];
    let touchedCount = count;
    for (let i = this.offsets[list]; i < end; i++) {
      const row = rows[i];
      const score = scores[row];
      if (score === 0) touched[touchedCount++] = row;
      const tf = values[i];
      scores[row] = score + (weight * tf) / (tf + norms[row]);
    }
    return touchedCount;
  }

  protected override addAll({ list, weight }: QueryTerm): void {
    const { scores, rows, values } = this;
    const norms = this.#norms;
    const end = this.offsets[list + 1];
    for (let i = this.offsets[list]; i < end; i++) {
      const row = rows[i];
      const tf = values[i];
      scores[row] += (weight * tf) / (tf + norms[row]);
    }
  }
}

/** An inverted index of a sparse or a text set. */
export type Twin = {
  readonly index: PlainIndex;
  add(items: readonly Item[], first: number): void;
  termsOf(query: Item): QueryTerm[];
  /** Of all rows. */
  termCount(): number;
};

/** Of rows whose ids are below `count`. It is complete after `index.finish()`. */
export function openTwin({ kind, language, count }: Pick<Shape, "kind" | "language" | "count">): Twin {
  if (kind === "text") {
    const index = new PlainTextIndex(language, count);
    return {
      index,
      add: (items, first) => items.forEach(({ text }, i) => void index.add(first + i, text as string)),
      termsOf: ({ text }) => index.termsOf(text as string),
      termCount: () => index.totalLength,
    };
  }
  const index = new PlainIndex(count);
  let termCount = 0;
  return {
    index,
    add: (items, first) =>
      items.forEach(({ terms }, i) => {
        terms?.indices.forEach((list, j) => void index.append(list, first + i, terms.values[j]));
        termCount += terms?.indices.length ?? 0;
      }),
    termsOf: ({ terms }) =>
      Array.from(terms?.indices ?? [], (list, i) => ({ list, weight: terms?.values[i] ?? 0 })),
    termCount: () => termCount,
  };
}

export const plain: EngineKind = {
  name: "plain",
  title: "plain JavaScript loop",
  efforts: [0],
  note: "Postings in flat arrays, every posting of every term of the query scored, the ten best kept; of text, Quiver's analysis. This is the exact twin. Its bytes are those of its arrays, without the dictionary of terms.",
  open(shape) {
    const { index, add, termsOf } = openTwin(shape);
    return {
      add,
      finish: () => index.finish(),
      search: (query: Item, k) => index.search(termsOf(query), k),
      bytes: () => index.bytes,
    };
  },
};
