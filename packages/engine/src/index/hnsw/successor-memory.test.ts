// When does a dense index build graphs beside those that serve, and whose memory do they take?

import { expect, test } from "vitest";
import { bytesOfFloats } from "../../vector/floats.ts";
import { HnswIndex } from "./hnsw-index.ts";

const dimension = 16;

const vectorOf = (ordinal: number) =>
  Float32Array.from(
    { length: dimension },
    (_, i) => (ordinal < 200 ? 1 : 20) * Math.sin(ordinal * 1.37 * (i + 1)),
  );

/** An index whose codes lose much: the range suits the first vectors, by which they are calibrated, and cuts the others off. */
function filled(mayTake: (bytes: number) => boolean): { index: HnswIndex; notices: string[] } {
  const notices: string[] = [];
  const index = new HnswIndex({
    dimension,
    metric: "euclidean",
    dataType: "u8",
    range: { min: -1, max: 1 },
    sampleCount: 200,
    efConstruction: 32,
    mayTake,
    readVector: (ordinal) => bytesOfFloats(vectorOf(ordinal)),
    onNotice: (notice) => notices.push(notice),
  });
  for (let ordinal = 0; ordinal < 3_000; ordinal++) index.add(ordinal, bytesOfFloats(vectorOf(ordinal)));
  for (let i = 0; i < 1_000 && index.tidy(); i++);
  return { index, notices };
}

test("[R14] a successor for which there is no memory is not begun, told once, and built when there is", () => {
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

test("[R13] graphs whose vectors were mostly removed are built anew, and their memory comes back", () => {
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
