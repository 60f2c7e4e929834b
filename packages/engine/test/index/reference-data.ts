// Where are the public data sets for measurements?
//
// They are next to the project and read in place; their READMEs describe them.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, test } from "vitest";

const data = resolve(import.meta.dirname, "../../../../../shared/data");

/** Whether a set is missing. */
export const isAbsent = (set: string): boolean => !existsSync(join(data, set));

/**
 * A suite on a set. If the set is missing, the suite is one skipped test whose title gives the reason, and its body, which may read the
 * set, does not run. Such suites are in files called `*.shared.test.ts`, which can be run separately.
 */
export function onSet(set: string, body: () => void): void {
  if (!isAbsent(set)) describe(set, body);
  else test.skip(`${set} (skipped: the data set is not in ../shared/data)`);
}

export type Vectors = { readonly dimension: number; readonly rows: readonly Float32Array[] };

/** Raw little-endian f32, row after row. */
export function readF32(path: string, dimension: number): Vectors {
  const bytes = Uint8Array.from(readFileSync(join(data, path)));
  const all = new Float32Array(bytes.buffer);
  const rows = Array.from({ length: all.length / dimension }, (_, i) =>
    all.subarray(i * dimension, (i + 1) * dimension),
  );
  return { dimension, rows };
}

/** The texmex formats: each row is its dimension (int32) and its values. */
function readTexmex<T>(path: string, make: (buffer: ArrayBuffer, at: number, length: number) => T): T[] {
  const { buffer } = Uint8Array.from(readFileSync(join(data, path)));
  const dimension = new Int32Array(buffer)[0];
  const rowBytes = 4 + 4 * dimension;
  return Array.from({ length: buffer.byteLength / rowBytes }, (_, i) =>
    make(buffer, i * rowBytes + 4, dimension),
  );
}

export const readFvecs = (path: string): Float32Array[] =>
  readTexmex(path, (buffer, at, length) => new Float32Array(buffer, at, length));

export const readIvecs = (path: string): Int32Array[] =>
  readTexmex(path, (buffer, at, length) => new Int32Array(buffer, at, length));

/** Vectors of bytes, such as pixels, in a gzip file; the first `headerBytes` are left out. */
export function readBytes(path: string, headerBytes: number, dimension: number): Float32Array[] {
  const bytes = gunzipSync(readFileSync(join(data, path))).subarray(headerBytes);
  return Array.from({ length: bytes.length / dimension }, (_, i) =>
    Float32Array.from(bytes.subarray(i * dimension, (i + 1) * dimension)),
  );
}

/** One JSON a line, compressed. */
export function readJsonLines<T>(path: string): T[] {
  const lines = gunzipSync(readFileSync(join(data, path)))
    .toString("utf8")
    .trim()
    .split("\n");
  return lines.map((line) => JSON.parse(line) as T);
}

/** Query id -> document id -> relevance. */
export function readJudgements(path: string): Map<string, Map<string, number>> {
  const judgements = new Map<string, Map<string, number>>();
  for (const line of readFileSync(join(data, path), "utf8").trim().split("\n").slice(1)) {
    const [query, document, relevance] = line.split("\t");
    const ofQuery = judgements.get(query) ?? new Map<string, number>();
    judgements.set(query, ofQuery.set(document, Number(relevance)));
  }
  return judgements;
}

/** Normalized discounted cumulative gain of the first ten documents (Järvelin and Kekäläinen, 2002). */
export function ndcgAt10(found: readonly string[], relevant: ReadonlyMap<string, number>): number {
  const gain = (relevances: readonly number[]): number =>
    relevances.slice(0, 10).reduce((sum, relevance, i) => sum + (2 ** relevance - 1) / Math.log2(i + 2), 0);
  const best = [...relevant.values()].sort((a, b) => b - a);
  return gain(found.map((document) => relevant.get(document) ?? 0)) / gain(best);
}
