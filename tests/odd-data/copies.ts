// Data sets with zero vectors, copies and near copies.

import type { OddData } from "./odd-data.ts";
import { type Random, rowsOf, scaled, textLike } from "./random.ts";

const dimension = 64;

/** Rows like texts of which some are replaced. */
const texts = (random: Random, count: number): Float32Array[] =>
  rowsOf(count, textLike(random, dimension, 0));
const zero = () => new Float32Array(dimension);
const textQueries = (random: Random, count: number, rows: readonly Float32Array[]): Float32Array[] =>
  rowsOf(count, () => {
    const [a, b] = [random.pick(rows), random.pick(rows)];
    return a.map((value, i) => value + 0.3 * b[i] + 0.02 * random.normal());
  });

/** `count` rows, each a near copy of one of every `group`. */
function nearCopies(random: Random, count: number, noise: number): Float32Array[] {
  const originals = texts(random, Math.ceil(count / 60));
  return rowsOf(count, () => random.gaussian(dimension, noise, random.pick(originals)));
}

export const copies: readonly OddData[] = [
  {
    name: "two-zeros",
    why: "two empty texts in a crawl",
    dimension,
    rows: (random, count) => {
      const rows = texts(random, count);
      rows[Math.floor(count / 3)] = zero();
      rows[Math.floor((2 * count) / 3)] = zero();
      return rows;
    },
    queries: textQueries,
  },
  {
    name: "half-zeros",
    why: "half of the records have no text",
    dimension,
    rows: (random, count) => texts(random, count).map((row) => (random.below(2) === 0 ? zero() : row)),
    queries: textQueries,
  },
  {
    name: "zeros-first",
    why: "placeholders are imported before the real vectors, so that a sample has nothing else",
    dimension,
    rows: (random, count) => texts(random, count).map((row, i) => (i < 0.45 * count ? zero() : row)),
    queries: textQueries,
  },
  {
    name: "few-copies",
    why: "one record in twenty was imported twice",
    dimension,
    rows: (random, count) => {
      const rows = texts(random, count);
      return rows.map((row) => (random.below(20) === 0 ? random.pick(rows) : row).slice());
    },
  },
  {
    name: "nine-in-ten-copies",
    why: "passages of pages that share headers and menus",
    dimension,
    rows: (random, count) => {
      const originals = texts(random, Math.ceil(count / 10));
      return rowsOf(count, () => random.pick(originals).slice());
    },
  },
  {
    name: "one-in-four-the-same",
    why: "a quarter of a published corpus of embeddings was byte-identical",
    dimension,
    rows: (random, count) => {
      const rows = texts(random, count);
      return rows.map((row) => (random.below(4) === 0 ? rows[0].slice() : row));
    },
  },
  {
    name: "twenty-forty-times",
    why: "twenty popular texts are there forty times more",
    dimension,
    rows: (random, count) => {
      const more = Math.min(800, Math.floor(count / 2));
      const rows = texts(random, count - more);
      return random.shuffled([...rows, ...rowsOf(more, (i) => rows[i % 20].slice())]);
    },
  },
  {
    name: "imported-twice",
    why: "the whole import is repeated under new ids",
    dimension,
    rows: (random, count) => {
      const rows = texts(random, Math.ceil(count / 2));
      return [...rows, ...rows.map((row) => row.slice())].slice(0, count);
    },
    queries: textQueries,
  },
  {
    name: "copies-first",
    why: "a test record is imported many times before the real ones",
    dimension,
    rows: (random, count) => {
      const rows = texts(random, count);
      return rows.map((row, i) => (i < 0.45 * count ? rows[0].slice() : row));
    },
  },
  {
    name: "all-equal",
    why: "an embedding model that is broken answers always the same",
    dimension,
    rows: (random, count) => {
      const row = textLike(random, dimension, 0)();
      return rowsOf(count, () => row.slice());
    },
  },
  {
    name: "two-distinct",
    why: "a flag, embedded",
    dimension,
    rows: (random, count) => {
      const both = texts(random, 2);
      return rowsOf(count, () => random.pick(both).slice());
    },
  },
  {
    name: "copies-of-distinct-neighbours",
    why: "more copies of a vector than a beam is long, beside others that are nearly as near",
    dimension,
    rows: (random, count) => {
      const centres = rowsOf(5, () => random.gaussian(dimension));
      return rowsOf(count, (i) =>
        i % 2 === 0 ? centres[i % 5].slice() : random.gaussian(dimension, 0.05, random.pick(centres)),
      );
    },
  },
  ...[1e-7, 1e-6, 1e-4].map((noise) => ({
    name: `near-copies-${noise.toExponential()}`,
    why: "the same texts, embedded in batches of different sizes or on different processors",
    dimension,
    rows: (random: Random, count: number) => nearCopies(random, count, noise),
  })),
  {
    name: "copies-of-other-lengths",
    why: "the same directions, some normalised and some not",
    dimension,
    rows: (random, count) => {
      const originals = texts(random, Math.ceil(count / 8));
      return rowsOf(count, () => scaled(random.pick(originals), 2 ** random.uniform(-3, 3)));
    },
  },
  {
    name: "opposite-pairs",
    why: "axes of word analogies: each vector comes with its negative",
    dimension,
    rows: (random, count) => {
      const rows = rowsOf(Math.ceil(count / 2), () => random.gaussian(dimension));
      return rows.flatMap((row) => [row, scaled(row, -1)]).slice(0, count);
    },
  },
  {
    name: "copies-zeros-and-outliers",
    why: "a crawl as it comes: copies, empty texts, and a few vectors of another scale",
    dimension,
    rows: (random, count) => {
      const rows = texts(random, count);
      return rows.map((row) => {
        const fate = random.uniform();
        if (fate < 0.25) return rows[random.below(30)].slice();
        if (fate < 0.3) return zero();
        if (fate < 0.31) return scaled(row, random.uniform(50, 500));
        return row;
      });
    },
    queries: textQueries,
  },
];
