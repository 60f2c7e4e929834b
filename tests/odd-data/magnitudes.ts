// Which data has lengths or values of very different, or of extreme, size?

import type { OddData } from "./odd-data.ts";
import { type Random, rowsOf, scaled, textLike } from "./random.ts";

const dimension = 24;

/** Rows in clusters, times a factor for each. */
function lengthened(random: Random, count: number, factor: (i: number) => number): Float32Array[] {
  const centres = rowsOf(25, () => random.gaussian(dimension, 1));
  return rowsOf(count, (i) => scaled(random.gaussian(dimension, 0.5, random.pick(centres)), factor(i)));
}

const values = (value: () => number): Float32Array => Float32Array.from({ length: dimension }, value);

/** The greatest finite f32, and the least that is not zero. */
const f32Max = 3.4028234663852886e38;
const f32Least = 2 ** -149;

export const magnitudes: readonly OddData[] = [
  {
    name: "norms-over-six-decades",
    why: "counts and sums that were never normalised",
    dimension,
    rows: (random, count) => lengthened(random, count, () => 10 ** random.uniform(-3, 3)),
  },
  {
    name: "norms-ascending",
    why: "counters that grow with time",
    dimension,
    rows: (random, count) => lengthened(random, count, (i) => 0.01 + (10 * i) / count),
  },
  {
    name: "norms-descending",
    why: "records sorted by importance",
    dimension,
    rows: (random, count) => lengthened(random, count, (i) => 10.01 - (10 * i) / count),
  },
  {
    name: "norms-of-popularity",
    why: "factors of a recommender: a few items are a hundred times longer",
    dimension,
    rows: (random, count) => lengthened(random, count, () => (1 - random.uniform()) ** -0.8),
  },
  {
    name: "forty-times-longer",
    why: "one record was not normalised",
    dimension,
    rows: (random, count) => {
      const longest = random.below(count);
      return rowsOf(count, textLike(random, dimension, 1)).map((row, i) =>
        i === longest ? scaled(row, 40) : row,
      );
    },
  },
  {
    name: "cauchy",
    why: "values with tails so long that they have no mean",
    dimension,
    rows: (random, count) =>
      rowsOf(count, () => values(() => Math.tan(Math.PI * (random.uniform(0.001, 0.999) - 0.5)))),
  },
  {
    name: "lognormal",
    why: "prices, incomes, sizes of files",
    dimension,
    rows: (random, count) => rowsOf(count, () => values(() => Math.exp(1.5 * random.normal()))),
  },
  {
    name: "outlier-values",
    why: "one value in a thousand is a thousand times larger: a broken sensor",
    dimension,
    rows: (random, count) =>
      rowsOf(count, () => values(() => random.normal() * (random.below(1_000) === 0 ? 1_000 : 1))),
  },
  {
    name: "offset",
    why: "values with a large mean: 1,000 and a deviation of 1",
    dimension,
    rows: (random, count) => rowsOf(count, () => values(() => 1_000 + random.normal())),
  },
  {
    name: "own-offsets",
    why: "columns of a table, each about a mean of its own",
    dimension,
    rows: (random, count) => {
      const centre = random.gaussian(dimension, 100);
      return rowsOf(count, () => random.gaussian(dimension, 1, centre));
    },
  },
  {
    name: "one-dominant-dimension",
    why: "a time stamp among small numbers",
    dimension,
    rows: (random, count) =>
      rowsOf(count, () => {
        const row = random.gaussian(dimension);
        row[3] = random.uniform(0, 10_000);
        return row;
      }),
  },
  {
    name: "own-scales",
    why: "columns of a table in units of their own, over six decades",
    dimension,
    rows: (random, count) => {
      const scales = Array.from({ length: dimension }, (_, i) => 10 ** (-3 + (6 * i) / dimension));
      return rowsOf(count, () => Float32Array.from(scales, (scale) => scale * random.normal()));
    },
  },
  {
    name: "constant-dimensions",
    why: "half of the dimensions are padding",
    dimension,
    rows: (random, count) =>
      rowsOf(count, () => random.gaussian(dimension).map((value, i) => (i % 2 === 0 ? value : 5))),
  },
  {
    name: "denormal",
    why: "values of about 1e-44, where f32 has one digit left",
    dimension,
    rows: (random, count) => rowsOf(count, () => values(() => f32Least * Math.round(7 * random.normal()))),
  },
  {
    name: "tiny",
    why: "products of probabilities: values of about 1e-38",
    dimension,
    rows: (random, count) => rowsOf(count, () => values(() => 1e-38 * random.normal())),
  },
  {
    name: "small",
    why: "values of about 1e-20, whose squares are below f32",
    dimension,
    rows: (random, count) => rowsOf(count, () => values(() => 1e-20 * random.normal())),
  },
  {
    name: "large",
    why: "values of about 1e20, whose squares are beyond f32",
    dimension,
    rows: (random, count) => rowsOf(count, () => values(() => 1e20 * random.normal())),
  },
  {
    name: "huge",
    why: "placeholders near the greatest f32: sums and products overflow",
    dimension,
    rows: (random, count) => rowsOf(count, () => values(() => f32Max * random.uniform(-0.9, 0.9))),
  },
  {
    name: "every-magnitude",
    why: "records of different sources, from 1e-30 to 1e30",
    dimension,
    rows: (random, count) => lengthened(random, count, () => 10 ** random.uniform(-30, 30)),
  },
  {
    name: "a-few-huge",
    why: "a handful of broken records of 1e30 among ordinary ones",
    dimension,
    rows: (random, count) => {
      const broken = new Set(random.distinct(5, count));
      return rowsOf(count, textLike(random, dimension, 1)).map((row, i) =>
        broken.has(i) ? scaled(row, 1e30) : row,
      );
    },
  },
];
