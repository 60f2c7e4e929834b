// Which searches are compared with their index alone?

import { SparseIndex } from "../../packages/engine/src/index/sparse/sparse-index.ts";
import { TextIndex } from "../../packages/engine/src/index/text/text-index.ts";
import { tokenize } from "../../packages/engine/src/text/tokenize.ts";
import * as denseData from "../dense/data.ts";
import * as dense from "../dense/engines/quiver.ts";
import { finishOf, openCollection, upsertRows } from "../shared/quiver-database.ts";
import { tidiedAtOnce } from "../shared/quiver-index.ts";
import * as sparseData from "../sparse/data.ts";
import * as sparse from "../sparse/engines/quiver.ts";
import { shapeNamed } from "../sparse/shapes.ts";
import * as textData from "../text/data.ts";
import { b, k1 } from "../text/engine.ts";
import * as text from "../text/engines/quiver.ts";

const k = 10;
const rowsAtOnce = 5_000;

/** A search of the query of this number. */
type Search = (query: number) => unknown;
type Opened = { readonly engine: Search; readonly index: Search; readonly count: number };
export type Case = {
  readonly name: string;
  readonly title: string;
  /** The reason why it cannot be measured here; undefined if it can. */
  missing(): string | undefined;
  open(directory: string, rows: number, queries: number): Promise<Opened>;
};

/** What both kinds of engine have in common, whatever they search. */
type AnyEngine = {
  add(rows: readonly never[], first: number): unknown;
  finish?(): unknown;
  settle?(): Promise<void>;
  prepare?(query: never): unknown;
  search(query: never, k: number, effort: number): unknown;
};

/** The same rows in an engine and in its index. */
async function opened(
  engines: readonly AnyEngine[],
  rows: readonly unknown[],
  queries: readonly unknown[],
  effort: number,
): Promise<Opened> {
  const searches: Search[] = [];
  for (const engine of engines) {
    for (let at = 0; at < rows.length; at += rowsAtOnce)
      await engine.add(rows.slice(at, at + rowsAtOnce) as never[], at);
    await engine.finish?.();
    await engine.settle?.();
    const prepared = queries.map((query) => engine.prepare?.(query as never) ?? query);
    searches.push((query) => engine.search(prepared[query] as never, k, effort));
  }
  const [engine, index] = searches;
  return { engine, index, count: rows.length };
}

const denseCase = (name: string, set: string, effort: number): Case => ({
  name,
  title: `dense, ${denseData.titleOf(set)}, beam of ${effort}`,
  missing: () => denseData.missing(set),
  async open(directory, rowCount, queryCount) {
    const data = denseData.readSet(set, rowCount);
    const shape = denseData.shapeOf(data, directory);
    const engines = [await dense.quiverDatabase.open(shape), await dense.quiver[0].open(shape)];
    return opened(engines as AnyEngine[], data.rows, data.queries.slice(0, queryCount), effort);
  },
});

const textCase = (name: string, set: textData.SetName): Case => ({
  name,
  title: `text, ${textData.titles[set]}`,
  missing: textData.missing,
  async open(directory, rowCount, queryCount) {
    const data = textData.readSet(set);
    const rows = data.rows.slice(0, rowCount);
    const shape = textData.shapeOf(data, directory);
    const engines = [await text.quiverDatabase.open(shape), await text.quiver.open(shape)];
    return opened(engines as AnyEngine[], rows, data.queries.slice(0, queryCount), 0);
  },
});

const sparseCase = (name: string, title: string, shapeName: string, length: string): Case => ({
  name,
  title: `sparse, ${title}`,
  missing: () => undefined,
  async open(directory, rowCount, queryCount) {
    const shape = shapeNamed(shapeName);
    const rows = shape.rows().slice(0, rowCount);
    const queries = shape.queries(queryCount).get(length) ?? [];
    const of = { count: rows.length, directory };
    return opened(
      [await sparse.quiverDatabase.open(of), await sparse.quiver.open(of)] as AnyEngine[],
      rows,
      queries,
      0,
    );
  },
});

/** Records that each leg of a hybrid search fetches for ten results (limits.legMin). */
const legK = 50;

/** Without a dense leg, whose beam adapts to the query: that is search, and the index alone would have to do the same. */
const hybrid: Case = {
  name: "hybrid",
  title: "hybrid, SPLADE-like vectors and words",
  missing: textData.missing,
  async open(directory, rowCount, queryCount) {
    const terms = sparseData.readSet("splade", rowCount);
    const words = textData.readSet("words");
    const { language } = words;
    const count = Math.min(terms.rows.length, words.rows.length);
    const collection = await openCollection(directory, { sparse: true, text: true });
    await collection.createSparseIndex({ name: "sparse", quantization: 256, sample_threshold: 1 });
    await collection.createTextIndex({ name: "text", sample_threshold: 1, k1, b, language });
    const ofSparse = new SparseIndex();
    const ofText = new TextIndex({ language, k1, b });
    const all = Array.from({ length: count }, (_, i) => i);
    for (let at = 0; at < count; at += rowsAtOnce)
      await upsertRows(collection, all.slice(at, at + rowsAtOnce), at, (i) => ({
        sparse_indices: [...terms.rows[i].indices],
        sparse_values: [...terms.rows[i].values],
        text: words.rows[i],
      }));
    for (const i of all) {
      ofSparse.add(i, terms.rows[i].indices, terms.rows[i].values);
      ofText.add(i, tokenize(words.rows[i]));
    }
    while (ofSparse.tidy(tidiedAtOnce, true));
    while (ofText.tidy(tidiedAtOnce, true));
    const { finish, settle } = finishOf(collection);
    await finish();
    await settle();
    const queries = Array.from({ length: queryCount }, (_, i) => ({
      query_terms: Array.from(terms.queries[i].indices, (index, j) => ({
        index,
        value: terms.queries[i].values[j],
      })),
      query_text: words.queries[i],
      top_k: k,
    }));
    return {
      engine: (i) => collection.search("hybrid", queries[i]),
      index: (i) => [
        ofSparse.reader.search(terms.queries[i], legK, 0, null),
        ofText.reader.search(words.queries[i], legK, ofText.statistics(), null),
      ],
      count,
    };
  },
};

export const cases: readonly Case[] = [
  denseCase("dense-768", "clusters768", 24),
  denseCase("dense-glove", "glove-cosine", 24),
  sparseCase("sparse-5", "44 terms, learned, queries of 5", "11k-44-learned", "5"),
  sparseCase("sparse-46", "44 terms, learned, queries of 46", "11k-44-learned", "46"),
  sparseCase("sparse-200", "120 terms, without topics, queries of 200", "11k-120-plain", "200"),
  sparseCase("sparse-200k", "120 terms, without topics, queries of 46", "200k-120-plain", "46"),
  textCase("text-words", "words"),
  textCase("text-english", "english"),
  hybrid,
];

export function caseNamed(name: string): Case {
  const found = cases.find((each) => each.name === name);
  if (found === undefined)
    throw new Error(`no case is called ${name}; there are ${cases.map((each) => each.name).join(", ")}`);
  return found;
}
