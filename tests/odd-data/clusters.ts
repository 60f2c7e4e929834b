// Which data lies in clusters that differ, or far from everything else?

import type { OddData } from "./odd-data.ts";
import { type Random, rowsOf, textLike } from "./random.ts";

const dimension = 24;

const centresOf = (random: Random, count: number, sigma: number): Float32Array[] =>
  rowsOf(count, () => random.gaussian(dimension, sigma));

export const clusters: readonly OddData[] = [
  {
    name: "clusters",
    why: "ordinary embeddings: clusters of like sizes",
    dimension,
    rows: (random, count) => {
      const centres = centresOf(random, 30, 2);
      return rowsOf(count, () => random.gaussian(dimension, 0.7, random.pick(centres)));
    },
  },
  {
    name: "clusters-of-other-density",
    why: "product pictures and holiday pictures: some kinds differ ten thousand times less",
    dimension,
    rows: (random, count) => {
      const centres = centresOf(random, 20, 3);
      return rowsOf(count, () => {
        const i = random.below(20);
        return random.gaussian(dimension, 10 ** (-4 + (i % 5)), centres[i]);
      });
    },
  },
  {
    name: "dense-cluster-and-far-points",
    why: "most records are alike, and a few are of another source",
    dimension,
    rows: (random, count) => {
      const centre = random.gaussian(dimension);
      const far = new Set(random.distinct(12, count));
      return rowsOf(count, (i) =>
        far.has(i) ? random.gaussian(dimension, 300) : random.gaussian(dimension, 0.05, centre),
      );
    },
  },
  {
    name: "lonely-points",
    why: "one record in fifty is noise, far from all",
    dimension,
    rows: (random, count) => {
      const centres = centresOf(random, 10, 1);
      return rowsOf(count, () =>
        random.below(50) === 0
          ? random.gaussian(dimension, 100)
          : random.gaussian(dimension, 0.3, random.pick(centres)),
      );
    },
  },
  {
    name: "two-far-clusters",
    why: "two languages that a model keeps apart",
    dimension,
    rows: (random, count) => {
      const centres = centresOf(random, 2, 1_000);
      return rowsOf(count, () => random.gaussian(dimension, 1, random.pick(centres)));
    },
  },
  {
    name: "hundred-tight-clusters",
    why: "frames of a hundred videos, each nearly a still",
    dimension,
    rows: (random, count) => {
      const centres = centresOf(random, 100, 10);
      return rowsOf(count, () => random.gaussian(dimension, 1e-3, random.pick(centres)));
    },
  },
  {
    name: "clusters-of-zipf-sizes",
    why: "a few topics have most of the records, most topics a few",
    dimension,
    rows: (random, count) => {
      const centres = centresOf(random, 300, 2);
      return rowsOf(count, () =>
        random.gaussian(dimension, 0.2, centres[Math.floor(300 ** random.uniform()) - 1]),
      );
    },
  },
  {
    name: "opposite-clusters",
    why: "praise and blame: two clusters in opposite directions",
    dimension,
    rows: (random, count) => {
      const centre = random.direction(dimension);
      return rowsOf(count, () => {
        const sign = random.below(2) === 0 ? -1 : 1;
        return random.gaussian(
          dimension,
          0.1,
          centre.map((value) => 3 * sign * value),
        );
      });
    },
  },
  {
    name: "hierarchical",
    why: "a taxonomy: clusters of clusters of clusters",
    dimension,
    rows: (random, count) => {
      const grow = (parents: readonly Float32Array[], children: number, sigma: number) =>
        parents.flatMap((parent) => rowsOf(children, () => random.gaussian(dimension, sigma, parent)));
      const leaves = grow(grow(centresOf(random, 5, 10), 6, 1), 8, 0.1);
      return rowsOf(count, () => random.gaussian(dimension, 0.01, random.pick(leaves)));
    },
  },
  {
    name: "hubs",
    why: "a few records near the middle are near to everything: a known trait of many dimensions",
    dimension: 64,
    rows: (random, count) =>
      rowsOf(count, () => {
        const row = random.direction(64);
        return random.below(100) === 0 ? row.map((value) => 0.1 * value) : row;
      }),
  },
  {
    name: "text-like",
    why: "embeddings of texts fill a narrow cone",
    dimension: 64,
    rows: (random, count) => rowsOf(count, textLike(random, 64, 1)),
  },
  {
    name: "narrow-cone",
    why: "embeddings of a model that was not trained for search: all cosines are above 0.99",
    dimension: 64,
    rows: (random, count) => {
      const axis = random.direction(64);
      return rowsOf(count, () => random.gaussian(64, 0.01, axis));
    },
  },
];
