// Which sparse vectors are searched, with which queries?
//
// The generated set is created once and stored in bench/.cache; SciFact's is read in place from the data folder.

import type { SparseVector } from "../engines/engine.ts";
import { bytesOf, inCache, inData, madePart, missingFolder } from "../shared/files.ts";
import { makeQueries, rowEntries, rowMaker } from "./splade.ts";

export const setNames = ["splade", "scifact"] as const;
export type SetName = (typeof setNames)[number];

const generatedRows = 200_000;
const generatedQueries = 500;

export const titles: Readonly<Record<SetName, string>> = {
  splade: `SPLADE-like (generated), ${generatedRows.toLocaleString("en")} x ${rowEntries} entries`,
  scifact: "SciFact, BM25 as sparse vectors",
};

export type SparseSet = {
  readonly name: SetName;
  readonly rows: readonly SparseVector[];
  readonly queries: readonly SparseVector[];
};

/** The reason why a set cannot be read here; undefined if it can. */
export const missing = (name: SetName): string | undefined =>
  name === "scifact" ? missingFolder("scifact") : undefined;

/** The first `count` rows: all their dimensions, and after them all their values. */
function packed(count: number): Uint8Array {
  const next = rowMaker();
  const entries = count * rowEntries;
  const all = new Uint32Array(2 * entries);
  const values = new Float32Array(all.buffer, 4 * entries);
  for (let i = 0; i < count; i++) {
    const row = next();
    all.set(row.indices, i * rowEntries);
    values.set(row.values, i * rowEntries);
  }
  return new Uint8Array(all.buffer);
}

/** The first rows of the set, or of a larger one, which begins like it: each row depends on its place only. */
function generated(rowsMax = generatedRows): SparseVector[] {
  const count = Math.max(generatedRows, rowsMax);
  const name = count === generatedRows ? "splade" : `splade-${count}`;
  const half = (which: 0 | 1): ArrayBuffer => {
    const from = which * count * rowEntries * 4;
    const length = rowsMax * rowEntries * 4;
    return madePart(inCache(`sparse/${name}.bin`), () => packed(count), from, length).buffer as ArrayBuffer;
  };
  const [indices, values] = [new Uint32Array(half(0)), new Float32Array(half(1))];
  return Array.from({ length: rowsMax }, (_, i) => {
    const [from, to] = [i * rowEntries, (i + 1) * rowEntries];
    return { indices: indices.subarray(from, to), values: values.subarray(from, to) };
  });
}

function sciFact(part: "corpus" | "queries"): SparseVector[] {
  const text = Buffer.from(bytesOf(inData(`scifact/${part}.bm25sparse.jsonl.gz`))).toString();
  return text
    .trimEnd()
    .split("\n")
    .map((line) => {
      const { indices, values } = JSON.parse(line) as { indices: number[]; values: number[] };
      return { indices: Uint32Array.from(indices), values: Float32Array.from(values) };
    });
}

/** The set, or its first `rowsMax` rows (of the generated set also more than it has) and all of its queries. */
export function readSet(name: SetName, rowsMax?: number): SparseSet {
  const isGenerated = name === "splade";
  const rows = isGenerated ? generated(rowsMax) : sciFact("corpus");
  return {
    name,
    rows: rowsMax === undefined ? rows : rows.slice(0, rowsMax),
    queries: isGenerated ? makeQueries(generatedQueries) : sciFact("queries"),
  };
}
