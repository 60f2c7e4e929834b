// What do the vectors of a learned sparse encoder look like?
//
// Generated to resemble SPLADE's vectors: a vocabulary of word pieces, 120 of them for a passage and 40 for a query.
//
//   which     Pieces are used as unequally as words are (Zipf's law, with a flattened head). A passage has a topic, and
//             most of its pieces are the topic's; the rest come from the whole vocabulary. Queries are made alike.
//   weights   log(1 + x), x log-normal: many are small and few are large. The topic's own pieces, and rare ones, weigh
//             more.
//
// Each row depends on the seed and its place only, not on how many there are.

import { randomNumbers } from "../../packages/kernels/src/random.ts";
import type { SparseVector } from "../engines/engine.ts";
import { normal } from "../shared/random.ts";

export const vocabulary = 30_522;
export const rowEntries = 120;
export const queryEntries = 40;

/** How unequally pieces are used: p(rank) ~ 1 / (rank + flattened) ** steepness. */
export type Use = { readonly flattened: number; readonly steepness: number };

/** As of words. */
const words: Use = { flattened: 60, steepness: 0.9 };

/**
 * As of learned expansions, which have the most common pieces in common: with 44 entries in a record, a list of the average query of 46 has
 * a tenth of all records, like those that were measured with a real encoder.
 */
export const expansions: Use = { flattened: 10, steepness: 1.1 };

const topicCount = 2_000;
const topicPieces = 400;
/** Of the pieces of a row. */
const topicShareUsual = 0.65;
/** The standard deviations of log x. */
export const rowSpread = 0.7;
export const querySpread = 0.9;

export const seeds = { model: 71, rows: 72, queries: 73 };

type Model = {
  /** Running sum of the ranks' probabilities; the last is 1. */
  readonly cumulative: Float64Array;
  /** Rank -> dimension, so that the number of a dimension does not reveal its frequency. */
  readonly dimensions: Uint32Array;
  /** Ranks, the most typical first. */
  readonly topics: readonly Uint32Array[];
};

function rankOf(cumulative: Float64Array, share: number): number {
  let [low, high] = [0, cumulative.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (cumulative[middle] > share) high = middle;
    else low = middle + 1;
  }
  return low;
}

function makeModel({ flattened, steepness }: Use): Model {
  const next = randomNumbers(seeds.model);
  const cumulative = new Float64Array(vocabulary);
  let sum = 0;
  for (let rank = 0; rank < vocabulary; rank++) {
    sum += (rank + flattened) ** -steepness;
    cumulative[rank] = sum;
  }
  for (let rank = 0; rank < vocabulary; rank++) cumulative[rank] /= sum;
  const dimensions = Uint32Array.from({ length: vocabulary }, (_, i) => i);
  for (let i = vocabulary - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [dimensions[i], dimensions[j]] = [dimensions[j], dimensions[i]];
  }
  const topics = Array.from({ length: topicCount }, () =>
    Uint32Array.from({ length: topicPieces }, () => rankOf(cumulative, next())),
  );
  return { cumulative, dimensions, topics };
}

/** What vectors are drawn. */
export type Draw = {
  /** Their mean number of entries. */
  readonly entries: number;
  /** The standard deviation of the logarithm of that number; 0: all have the same. */
  readonly entriesSpread?: number;
  /** Share of a vector's pieces that are its topic's; 0: all are drawn alike, and no two dimensions have anything to do with each other. */
  readonly topicShare?: number;
  /** Default: as words are. */
  readonly use?: Use;
  /** The standard deviation of log x. */
  readonly spread: number;
  readonly seed: number;
};

/** Yields vectors; each depends on the seed and its place only. */
function vectorMaker({
  entries,
  entriesSpread = 0,
  topicShare = topicShareUsual,
  use = words,
  spread,
  seed,
}: Draw): () => SparseVector {
  const { cumulative, dimensions, topics } = makeModel(use);
  const next = randomNumbers(seed);
  const gauss = normal(seed + 1_000);
  const size = (): number => {
    if (entriesSpread === 0) return entries;
    // The mean of a log-normal number is exp(spread^2 / 2) times its median.
    const drawn = entries * Math.exp(entriesSpread * gauss() - entriesSpread ** 2 / 2);
    return Math.min(vocabulary / 16, Math.max(1, Math.round(drawn)));
  };
  return () => {
    const topic = topics[Math.floor(next() * topicCount)];
    const weights = new Map<number, number>();
    const wanted = size();
    while (weights.size < wanted) {
      // The square makes a topic's first pieces the most frequent.
      const typical = next() < topicShare ? next() ** 2 : undefined;
      const rank =
        typical === undefined ? rankOf(cumulative, next()) : topic[Math.floor(typical * topicPieces)];
      const dimension = dimensions[rank];
      if (weights.has(dimension)) continue;
      const rarity = Math.log(2 + rank / use.flattened);
      const scale = 0.25 * rarity * (typical === undefined ? 0.6 : 1.6 - typical);
      weights.set(dimension, Math.log1p(scale * Math.exp(spread * gauss())));
    }
    const indices = Uint32Array.from(weights.keys()).sort();
    return { indices, values: Float32Array.from(indices, (dimension) => weights.get(dimension) as number) };
  };
}

export const makeVectors = (count: number, draw: Draw): SparseVector[] => {
  const next = vectorMaker(draw);
  return Array.from({ length: count }, () => next());
};

/** Yields the rows of the generated set. */
export const rowMaker = (): (() => SparseVector) =>
  vectorMaker({ entries: rowEntries, spread: rowSpread, seed: seeds.rows });

export const makeQueries = (count: number): SparseVector[] =>
  makeVectors(count, { entries: queryEntries, spread: querySpread, seed: seeds.queries });
