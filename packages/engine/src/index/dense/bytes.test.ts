// Does a vector take the number of bytes stated in docs/guide/search.md?

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { bytesOfFloats } from "../../vector/floats.ts";
import { type HnswDataType, hnswDataTypes } from "./code-types.ts";
import { HnswIndex } from "./hnsw-index.ts";

const page = readFileSync(new URL("../../../../../docs/guide/search.md", import.meta.url), "utf8");
const dimensions = [100, 768, 1_536];

/** The row of the page's table for a type. */
function documented(dataType: HnswDataType): number[] {
  const row = page.match(new RegExp(`^\\| ${dataType} \\|(.*)\\|$`, "m"));
  if (row === null) throw new Error(`the page has no row for ${dataType}`);
  return row[1].split("|").map(Number);
}

test.each(hnswDataTypes)("%s: bytes of codes and links are those of the documentation", (dataType) => {
  const expected = documented(dataType);
  for (const [i, dimension] of dimensions.entries()) {
    const row = new Float32Array(dimension);
    const index = new HnswIndex({
      dimension,
      metric: "euclidean",
      dataType,
      efConstruction: 4,
      sampleCount: 10,
      measures: false,
    });
    const bytesAt: number[] = [];
    for (let ordinal = 0; ordinal < 4_000; ordinal++) {
      row[ordinal % dimension] += 1;
      index.add(ordinal, bytesOfFloats(row));
      if (ordinal === 999 || ordinal === 3_999) bytesAt.push(index.graphs[0].memoryBytes);
    }
    const measured = (bytesAt[1] - bytesAt[0]) / 3_000;
    expect(Math.abs(measured / expected[i] - 1)).toBeLessThan(0.015);
    index.close();
  }
});
