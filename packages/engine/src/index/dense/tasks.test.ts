import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { expect, test } from "vitest";
import { exactNearest } from "../../../test/index/exact-nearest.ts";
import { asMap } from "../../../test/index/reference.ts";
import { finishAtOnce } from "../../base/steps.ts";
import { absent } from "../ordinal-map.ts";
import { type TruthRequest, truths } from "./tasks.ts";
import { VectorRows } from "./vector-rows.ts";

const truthOf = (request: TruthRequest) => finishAtOnce(truths.run(request, undefined));

/** Rows of one block, one after the other. */
const blockOf = (values: Float32Array, dimension: number, vectorKeys: Uint32Array) => ({
  bytes: new Uint8Array(values.buffer),
  rowBytes: 4 * dimension,
  vectorKeys,
});

test.each(metricNames)("[Q20] %s: truth in pieces is exact, with all ties with the last", (metric) => {
  // A piece has 256 rows. Rows repeat, so that in each piece some tie with the k-th best, and one piece has none.
  const [dimension, count] = [1_024, 1_000];
  const values = Float32Array.from({ length: dimension * count }, (_, i) => {
    const row = Math.floor(i / dimension);
    return ((row % 97) * ((i % 13) - 6) + ((row % 5) - 2) * ((i % 7) - 3)) * (row % 3 === 0 ? -1 : 1);
  });
  const keys = Uint32Array.from({ length: count }, (_, i) =>
    (i >= 256 && i < 512) || i % 11 === 0 ? absent : i,
  );
  const index = new VectorRows({ dimension, metric });
  const rowOf = (row: number) => values.slice(row * dimension, (row + 1) * dimension);
  for (const [row, key] of keys.entries()) if (key !== absent) index.add(key, rowOf(row));
  const queries = [0, 1, 5, 300, 999].map(rowOf);
  queries.push(
    rowOf(1).map((value) => -value),
    new Float32Array(dimension),
  );
  const k = 11;
  const found = truthOf({
    metric,
    dimension,
    rows: [blockOf(values, dimension, keys)],
    queries: Float32Array.from(queries.flatMap((query) => [...query])),
    k,
  });
  expect(found.map(asMap)).toEqual(queries.map((query) => asMap(exactNearest(index, query, k))));
});

test("[Q20] truth has all ties, however many", () => {
  const [dimension, count] = [4, 600_000];
  const values = new Float32Array(dimension * count);
  for (let row = 0; row < count; row++) values[row * dimension] = 1 + (row % 5);
  const rows = [
    blockOf(
      values,
      dimension,
      Uint32Array.from({ length: count }, (_, i) => i),
    ),
  ];
  const [found] = truthOf({ metric: "cosine", dimension, rows, queries: Float32Array.of(0, 1, 0, 0), k: 11 });
  expect(found.count).toBe(count);
});
