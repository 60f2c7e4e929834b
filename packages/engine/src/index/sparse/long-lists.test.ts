// Does a search of long lists find exactly what scoring every record finds?
//
// Collections large enough that segments are searched by units (kernels/assembly/postings/by-units.ts), with ties, weights of 0, hidden and
// not allowed records, coarse and fine levels, and more results than the kernel hands over at once.

import { randomNumbers } from "@quiverdb/kernels/random";
import { test } from "vitest";
import { bitmapOf } from "../../../test/index/allowed-sets.ts";
import { asMap, expectSame } from "../../../test/index/reference.ts";
import { keepBest } from "../../base/top-k.ts";
import { SparseIndex, type SparseOptions } from "./sparse-index.ts";
import type { SparseVector } from "./sparse-reader.ts";

const count = 20_000;
const dimensions = 300;

type Draw = (next: () => number) => number;

/** Few different weights, so that many records tie; weights of all sizes; and some that are 0. */
const weights: Readonly<Record<string, Draw>> = {
  ties: (next) => 0.5 * Math.ceil(4 * next()),
  skewed: (next) => Math.fround(Math.exp(4 * next() - 3 * next())),
  zeros: (next) => Math.max(0, Math.fround(next() - 0.3)),
};

/** The frequency of a dimension falls with its number. */
function vectorOf(entries: number, next: () => number, weight: Draw): SparseVector {
  const chosen = new Set<number>();
  while (chosen.size < entries) chosen.add(Math.floor(dimensions * next() ** 2));
  const indices = Uint32Array.from(chosen).sort();
  return { indices, values: Float32Array.from(indices, () => weight(next)) };
}

/** All sums of products, by ascending dimension; NaN for a record that shares no dimension with the query. */
function scoresOf(records: readonly SparseVector[], query: SparseVector): Float64Array {
  const weightOf = new Map(Array.from(query.indices, (index, i) => [index, query.values[i]]));
  return Float64Array.from(records, ({ indices, values }) => {
    let score = Number.NaN;
    for (let i = 0; i < indices.length; i++) {
      const weight = weightOf.get(indices[i]);
      if (weight !== undefined) score = (Number.isNaN(score) ? 0 : score) + weight * values[i];
    }
    return score;
  });
}

function bestOf(scores: Float64Array, k: number, mayBe: (ordinal: number) => boolean): Map<number, number> {
  const ordinals = Uint32Array.from(scores.keys()).filter((at) => !Number.isNaN(scores[at]) && mayBe(at));
  const kept = keepBest(
    ordinals,
    Float64Array.from(ordinals, (at) => scores[at]),
    ordinals.length,
    k,
  );
  return asMap(kept);
}

const options: readonly SparseOptions[] = [{ levels: 256 }, { levels: 16 }];

for (const [name, weight] of Object.entries(weights))
  for (const option of options)
    test(`[Q6] long lists of ${name} weights with ${option.levels} levels are searched exactly`, () => {
      const next = randomNumbers(name.length + (option.levels ?? 0));
      const records = Array.from({ length: count }, () =>
        vectorOf(4 + Math.floor(30 * next()), next, weight),
      );
      const index = new SparseIndex({ ...option, debug: true });
      records.forEach(({ indices, values }, i) => void index.add(i, indices, values));
      while (index.tidy(1_000_000));
      const removed = new Set(Array.from({ length: 500 }, () => Math.floor(count * next())));
      for (const ordinal of removed) index.remove(ordinal);
      const isThere = (ordinal: number) => !removed.has(ordinal);
      for (const length of [1, 2, 5, 20, 90]) {
        const query = vectorOf(length, next, weight);
        const scores = scoresOf(records, query);
        for (const k of [1, 10, 300, 9_000]) {
          expectSame(asMap(index.reader.search(query, k, 0, null)), bestOf(scores, k, isThere));
          const allowed = bitmapOf(Array.from({ length: count }, (_, i) => i).filter(() => next() < 0.5));
          expectSame(
            asMap(index.reader.search(query, k, 0, null, allowed)),
            bestOf(scores, k, (ordinal) => isThere(ordinal) && allowed.has(ordinal)),
          );
        }
      }
      index.check();
    });
