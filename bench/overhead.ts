// What does a search of the embedded engine cost besides its index?
//
//   npm run bench overhead                                   all cases
//   npm run bench overhead -- --cases dense-glove,text       some cases, only printed
//
//   --rows 50000  --rounds 40  --queries 200
//
// The engine checks the request, sees one version, searches, ranks, and fetches ids and documents; the index alone gets a query that is ready
// and returns ordinals. Both hold the same records, are in one process for each case and take turns. "moreUs" is the median of the differences
// of two turns next to each other, "moreAtBestUs" the difference of the two fastest turns.

import "../packages/engine/src/process/node-host.ts";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SparseIndex } from "../packages/engine/src/index/sparse/sparse-index.ts";
import { TextIndex } from "../packages/engine/src/index/text/text-index.ts";
import { tokenize } from "../packages/engine/src/text/tokenize.ts";
import { titleOf } from "./dense/data.ts";
import { b, type EngineKind, type Item, k1, kindNamed, type SparseVector } from "./engines/engine.ts";
import {
  finishOf,
  idsOf,
  openCollection,
  quiver,
  quiverU8,
  sparseAlone,
  textAlone,
  tidyAll,
  upsertItems,
} from "./engines/quiver.ts";
import { answerAside, measuredAside } from "./shared/child.ts";
import { median, overRounds } from "./shared/figures.ts";
import { readOptions } from "./shared/options.ts";
import { publish } from "./shared/publish.ts";
import type { Row } from "./shared/results.ts";
import { compare, inProcess, type Search } from "./shared/turns.ts";
import { shapeNamed, shapeOf } from "./sparse/shapes.ts";
import { type ReadSet, subjectNamed } from "./subjects.ts";
import { titles } from "./text/data.ts";

const k = 10;
const rowsAtOnce = 5_000;
const warmUps = 10;

type Opened = { readonly engine: Search; readonly index: Search; readonly count: number };
type Case = {
  readonly name: string;
  readonly title: string;
  /** The reason why it cannot be measured here; undefined if it can. */
  missing(): string | undefined;
  open(directory: string, rows: number, queries: number): Promise<Opened>;
};

/** The same records in an engine and in its index. */
async function opened(
  alone: EngineKind,
  { shape, rows, queries }: Pick<ReadSet, "shape" | "rows" | "queries">,
  directory: string,
  effort: number,
): Promise<Opened> {
  const searches: Search[] = [];
  for (const kind of [quiver, alone]) {
    const engine = await kind.open({ ...shape, directory });
    for (let at = 0; at < rows.length; at += rowsAtOnce)
      await engine.add(rows.slice(at, at + rowsAtOnce), at);
    await engine.finish?.();
    await engine.settle?.();
    const prepared = queries.map((query) => engine.prepare?.(query) ?? query);
    searches.push((query) => engine.search(prepared[query] as never, k, effort));
  }
  const [engine, index] = searches;
  return { engine, index, count: rows.length };
}

const ofSubject = (
  name: string,
  subjectName: string,
  set: string,
  title: string,
  alone: EngineKind,
  effort: number,
): Case => ({
  name,
  title: `${subjectName}, ${title}`,
  missing: () => subjectNamed(subjectName).missing(set),
  async open(directory, rowCount, queryCount) {
    const read = subjectNamed(subjectName).read(set, rowCount);
    return opened(alone, { ...read, queries: read.queries.slice(0, queryCount) }, directory, effort);
  },
});

const ofShape = (name: string, title: string, shapeName: string, length: string): Case => ({
  name,
  title: `sparse, ${title}`,
  missing: () => undefined,
  async open(directory, rowCount, queryCount) {
    const shape = shapeNamed(shapeName);
    const items = (vectors: readonly SparseVector[]): Item[] => vectors.map((terms) => ({ terms }));
    const rows = items(shape.rows().slice(0, rowCount));
    const queries = items(shape.queries(queryCount).get(length) ?? []);
    return opened(sparseAlone, { shape: shapeOf(rows.length), rows, queries }, directory, 0);
  },
});

/** Records that each leg of a hybrid search fetches for ten results (limits.legMin). */
const legK = 50;

