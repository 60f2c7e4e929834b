// When does a dense index build a successor, and how is its memory accounted?

import { expect, test } from "vitest";
import { LateBuilders } from "../../../test/index/dense/late-builders.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { type Builders, InPlaceBuilders } from "../builders.ts";
import { HnswIndex } from "./hnsw-index.ts";

const dimension = 16;

const vectorOf = (ordinal: number) =>
  Float32Array.from(
    { length: dimension },
    (_, i) => (ordinal < 200 ? 1 : 20) * Math.sin(ordinal * 1.37 * (i + 1)),
  );

/** An index whose codes lose much: the range suits the first vectors, by which they are calibrated, and cuts the others off. */
function filled(
  mayTake: (bytes: number) => boolean,
  builders: Builders = new InPlaceBuilders(),
  count = 3_000,
): { index: HnswIndex; notices: string[] } {
  const notices: string[] = [];
  const index = new HnswIndex({
    dimension,
    metric: "euclidean",
    dataType: "u8",
    range: { min: -1, max: 1 },
    sampleCount: 200,
    efConstruction: 32,
    mayTake,
    builders,
    readVector: (ordinal) => bytesOfFloats(vectorOf(ordinal)),
    onNotice: (notice) => notices.push(notice),
  });
  for (let ordinal = 0; ordinal < count; ordinal++) index.add(ordinal, bytesOfFloats(vectorOf(ordinal)));
  for (let i = 0; i < 1_000 && index.tidy(); i++);
  return { index, notices };
}

test("[R14] a successor without memory is not started, reported once, and built when there is memory", () => {
  let isRoom = false;
  const { index, notices } = filled(() => isRoom);
  expect(index.isPostponed).toBe(true);
  expect(index.encoding?.range).not.toBeNull();
  expect(notices.filter((notice) => notice.includes("no room"))).toHaveLength(1);
  const before = index.graphBytes;
  isRoom = true;
  for (let i = 0; i < 1_000 && index.tidy(); i++);
  expect(index.isPostponed).toBe(false);
  expect(index.encoding?.range).toBeNull();
  index.check();
  // The graphs that served are gone.
  expect(index.graphBytes).toBeLessThan(1.05 * before);
  expect(index.expectedBytes(0)).toBeLessThan(1.05 * index.memoryBytes);
  index.close();
});

test("[R13] graphs whose vectors were mostly removed are rebuilt, and their memory is released", () => {
  const index = new HnswIndex({
    dimension,
    metric: "euclidean",
    dataType: "u8",
    sampleCount: 200,
    efConstruction: 32,
  });
  const row = new Float32Array(dimension);
  for (let ordinal = 0; ordinal < 4_000; ordinal++) {
    for (let i = 0; i < dimension; i++) row[i] = Math.sin(ordinal * 1.37 * (i + 1));
    index.add(ordinal, bytesOfFloats(row));
  }
  for (let i = 0; i < 1_000 && index.tidy(); i++);
  const filledBytes = index.graphBytes;
  for (let ordinal = 0; ordinal < 4_000; ordinal++) if (ordinal % 10 !== 0) index.remove(ordinal);
  for (let i = 0; i < 1_000 && index.tidy(); i++);
  index.check();
  expect(index.count).toBe(400);
  expect(index.graphBytes).toBeLessThan(filledBytes / 3);
  index.close();
});

test("a checkpoint requested while a successor is built ends once, whoever hands it out", () => {
  const ends = new Set<string>();
  // The later it is requested, the more jobs the successor has behind it.
  for (let jobsBefore = 0; jobsBefore < 8; jobsBefore++) {
    const builders = new LateBuilders();
    const { index } = filled(() => true, builders, 1_000);
    const workUntil = (isThere: () => boolean) => {
      for (let i = 0; i < 1_000 && !isThere(); i++) {
        builders.work();
        index.tidy();
      }
      expect(isThere()).toBe(true);
    };
    workUntil(() => index.successorType !== undefined);
    for (let i = 0; i < jobsBefore; i++) builders.work();
    // The serving graphs get a job, which the checkpoint must wait for.
    index.add(1_000, bytesOfFloats(vectorOf(1_000)));
    const told: string[] = [];
    index.save(
      (state, graphs, done) => {
        told.push(
          `${graphs.length} graph ${state.encoding.range === null ? "of the successor" : "of the old"}`,
        );
        done(true);
      },
      () => told.push("dropped"),
    );
    workUntil(() => index.encoding?.range === null && index.isIdle);
    expect(told).toHaveLength(1);
    ends.add(told[0]);
    index.check();
    index.close();
  }
  expect([...ends].sort()).toEqual(["1 graph of the old", "1 graph of the successor"]);
});
