// How far are some rows of blocks from a query, exactly?

import type { Metric } from "../../vector/metric.ts";
import { absent } from "../ordinal-map.ts";
import { type Block, sumsRows } from "./block.ts";

/** Where rows are: slot s is row s mod capacity of block floor(s / capacity). */
export type Slots = {
  readonly blocks: readonly Block[];
  readonly capacity: number;
  /** The slot of the record at place i of the list; `absent`: it is not held. */
  slotOf(i: number): number;
};

/** Slots whose distances are computed at a time, the rows of them that are in one block, and the places of those. */
const slots = new Float64Array(sumsRows);
const rows = new Uint32Array(sumsRows);
const places = new Uint32Array(sumsRows);

/** Writes the exact distances of `count` records; NaN for those that are not held. `query` is borrowed. */
export function exactDistances(
  metric: Metric,
  query: Float32Array,
  count: number,
  distances: Float64Array,
  { blocks, capacity, slotOf }: Slots,
): void {
  const { exactKind } = metric;
  const distanceOf = metric.distanceOfSums(query);
  for (let from = 0; from < count; from += sumsRows) {
    const length = Math.min(sumsRows, count - from);
    for (let i = 0; i < length; i++) slots[i] = slotOf(from + i);
    distances.fill(Number.NaN, from, from + length);
    for (let number = 0; number < blocks.length; number++) {
      const first = number * capacity;
      let rowCount = 0;
      for (let i = 0; i < length; i++) {
        const row = slots[i] - first;
        if (slots[i] === absent || row < 0 || row >= capacity) continue;
        rows[rowCount] = row;
        places[rowCount++] = from + i;
      }
      if (rowCount === 0) continue;
      blocks[number].setQuery(query);
      const sums = blocks[number].exactSums(rows, rowCount, exactKind);
      for (let i = 0; i < rowCount; i++) distances[places[i]] = distanceOf(sums[2 * i], sums[2 * i + 1]);
    }
  }
}
