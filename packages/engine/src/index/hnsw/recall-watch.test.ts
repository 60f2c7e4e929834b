import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { bytesOfFloats } from "../../vector/floats.ts";
import { HnswIndex } from "./hnsw-index.ts";
import { beamOfScan } from "./search-cost.ts";
import { LateBuilders } from "./test/late-builders.ts";

const dimension = 4;
/** Too short a beam for the recall that is wanted. */
const efSearch = 8;

/** An index whose default beam finds too little, with builders that work when they are told. */
function hardIndex(count: number): { index: HnswIndex; builders: LateBuilders } {
  const random = randomNumbers(3);
  const builders = new LateBuilders();
  const index = new HnswIndex({
    dimension,
    metric: "euclidean",
    dataType: "f32",
    sampleCount: 1,
    efConstruction: 32,
    efSearch,
    builders,
  });
  for (let n = 0; n < count; n++)
    index.add(n, bytesOfFloats(Float32Array.from({ length: dimension }, random)));
  return { index, builders };
}

test("[N15] the beam that is measured costs no more than a scan, at any moment of a build", () => {
  const { index, builders } = hardIndex(5_000);
  const beams = new Set<number>();
  for (let turn = 0; turn < 100_000 && !(index.isSettled && index.isIdle && index.tailCount === 0); turn++) {
    builders.work();
    while (index.tidy());
    const { isReadingAll, efDefault } = index.reader;
    if (!isReadingAll) expect(efDefault).toBeLessThanOrEqual(beamOfScan(dimension, index.vectorCount));
    beams.add(isReadingAll ? 0 : efDefault);
    expect(index.quality?.ef ?? 0).toBeLessThanOrEqual(
      Math.max(efSearch, beamOfScan(dimension, index.vectorCount)),
    );
  }
  expect(index.tailCount).toBe(0);
  expect(index.isSettled).toBe(true);
  // It was read in full while it was young, and a beam that was measured to be too short was widened.
  expect(beams.has(0)).toBe(true);
  expect(Math.max(...beams)).toBeGreaterThan(efSearch);
});

test("[N14] an index is settled when all but a short tail is linked and what is linked was measured", () => {
  const { index, builders } = hardIndex(2_000);
  for (let turn = 0; turn < 100_000 && !index.isSettled; turn++) {
    builders.work();
    while (index.tidy());
  }
  expect(beamOfScan(dimension, index.tailCount)).toBeLessThanOrEqual(efSearch);
  expect(index.quality?.count).toBeGreaterThanOrEqual(1_800);
  // A few more records do not unsettle it; many do.
  const random = randomNumbers(4);
  const add = (count: number) => {
    for (let n = index.count, end = n + count; n < end; n++)
      index.add(n, bytesOfFloats(Float32Array.from({ length: dimension }, random)));
  };
  add(10);
  expect(index.isSettled).toBe(true);
  add(1_000);
  expect(index.isSettled).toBe(false);
});
