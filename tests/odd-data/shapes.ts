// Which data has a special shape in its space, or only few values?

import type { OddData } from "./odd-data.ts";
import { type Random, rowsOf, scaled } from "./random.ts";

/** A linear map of few coordinates into many dimensions. */
function embedding(
  random: Random,
  from: number,
  to: number,
): (coordinates: readonly number[]) => Float32Array {
  const axes = rowsOf(from, () => random.direction(to));
  return (coordinates) =>
    Float32Array.from({ length: to }, (_, i) => {
      let sum = 0;
      for (let axis = 0; axis < from; axis++) sum += coordinates[axis] * axes[axis][i];
      return sum;
    });
}

const integers = (random: Random, dimension: number, end: number): Float32Array =>
  Float32Array.from({ length: dimension }, () => random.below(end));

export const shapes: readonly OddData[] = [
  {
    name: "line",
    why: "one measured quantity, on a straight line of many dimensions",
    dimension: 16,
    rows: (random, count) => {
      const place = embedding(random, 1, 16);
      return rowsOf(count, () => place([random.uniform(-1, 1)]));
    },
  },
  {
    name: "line-off-the-origin",
    why: "a price beside constants",
    dimension: 16,
    rows: (random, count) => {
      const [place, start] = [embedding(random, 1, 16), random.gaussian(16, 3)];
      return rowsOf(count, () => place([random.uniform(0, 10)]).map((value, i) => value + start[i]));
    },
  },
  {
    name: "circle",
    why: "hour of the day, weekday, compass direction",
    dimension: 16,
    rows: (random, count) => {
      const place = embedding(random, 2, 16);
      return rowsOf(count, () => {
        const angle = random.uniform(0, 2 * Math.PI);
        return place([Math.cos(angle), Math.sin(angle)]);
      });
    },
  },
  {
    name: "spiral",
    why: "states of a process that grows while it turns",
    dimension: 8,
    rows: (random, count) => {
      const place = embedding(random, 3, 8);
      return rowsOf(count, () => {
        const t = random.uniform(0, 12);
        return place([t * Math.cos(t), t * Math.sin(t), random.uniform(0, 5)]);
      });
    },
  },
  {
    name: "grid-2d",
    why: "pixels of a map, many at the same distance",
    dimension: 2,
    rows: (random, count) => {
      const side = Math.ceil(Math.sqrt(count));
      return random.shuffled(rowsOf(count, (i) => Float32Array.of(i % side, Math.floor(i / side))));
    },
  },
  {
    name: "grid-3d",
    why: "voxels of a scan, row after row",
    dimension: 3,
    rows: (_random, count) => {
      const side = Math.ceil(Math.cbrt(count));
      return rowsOf(count, (i) =>
        Float32Array.of(i % side, Math.floor(i / side) % side, Math.floor(i / side ** 2)),
      );
    },
  },
  {
    name: "integer-lattice",
    why: "answers of a questionnaire, 0 to 3 each",
    dimension: 8,
    rows: (random, count) => rowsOf(count, () => integers(random, 8, 4)),
  },
  {
    name: "permutations",
    why: "rankings: all of one length and of one mean",
    dimension: 16,
    rows: (random, count) => {
      const ranks = Array.from({ length: 16 }, (_, i) => i + 1);
      return rowsOf(count, () => Float32Array.from(random.shuffled(ranks)));
    },
  },
  {
    name: "bits",
    why: "binary fingerprints and hashes",
    dimension: 64,
    rows: (random, count) => rowsOf(count, () => integers(random, 64, 2)),
  },
  {
    name: "few-bits",
    why: "fingerprints of 16 bits: nearly all records have neighbours at distance 1",
    dimension: 16,
    rows: (random, count) => rowsOf(count, () => integers(random, 16, 2)),
  },
  {
    name: "sparse-bits",
    why: "tags: 4 of 64 are set",
    dimension: 64,
    rows: (random, count) =>
      rowsOf(count, () => {
        const row = new Float32Array(64);
        for (const i of random.distinct(4, 64)) row[i] = 1;
        return row;
      }),
  },
  {
    name: "signs",
    why: "binarised embeddings, -1 and 1",
    dimension: 32,
    rows: (random, count) => rowsOf(count, () => integers(random, 32, 2).map((bit) => 2 * bit - 1)),
  },
  {
    name: "one-hot",
    why: "a category, encoded",
    dimension: 64,
    rows: (random, count) =>
      rowsOf(count, () => {
        const row = new Float32Array(64);
        row[random.below(64)] = 1;
        return row;
      }),
  },
  {
    name: "one-hot-each-once",
    why: "ids, encoded: all are at the same distance",
    dimension: 512,
    count: 512,
    isFixed: true,
    rows: (random) =>
      random.shuffled(
        rowsOf(512, (i) => {
          const row = new Float32Array(512);
          row[i] = 1;
          return row;
        }),
      ),
    queries: (random, count, rows) => rowsOf(count, () => random.gaussian(512, 0.05, random.pick(rows))),
  },
  {
    name: "scaled-one-hot",
    why: "a category with an amount",
    dimension: 64,
    rows: (random, count) =>
      rowsOf(count, () => {
        const row = new Float32Array(64);
        row[random.below(64)] = 10 ** random.uniform(-2, 2);
        return row;
      }),
  },
  {
    name: "bytes",
    why: "SIFT descriptors and pixels: integers of 0 to 255, many of them 0",
    dimension: 64,
    rows: (random, count) => {
      const centres = rowsOf(40, () => random.gaussian(64, 60));
      return rowsOf(count, () =>
        random
          .gaussian(64, 30, random.pick(centres))
          .map((value) => Math.min(255, Math.max(0, Math.round(value)))),
      );
    },
  },
  {
    name: "rounded",
    why: "vectors that were stored with one decimal",
    dimension: 8,
    rows: (random, count) =>
      rowsOf(count, () => random.gaussian(8, 0.3).map((value) => Math.round(10 * value) / 10)),
  },
  {
    name: "rectified",
    why: "activations behind a ReLU: most values are 0, none is negative",
    dimension: 64,
    rows: (random, count) => {
      const centres = rowsOf(40, () => random.gaussian(64, 0.7));
      return rowsOf(count, () =>
        random.gaussian(64, 0.5, random.pick(centres)).map((value) => Math.max(0, value - 0.5)),
      );
    },
  },
  {
    name: "sphere",
    why: "evenly distributed directions",
    dimension: 12,
    rows: (random, count) => rowsOf(count, () => random.direction(12)),
  },
  {
    name: "shell",
    why: "directions with lengths that differ by a hair",
    dimension: 12,
    rows: (random, count) =>
      rowsOf(count, () => scaled(random.direction(12), 10 * (1 + 1e-4 * random.uniform()))),
  },
  {
    name: "simplex",
    why: "probabilities of topics, which sum to 1",
    dimension: 20,
    rows: (random, count) =>
      rowsOf(count, () => {
        const shares = Array.from({ length: 20 }, () => (-Math.log(1 - random.uniform())) ** 3);
        const sum = shares.reduce((total, share) => total + share, 0);
        return Float32Array.from(shares, (share) => share / sum);
      }),
  },
  {
    name: "low-rank",
    why: "three quantities behind many dimensions",
    dimension: 64,
    rows: (random, count) => {
      const place = embedding(random, 3, 64);
      return rowsOf(count, () => place([random.normal(), random.normal(), random.normal()]));
    },
  },
  {
    name: "uniform",
    why: "no structure at all",
    dimension: 16,
    rows: (random, count) =>
      rowsOf(count, () => Float32Array.from({ length: 16 }, () => random.uniform(-1, 1))),
  },
  ...[1, 2, 3].map((dimension) => ({
    name: `dimension-${dimension}`,
    why: ["a single number", "places on a plane", "places in space"][dimension - 1],
    dimension,
    rows: (random: Random, count: number) => rowsOf(count, () => random.gaussian(dimension)),
  })),
  {
    name: "ratings",
    why: "one number of 1 to 5",
    dimension: 1,
    rows: (random, count) => rowsOf(count, () => Float32Array.of(1 + random.below(5))),
  },
];
