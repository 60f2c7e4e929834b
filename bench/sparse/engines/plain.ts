// How does the benchmark use a plain JavaScript inverted index?

import { PlainIndex, type QueryTerm } from "../../shared/plain-index.ts";
import type { EngineKind, SparseVector } from "../engine.ts";

/** Adds rows whose ids go up from `first`. */
export function addRows(index: PlainIndex, rows: readonly SparseVector[], first: number): void {
  rows.forEach(({ indices, values }, i) => {
    for (let j = 0; j < indices.length; j++) index.append(indices[j], first + i, values[j]);
  });
}

export const termsOf = ({ indices, values }: SparseVector): QueryTerm[] =>
  Array.from(indices, (list, i) => ({ list, weight: values[i] }));

export const plain: EngineKind = {
  name: "plain",
  title: "plain JavaScript loop",
  efforts: [0],
  note: "Postings in flat arrays, every posting of every dimension of the query multiplied and added, the ten best kept. This is the exact twin.",
  open({ count }) {
    const index = new PlainIndex(count);
    return {
      add: (rows, first) => addRows(index, rows, first),
      finish: () => index.finish(),
      search: (query: SparseVector, k) => index.search(termsOf(query), k),
      bytes: () => index.bytes,
    };
  },
};