/** Without a dense leg, whose beam adapts to the query: that is search, and the index alone would have to do the same. */
const hybrid: Case = {
  name: "hybrid",
  title: "hybrid, SPLADE-like vectors and words",
  missing: () => subjectNamed("text").missing("words"),
  async open(directory, rowCount, queryCount) {
    const sparse = subjectNamed("sparse").read("splade", rowCount);
    const words = subjectNamed("text").read("words");
    const { language } = words.shape;
    const count = Math.min(sparse.rows.length, words.rows.length);
    const items = Array.from({ length: count }, (_, i) => ({ ...sparse.rows[i], ...words.rows[i] }));
    const collection = await openCollection(directory, { sparse: true, text: true });
    await collection.createIndex("sparse", { name: "sparse", quantization: 256, sample_threshold: 1 });
    await collection.createIndex("tf-idf", { name: "text", sample_threshold: 1, k1, b, language });
    const ofSparse = new SparseIndex();
    const ofText = new TextIndex({ language, k1, b });
    for (let at = 0; at < count; at += rowsAtOnce)
      await upsertItems(collection, items.slice(at, at + rowsAtOnce), at);
    for (const [i, { terms, text }] of items.entries()) {
      if (terms !== undefined) ofSparse.add(i, terms.indices, terms.values);
      ofText.add(i, tokenize(text as string));
    }
    tidyAll(ofSparse);
    tidyAll(ofText);
    const { finish, settle } = finishOf(collection);
    await finish();
    await settle();
    const queries = Array.from({ length: queryCount }, (_, i) => {
      const { indices, values } = sparse.queries[i].terms as SparseVector;
      const query_terms = Array.from(indices, (index, j) => ({ index, value: values[j] }));
      return { query_terms, query: words.queries[i].text as string, indices, values };
    });
    return {
      engine: async (i) => {
        const { query_terms, query } = queries[i];
        return idsOf(await collection.search("hybrid", { query_terms, query_text: query, top_k: k }));
      },
      index(i) {
        ofSparse.reader.search(queries[i], legK, 0, null);
        return ofText.reader.search(queries[i].query, legK, ofText.statistics(), null).ordinals;
      },
      count,
    };
  },
};

const cases: readonly Case[] = [
  ofSubject("dense-768", "dense", "clusters768", `${titleOf("clusters768")}, beam of 24`, quiverU8, 24),
  ofSubject("dense-glove", "dense", "glove-cosine", `${titleOf("glove-cosine")}, beam of 24`, quiverU8, 24),
  ofShape("sparse-5", "44 terms, learned, queries of 5", "11k-44-learned", "5"),
  ofShape("sparse-46", "44 terms, learned, queries of 46", "11k-44-learned", "46"),
  ofShape("sparse-200", "120 terms, without topics, queries of 200", "11k-120-plain", "200"),
  ofShape("sparse-200k", "120 terms, without topics, queries of 46", "200k-120-plain", "46"),
  ofSubject("text-words", "text", "words", titles.words, textAlone, 0),
  ofSubject("text-english", "text", "english", titles.english, textAlone, 0),
  hybrid,
];

type Plan = {
  readonly name: string;
  readonly rows: number;
  readonly rounds: number;
  readonly queries: number;
};

async function measure({ name, rows, rounds, queries }: Plan): Promise<Row> {
  const { title, open } = kindNamed(cases, name);
  const directory = mkdtempSync(join(tmpdir(), "quiver-bench-"));
  try {
    const { engine, index, count } = await open(directory, rows, queries);
    const players = [inProcess(engine), inProcess(index)];
    await compare(players, { rounds, warmUps, queries, k });
    const [engineUs, indexUs] = players.map(({ us }) => us);
    return {
      search: title,
      records: count,
      ...overRounds("engineUs", engineUs),
      ...overRounds("indexUs", indexUs),
      moreUs: median(engineUs.map((us, i) => us - indexUs[i])),
      moreAtBestUs: Math.min(...engineUs) - Math.min(...indexUs),
    };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

if (!(await answerAside(measure))) {
  const all = cases.map(({ name }) => name).join(",");
  const { values, isKept } = readOptions({}, { cases: all, rows: "50000", rounds: "40", queries: "200" });
  const [rows, rounds, queries] = [values.rows, values.rounds, values.queries].map(Number);
  const measured: Row[] = [];
  const leftOut: string[] = [];
  for (const name of values.cases.split(",")) {
    const reason = kindNamed(cases, name).missing();
    if (reason !== undefined) leftOut.push(`${name}: ${reason}`);
    else measured.push(await measuredAside<Plan, Row>(import.meta.filename, { name, rows, rounds, queries }));
  }
  publish(
    "overhead",
    {
      key: "all",
      title: "What the embedded engine costs besides its index",
      options: { turns: rounds, queries, k },
      rows: measured,
      ...(leftOut.length > 0 && { leftOut }),
    },
    isKept,
  );
}
