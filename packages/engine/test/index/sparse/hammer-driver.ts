// Is every answer of a sparse reader right for its version, while the owner freezes, merges, compacts, saves and removes?
//
// Some dimensions are beyond those that mutable buffers keep an array for. Buffers are short, so that segments come and go.

import { finishAtOnce } from "../../../src/base/steps.ts";
import type { LegOptions } from "../../../src/index/kind.ts";
import { OrdinalBitmap } from "../../../src/index/ordinal-bitmap.ts";
import { sparseKind } from "../../../src/index/sparse/kind.ts";
import type { SparseLeg } from "../../../src/index/sparse/legs.ts";
import { SparseIndex } from "../../../src/index/sparse/sparse-index.ts";
import type { SparseVector } from "../../../src/index/sparse/sparse-reader.ts";
import { bestOf } from "../best-of.ts";
import type { HammerAnswer, HammerDriver, HammeredVersion } from "../hammer-driver.ts";
import {
  check,
  differenceOf,
  disturb,
  mixed,
  remembered,
  someOf,
  unexplained,
} from "../inverted/hammering.ts";

const dimensions = 200;
const entriesMax = 12;

const dimensionOf = (drawn: number): number => {
  const dimension = Math.floor((drawn / 2 ** 32) ** 2 * dimensions);
  return dimension % 9 === 0 ? 2 ** 30 + 1_001 * dimension : dimension;
};

/** The vector of an ordinal; weights of a few values, so that scores tie. */
function vectorOf(seed: number, ordinal: number, isSigned: boolean): SparseVector {
  const drawn = mixed(seed, ordinal);
  const weights = new Map<number, number>();
  for (let i = 0; i < drawn % entriesMax; i++) {
    const weight = (1 + (mixed(drawn, 50 + i) % 8)) / 4;
    weights.set(dimensionOf(mixed(drawn, i)), isSigned && i === 3 ? -weight : weight);
  }
  const sorted = [...weights].sort(([a], [b]) => a - b);
  return {
    indices: Uint32Array.from(sorted, ([dimension]) => dimension),
    values: Float32Array.from(sorted, ([, weight]) => weight),
  };
}

/** Collections of odd seeds have negative weights. */
const isSignedIn = (seed: number): boolean => seed % 2 === 1;

const recordOf = remembered((seed, ordinal) => vectorOf(seed, ordinal, isSignedIn(seed)));

function truthOf(query: SparseVector, version: HammeredVersion, allowed: OrdinalBitmap | null) {
  const { seed, ordinals } = version;
  const weights = new Map(Array.from(query.indices, (dimension, i) => [dimension, query.values[i]]));
  const scores = new Map<number, number>();
  for (const ordinal of ordinals) {
    if (allowed !== null && !allowed.has(ordinal)) continue;
    const { indices, values } = recordOf(seed, ordinal);
    let score: number | undefined;
    for (let i = 0; i < indices.length; i++) {
      const weight = weights.get(indices[i]);
      if (weight !== undefined) score = (score ?? 0) + weight * values[i];
    }
    if (score !== undefined) scores.set(ordinal, score);
  }
  return scores;
}

function ask(reader: object, version: HammeredVersion, random: () => number): HammerAnswer {
  const query = vectorOf(Math.floor(random() * 2 ** 32), 1, random() < 0.2);
  const k = 1 + Math.floor(random() * 30);
  const some = someOf(version, random);
  const allowed = some && OrdinalBitmap.of(some);
  const isApproximate = random() < 0.2;
  const leg: SparseLeg = { kind: "sparse", ...query, threshold: isApproximate ? 0.4 : 0 };
  const options: LegOptions = { allowed, ofKey: null, isExact: false, ef: undefined };
  const question = `sparse k=${k} of ${query.indices.join()} allowed=${allowed?.count ?? "all"} threshold=${leg.threshold}`;
  const searches = sparseKind.search(reader as never, [leg], version, options);
  const found = finishAtOnce(searches.search(0, k));
  const truth = truthOf(query, version, allowed);
  const best = bestOf(truth, k);
  if (isApproximate) {
    // What it has must be right. How much it has is for benchmarks to say.
    const wrong = differenceOf(
      found,
      new Map(found.ordinals.map((each) => [each, truth.get(each) as number])),
    );
    return { question, ...(wrong !== undefined && { wrong }) };
  }
  const wrong =
    differenceOf(found, best) ??
    unexplained(searches, best, ({ matches }: { matches: { product: number }[] }) =>
      matches.map(({ product }) => product),
    );
  return { question, ...(wrong !== undefined && { wrong }) };
}

export const sparseDriver: HammerDriver = {
  kind: sparseKind,
  make: (_seed, { retire }) =>
    new SparseIndex({ levels: 64, bufferRecordsMax: 150, retire: retire && ((free) => retire(free)) }),
  add(index, seed, ordinal) {
    const { indices, values } = recordOf(seed, ordinal);
    (index as SparseIndex).add(ordinal, indices, values);
  },
  disturb: (index, random) => disturb(index as SparseIndex, random),
  check,
  ask,
};
