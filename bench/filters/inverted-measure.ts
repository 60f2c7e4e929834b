// How are sparse and text searches with filters measured?

import { join } from "node:path";
import { randomNumbers } from "../../packages/kernels/src/random.ts";
import { measure as measureAll } from "../shared/measure.ts";
import { type Accepted, acceptedShare, PlainIndex } from "../shared/plain-index.ts";
import type { SetResult } from "../shared/results.ts";
import { readSet as readSparse } from "../sparse/data.ts";
import type { SparseVector } from "../sparse/engine.ts";
import { addRows, termsOf } from "../sparse/engines/plain.ts";
import { missing as missingTexts, readSet as readTexts } from "../text/data.ts";
import { PlainTextIndex } from "../text/engines/plain.ts";
import { engineKinds, type Row, type SetName, setNames, shares } from "./inverted.ts";

const k = 10;
export const rowsDefault = 30_000;

/** The reason why a set cannot be read here. */
export const missing = (set: SetName): string | undefined => (set === "words" ? missingTexts() : undefined);

/** A set, with the field of each row. */
export function readInverted(
  name: string,
  rowsMax = rowsDefault,
): { set: SetName; rows: Row[]; queries: Row[] } {
  const set = setNames.find((each) => each === name);
  if (set === undefined) throw new Error(`no set is called ${name}; there are ${setNames.join(", ")}`);
  const read: { rows: readonly Row["content"][]; queries: readonly Row["content"][] } =
    set === "words" ? readTexts("words", rowsMax) : readSparse("splade", rowsMax);
  const next = randomNumbers(44);
  const rowOf = (content: Row["content"]): Row => ({ content, u: next() });
  return { set, rows: read.rows.map(rowOf), queries: read.queries.map(rowOf) };
}

/** For each share, what each query should find, by the exact reference implementation. */
function truthsOf(rows: readonly Row[], queries: readonly Row[]): Accepted[][] {
  const texts = new PlainTextIndex("none", rows.length);
  const vectors = new PlainIndex(rows.length);
  for (const [i, { content }] of rows.entries())
    if (typeof content === "string") texts.add(i, content);
    else addRows(vectors, [content], i);
  const isText = typeof rows[0].content === "string";
  const twin = isText ? texts : vectors;
  twin.finish();
  return shares.map((share) =>
    queries.map(({ content }) => {
      const terms = typeof content === "string" ? texts.termsOf(content) : termsOf(content as SparseVector);
      return twin.accepted(terms, k, (row) => share === undefined || rows[row].u < share);
    }),
  );
}

export function measureInverted(
  name: SetName,
  { rounds, queryCount }: { readonly rounds: number; readonly queryCount: number },
): Promise<SetResult> {
  const { rows, queries } = readInverted(name);
  const truths = truthsOf(rows, queries.slice(0, queryCount));
  return measureAll({
    worker: join(import.meta.dirname, "inverted-worker.ts"),
    engines: engineKinds.filter(({ refuses }) => refuses?.({ set: name, directory: "" }) === undefined),
    set: name,
    title:
      name === "words"
        ? "Passages of dictionaries, words alone, BM25"
        : "SPLADE-like sparse vectors (generated)",
    rowCount: rows.length,
    rowsMax: rowsDefault,
    queryCount,
    passes: 3,
    rounds,
    k,
    efforts: shares.map((_, i) => i),
    recall: (found, wanted, effort) => acceptedShare(found, truths[effort], wanted),
  });
}
