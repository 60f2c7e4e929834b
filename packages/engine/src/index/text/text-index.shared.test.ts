// Does BM25 rank as the reference does?

import { expect, test } from "vitest";
import { asMap } from "../../../test/index/reference.ts";
import { ndcgAt10, onSet, readJsonLines, readJudgements } from "../../../test/index/reference-data.ts";
import { tokenize } from "../../text/tokenize.ts";
import { TextIndex } from "./text-index.ts";

onSet("scifact", () => {
  test("nDCG@10 of BM25", () => {
    type Row = { _id: string; title: string; text: string };
    const corpus = readJsonLines<Row>("scifact/corpus.jsonl.gz");
    const queries = readJsonLines<Row>("scifact/queries.jsonl.gz");
    const judgements = readJudgements("scifact/qrels.tsv");
    const words = corpus.map(({ title, text }) => tokenize(`${title} ${text}`));
    const ndcg = (k1: number, b: number): number => {
      const index = new TextIndex({ language: "english", k1, b });
      words.forEach((words, ordinal) => {
        index.add(ordinal, words);
      });
      index.check();
      let sum = 0;
      for (const { _id, text } of queries) {
        const relevant = judgements.get(_id);
        if (relevant === undefined) continue;
        const best = [...asMap(index.reader.search(text, 10, index.statistics(), null))];
        best.sort(([a, x], [b, y]) => y - x || (corpus[a]._id < corpus[b]._id ? -1 : 1));
        sum += ndcgAt10(
          best.map(([ordinal]) => corpus[ordinal]._id),
          relevant,
        );
      }
      return sum / judgements.size;
    };
    expect(ndcg(0.9, 0.4)).toBeCloseTo(0.6823, 4);
    expect(ndcg(1.2, 0.75)).toBeCloseTo(0.6858, 4);
  });
});
