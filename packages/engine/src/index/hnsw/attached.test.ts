// Does a reader of another thread find all that its version sees, while the owner goes on?

import { randomNumbers } from "@quiver/kernels/random";
import { expect, test } from "vitest";
import { bytesOfFloats } from "../../vector/floats.ts";
import { HnswIndex } from "./hnsw-index.ts";
import { HnswReader } from "./hnsw-search.ts";
import { LateBuilders } from "./test/late-builders.ts";

test("a search finds k records although most of them were linked after the graphs were described", () => {
  const random = randomNumbers(1);
  const vectors = Array.from({ length: 2_000 }, () => Float32Array.from({ length: 8 }, random));
  const builders = new LateBuilders();
  const index = new HnswIndex({
    dimension: 8,
    metric: "euclidean",
    dataType: "f32",
    searchers: 2,
    sampleCount: 1,
    builders,
  });
  const addUpTo = (end: number) => {
    for (let n = index.count; n < end; n++) index.add(n, bytesOfFloats(vectors[n]));
  };
  const linkAll = () => {
    for (let turn = 0; turn < 10_000 && index.tailCount > 0; turn++) builders.work();
  };
  addUpTo(6);
  linkAll();
  addUpTo(20);
  const { descriptor } = index;
  expect(descriptor.vectors.graphs?.count).toBe(6);
  const reader = HnswReader.attach(descriptor, 1);
  addUpTo(vectors.length);
  linkAll();
  expect(index.tailCount).toBe(0);
  const visible = (ordinal: number) => ordinal < 20;
  const vectorOf = (ordinal: number) => vectors[ordinal];
  for (const k of [1, 5, 6, 7, 19, 20, 30])
    for (const query of vectors.slice(0, 50))
      expect(reader.search(query, k, { ef: 30, visible, vectorOf }).count).toBe(Math.min(k, 20));
});
