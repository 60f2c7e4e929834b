// Which data arrives in an order that is not random, or changes with time?

import type { OddData } from "./odd-data.ts";
import { rowsOf, scaled, textLike } from "./random.ts";

const dimension = 24;

export const arrivals: readonly OddData[] = [
  {
    name: "clusters-in-turn",
    why: "one source after the other is imported",
    dimension,
    rows: (random, count) => {
      const centres = rowsOf(15, () => random.gaussian(dimension, 5));
      return rowsOf(count, (i) => random.gaussian(dimension, 0.5, centres[Math.floor((15 * i) / count)]));
    },
  },
  {
    name: "tight-clusters-in-turn",
    why: "videos, frame by frame: clusters that are small and far from each other",
    dimension,
    rows: (random, count) => {
      const centres = rowsOf(8, () => random.gaussian(dimension, 50));
      return rowsOf(count, (i) => random.gaussian(dimension, 0.01, centres[Math.floor((8 * i) / count)]));
    },
  },
  {
    name: "sorted",
    why: "rows of a table, sorted by their first column",
    dimension,
    rows: (random, count) =>
      rowsOf(count, () => random.gaussian(dimension).map((value, i) => (i === 0 ? 10 * value : value))).sort(
        (a, b) => a[0] - b[0],
      ),
  },
  {
    name: "sorted-line",
    why: "readings of a sensor that only rises",
    dimension: 4,
    rows: (_random, count) => rowsOf(count, (i) => Float32Array.of(i, 2 * i, -i, 0.5 * i)),
  },
  {
    name: "random-walk",
    why: "states of a system, each near the one before",
    dimension,
    rows: (random, count) => {
      const state = new Float32Array(dimension);
      return rowsOf(count, () => state.map((_, i) => (state[i] += 0.1 * random.normal())));
    },
  },
  {
    name: "windows-of-a-series",
    why: "overlapping windows of a time series",
    dimension,
    rows: (random, count) => {
      let level = 0;
      const series = Float32Array.from({ length: count + dimension }, (_, t) => {
        level += 0.3 * random.normal();
        return level + 3 * Math.sin(t / 15);
      });
      return rowsOf(count, (i) => series.slice(i, i + dimension));
    },
  },
  {
    name: "range-grows-tenfold",
    why: "the scale of the model's output changes after codes were calibrated",
    dimension,
    rows: (random, count) =>
      rowsOf(count, textLike(random, dimension, 1)).map((row, i) => (i < count / 2 ? row : scaled(row, 10))),
  },
  {
    name: "range-grows-thousandfold",
    why: "meters, and then millimeters",
    dimension,
    rows: (random, count) => rowsOf(count, (i) => random.gaussian(dimension, i < count / 2 ? 1 : 1_000)),
  },
  {
    name: "range-shrinks",
    why: "millimeters, and then meters",
    dimension,
    rows: (random, count) => rowsOf(count, (i) => random.gaussian(dimension, i < count / 2 ? 1_000 : 1)),
  },
  {
    name: "centre-moves",
    why: "a new model, whose vectors lie elsewhere, takes over",
    dimension,
    rows: (random, count) => {
      const [before, after] = [random.gaussian(dimension, 20), random.gaussian(dimension, 20)];
      return rowsOf(count, (i) => random.gaussian(dimension, 1, i < count / 2 ? before : after));
    },
  },
  {
    name: "other-dimensions-later",
    why: "the first records use half of the dimensions, the later ones the other half",
    dimension,
    rows: (random, count) =>
      rowsOf(count, (row) =>
        random.gaussian(dimension).map((value, i) => (i < dimension / 2 === row < count / 2 ? value : 0)),
      ),
  },
];
