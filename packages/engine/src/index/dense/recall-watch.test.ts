import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, onTestFinished, test, vi } from "vitest";
import { AnsweringBuilders, LateBuilders } from "../../../test/index/dense/late-builders.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import type { Builders } from "../builders.ts";
import { HnswIndex } from "./hnsw-index.ts";
import { beamOfScan } from "./search-cost.ts";

const dimension = 4;
/** Too short a beam for the recall that is wanted. */
const efSearch = 8;

/** An index whose default beam finds too little, with builders that work when they are told. */
function hardIndex<Used extends Builders>(
  count: number,
  builders: Used,
  onMore?: () => void,
): { index: HnswIndex; builders: Used } {
  const random = randomNumbers(3);
  const index = new HnswIndex({
    dimension,
    metric: "euclidean",
    dataType: "f32",
    sampleCount: 1,
    efConstruction: 32,
    efSearch,
    builders,
    ...(onMore && { onMore }),
  });
  for (let n = 0; n < count; n++)
    index.add(n, bytesOfFloats(Float32Array.from({ length: dimension }, random)));
  return { index, builders };
}

test("[N15] the beam that is measured costs no more than a scan, at any moment of a build", () => {
  const { index, builders } = hardIndex(5_000, new LateBuilders());
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
  const { index, builders } = hardIndex(2_000, new LateBuilders());
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

test("[N14] a measurement that became due while a checkpoint was written begins after it, without a further write", () => {
  vi.useFakeTimers();
  onTestFinished(() => {
    vi.useRealTimers();
  });
  let isWoken = false;
  const { index, builders } = hardIndex(12_000, new AnsweringBuilders(), () => {
    isWoken = true;
  });
  /** As the indexer does it: it tidies when it is woken. */
  const work = () => {
    for (let turn = 0; turn < 100_000; turn++) {
      const hasWorked = builders.work();
      vi.advanceTimersByTime(hasWorked ? 1 : 60_000);
      const wasWoken = isWoken;
      isWoken = false;
      if (wasWoken) while (index.tidy());
      if (!hasWorked && !wasWoken) return;
    }
  };
  let end: (() => void) | undefined;
  for (let turn = 0; turn < 100_000 && index.tailCount > 256; turn++) builders.work();
  // The last job is being done. The checkpoint is written as soon as no builder works, and this takes longer than the watch waits for quiet.
  index.save((_state, _graphs, done) => {
    end = () => done(true);
  });
  work();
  expect(end).toBeDefined();
  end?.();
  work();
  expect(index.tailCount).toBe(0);
  expect(index.isSettled).toBe(true);
});
