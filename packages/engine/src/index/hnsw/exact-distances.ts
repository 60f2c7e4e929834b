// How far are some rows of blocks from a query, exactly?

import type { Metric } from "../../vector/metric.ts";
import { absent } from "../ordinal-map.ts";
import { type Block, type BlockLayout, sumsRows } from "./row-block.ts";

/** Where rows are: slot s is row s mod 2^rowBits of block s / 2^rowBits. */
export type Rows = {
  readonly metric: Metric;
  readonly layout: BlockLayout;
  /** By number. */
  readonly blocks: readonly (Block | undefined)[];
};

/** The rows of a call that are in one block, and their places in the list. */
const rows = new Uint32Array(sumsRows);
const places = new Uint32Array(sumsRows);

/** Writes the exact distances of the rows in the first `count` slots; NaN where a slot is `absent`. `query` is borrowed. */
export function exactDistances(
  { metric, layout: { rowBits }, blocks }: Rows,
  query: Float32Array,
  slots: Uint32Array,
  count: number,
  distances: Float64Array,
): void {
  const { exactKind } = metric;
  const distanceOf = metric.distanceOfSums(query);
  const rowMask = 2 ** rowBits - 1;
  distances.fill(Number.NaN, 0, count);
  for (let from = 0; from < count; from += sumsRows) {
    const end = Math.min(from + sumsRows, count);
    for (let number = 0; number < blocks.length; number++) {
      const block = blocks[number];
      if (block === undefined) continue;
      let rowCount = 0;
      for (let i = from; i < end; i++) {
        const slot = slots[i];
        if (slot >>> rowBits !== number || slot === absent) continue;
        rows[rowCount] = slot & rowMask;
        places[rowCount++] = i;
      }
      if (rowCount === 0) continue;
      block.setQuery(query);
      const sums = block.exactSums(rows, rowCount, exactKind);
      for (let i = 0; i < rowCount; i++) distances[places[i]] = distanceOf(sums[2 * i], sums[2 * i + 1]);
    }
  }
}
