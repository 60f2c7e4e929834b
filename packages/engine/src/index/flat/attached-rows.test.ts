// Does a thread that reads rows get right distances or none, whatever the owner does to them meanwhile?

import { once } from "node:events";
import { setImmediate as turn } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { bytesOfFloats } from "../../vector/floats.ts";
import { metrics } from "../../vector/metrics.ts";
import { AttachedRows } from "./attached-rows.ts";
import { FlatIndex } from "./flat-index.ts";
import { dimension, isReader, ordinalCount, type Report, vectorOf } from "./testing/reading-thread.ts";

const newIndex = () => new FlatIndex({ dimension, metric: "euclidean", isUnordered: true, readers: 2 });
const put = (index: FlatIndex, ordinal: number) => index.add(ordinal, bytesOfFloats(vectorOf(ordinal)));

test("a distance is of the row that was asked for while rows are added, moved, overwritten and exchanged", async () => {
  const random = randomNumbers(3);
  const index = newIndex();
  for (let ordinal = 0; ordinal < ordinalCount; ordinal++) put(index, ordinal);
  const thread = new Worker(new URL("./testing/reading-thread.ts", import.meta.url), {
    workerData: isReader,
  });
  let report: Report | undefined;
  thread.on("message", (message: Report) => {
    report = message;
  });
  // At least 150 rounds, and until the thread has read: on a busy machine it may begin after them.
  for (let round = 0; round < 150 || (report?.right ?? 0) <= 1_000; round++) {
    thread.postMessage(index.attachable);
    for (let change = 0; change < 600; change++) {
      const ordinal = Math.floor(random() * ordinalCount);
      if (index.has(ordinal)) index.remove(ordinal);
      else put(index, ordinal);
    }
    if (round % 10 === 5) index.shrink();
    // Most of the rows, so that chunks are dropped and made again.
    if (round % 30 === 20) for (let ordinal = 300; ordinal < ordinalCount; ordinal++) index.remove(ordinal);
    await turn();
  }
  thread.postMessage("over");
  await once(thread, "exit");
  expect(report?.wrong.slice(0, 5)).toEqual([]);
  expect(report?.right).toBeGreaterThan(1_000);
  index.check();
}, 60_000);

test("who has attached reads what was there, none of what came later, and nothing once the memory is exchanged", () => {
  const index = newIndex();
  for (let ordinal = 0; ordinal < 10; ordinal++) put(index, ordinal);
  const rows = new AttachedRows(metrics.euclidean, index.attachable, 1);
  const query = vectorOf(2);
  const held = () => {
    const distances = new Float64Array(12);
    rows.distancesOf(query, Uint32Array.from(distances.keys()), distances.length, distances);
    return [...distances.keys()].filter((ordinal) => !Number.isNaN(distances[ordinal]));
  };
  expect(held()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  put(index, 10);
  expect(held()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  // The last row takes its place.
  index.remove(3);
  expect(held()).toEqual([0, 1, 2, 4, 5, 6, 7, 8, 9, 10]);
  index.shrink();
  expect(held()).toEqual([]);
  expect(new AttachedRows(metrics.euclidean, index.attachable, 1)).toBeDefined();
  expect(held()).toEqual([]);
});

test("a page that has other ordinals by now is not taken for what it was", () => {
  const index = newIndex();
  for (let ordinal = 0; ordinal < 10; ordinal++) put(index, ordinal);
  const rows = new AttachedRows(metrics.euclidean, index.attachable, 1);
  // The directory grows, so the one that the reader knows is not written any more; then the only page of before gets other ordinals.
  put(index, 40_000);
  for (let ordinal = 0; ordinal < 10; ordinal++) index.remove(ordinal);
  put(index, 100_000);
  const inThePage = 100_000 % 1_024;
  const distances = new Float64Array(2);
  rows.distancesOf(vectorOf(2), Uint32Array.of(inThePage, 40_000), 2, distances);
  expect([...distances]).toEqual([Number.NaN, Number.NaN]);
});
