// Which real data was reported to be searched badly?
//
// 256-dimensional text vectors of a public set (where that is absent, these are skipped), and a large set of few distinct rows.

import { isAbsent, readF32 } from "../../packages/engine/test/index/reference-data.ts";
import type { OddData } from "./odd-data.ts";
import { type Random, rowsOf } from "./random.ts";

const dimension = 256;
const set = "scifact";
const absent = () => (isAbsent(set) ? `the data set ${set} is not in ../shared/data` : undefined);
const texts = (count: number) => readF32(`${set}/corpus.lsa256.f32`, dimension).rows.slice(0, count);
const queries = (random: Random, count: number) =>
  random.shuffled(readF32(`${set}/queries.lsa256.f32`, dimension).rows).slice(0, count);

const cosineTexts = {
  dimension,
  isFixed: true,
  metrics: ["cosine"],
  absent,
  queries,
} as const;

export const reported: readonly OddData[] = [
  {
    ...cosineTexts,
    name: "texts",
    why: "1,398 text vectors",
    count: 1_398,
    rows: () => texts(1_398),
  },
  {
    ...cosineTexts,
    name: "texts-two-zeros",
    why: "1,398 text vectors and two empty texts",
    count: 1_400,
    rows: () => {
      const rows = texts(1_398);
      for (const place of [400, 900]) rows.splice(place, 0, new Float32Array(dimension));
      return rows;
    },
  },
  {
    ...cosineTexts,
    name: "texts-forty-times",
    why: "1,033 text vectors, 20 of them 40 times more",
    count: 1_833,
    rows: (random) => {
      const rows = texts(1_033);
      return random.shuffled([...rows, ...rowsOf(800, (i) => rows[i % 20].slice())]);
    },
  },
  {
    name: "fifty-thousand-of-few",
    why: "50,000 rows, 4,347 of them distinct",
    dimension: 64,
    count: 50_000,
    isFixed: true,
    isLarge: true,
    metrics: ["cosine"],
    rows: (random, count) => {
      const distinct = rowsOf(4_347, () => random.gaussian(64));
      // Each at least once, the others by a power law, as pages are copied.
      return random.shuffled(
        rowsOf(count, (i) => distinct[i < 4_347 ? i : Math.floor(4_347 * random.uniform() ** 3)].slice()),
      );
    },
    queries: (random, count, rows) => rowsOf(count, () => random.pick(rows)),
  },
];
