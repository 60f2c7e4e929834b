// Does the sparse dot product rank as the reference does?

import { expect, test } from "vitest";
import { asMap } from "../../../test/index/reference.ts";
import { ndcgAt10, onSet, readJsonLines, readJudgements } from "../../../test/index/reference-data.ts";
import { SparseIndex } from "./sparse-index.ts";

onSet("scifact", () => {
  test("BM25 as a sparse dot product has the nDCG of the reference", () => {
    type Row = { id: string; indices: number[]; values: number[] };
    const corpus = readJsonLines<Row>("scifact/corpus.bm25sparse.jsonl.gz");
    const judgements = readJudgements("scifact/qrels.tsv");
    const index = new SparseIndex();
    corpus.forEach(({ indices, values }, ordinal) => {
      index.add(ordinal, Uint32Array.from(indices), Float32Array.from(values));
    });
    index.check();
    let sum = 0;
    for (const { id, indices, values } of readJsonLines<Row>("scifact/queries.bm25sparse.jsonl.gz")) {
      const relevant = judgements.get(id);
      if (relevant === undefined) continue;
      const query = { indices: Uint32Array.from(indices), values: Float32Array.from(values) };
      const found = [...asMap(index.reader.search(query, 10, 0, null))].sort(
        ([a, x], [b, y]) => y - x || a - b,
      );
      sum += ndcgAt10(
        found.map(([ordinal]) => corpus[ordinal].id),
        relevant,
      );
    }
    expect(sum / judgements.size).toBeCloseTo(0.678, 3);
  });
});
