// Which queries are unlike the data that they search?

import type { OddData } from "./odd-data.ts";
import { type Random, rowsOf, scaled, textLike } from "./random.ts";

const dimension = 32;

/** Text-like rows with other queries. */
const foreign = (
  name: string,
  why: string,
  query: (random: Random, row: Float32Array) => Float32Array,
): OddData => ({
  name,
  why,
  dimension,
  rows: (random, count) => rowsOf(count, textLike(random, dimension, 1)),
  queries: (random, count, rows) => rowsOf(count, () => query(random, random.pick(rows))),
});

export const foreignQueries: readonly OddData[] = [
  foreign("queries-far-away", "queries of another scale and place", (random) =>
    random.gaussian(dimension, 100),
  ),
  foreign("queries-zero", "an empty text is asked for", () => new Float32Array(dimension)),
  foreign("queries-opposite", "what is least like this?", (_random, row) => scaled(row, -1)),
  foreign("queries-tiny", "queries a billion times shorter", (_random, row) => scaled(row, 1e-9)),
  foreign("queries-long", "queries a million times longer", (random, row) =>
    scaled(random.gaussian(dimension, 0.02, row), 1e6),
  ),
  foreign("queries-of-one-value", "a query with a single value that is not zero", (random) => {
    const query = new Float32Array(dimension);
    query[random.below(dimension)] = random.normal();
    return query;
  }),
  foreign("queries-of-huge-values", "queries near the greatest f32", (random, row) =>
    scaled(random.gaussian(dimension, 0.02, row), 1e38),
  ),
  {
    name: "queries-of-another-kind",
    why: "texts that search pictures: their vectors lie in a cone of their own",
    dimension,
    rows: (random, count) => rowsOf(count, textLike(random, dimension, 1)),
    queries: (random, count) => rowsOf(count, textLike(random, dimension, 1)),
  },
];
