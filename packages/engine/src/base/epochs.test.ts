import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { expect, test, vi } from "vitest";
import type { EpochReading } from "../../test/base/epoch-reading.ts";
import { EpochReader, Epochs, isBefore } from "./epochs.ts";

test("what is retired is freed when no reader is pinned to its epoch or an older one", () => {
  const epochs = new Epochs(2);
  const [first, second] = [new EpochReader(epochs.shared, 0), new EpochReader(epochs.shared, 1)];
  const freed: string[] = [];
  const replace = (name: string) => {
    epochs.retire(() => freed.push(name));
    epochs.advance();
  };
  epochs.retire(() => freed.push("a"));
  epochs.reclaim();
  expect(freed).toEqual([]);
  const early = first.pin();
  epochs.advance();
  const late = second.pin();
  replace("b");
  epochs.reclaim();
  expect(freed).toEqual([]);
  first.unpin(early);
  epochs.reclaim();
  expect(freed).toEqual(["a"]);
  second.unpin(late);
  expect(epochs.reclaim()).toBe(1);
  expect(freed).toEqual(["a", "b"]);
  expect(epochs.retiredCount).toBe(0);
});

test("an old epoch can be pinned until its memory may have been freed; pins of a thread overlap", () => {
  const epochs = new Epochs(1);
  const reader = new EpochReader(epochs.shared, 0);
  const old = epochs.current;
  epochs.retire(() => undefined);
  epochs.advance();
  expect(reader.tryPin(old)).toBe(true);
  const newer = reader.pin();
  expect(isBefore(old, newer)).toBe(true);
  epochs.reclaim();
  expect(epochs.retiredCount).toBe(1);
  reader.unpin(old);
  expect(epochs.reclaim()).toBe(1);
  expect(reader.tryPin(old)).toBe(false);
  // What is pinned still is not harmed by the attempt.
  expect(epochs.raiseFloor()).toBe(newer);
  reader.unpin(newer);
  expect(() => reader.unpin(newer)).toThrow("is unpinned but not pinned");
});

test("a reader that pins an old epoch while the floor rises past it is protected, or gives up", () => {
  for (const moment of ["before the floor is stored", "after"]) {
    const epochs = new Epochs(1);
    const reader = new EpochReader(epochs.shared, 0);
    const old = epochs.current;
    epochs.retire(() => undefined);
    epochs.advance();
    const store = Atomics.store as (words: Int32Array, at: number, value: number) => number;
    let isPinned: boolean | undefined;
    // The writer's first store is that of the floor, between its two looks at the slots.
    const interleaved = vi
      .spyOn(Atomics as { store: typeof store }, "store")
      .mockImplementation((words, at, value) => {
        interleaved.mockRestore();
        if (moment !== "after") isPinned = reader.tryPin(old);
        store(words, at, value);
        if (moment === "after") isPinned = reader.tryPin(old);
        return value;
      });
    const freed = epochs.reclaim();
    expect([moment, isPinned, freed]).toEqual(moment === "after" ? [moment, false, 1] : [moment, true, 0]);
  }
});

test("pins of a thread that has died are abandoned", () => {
  const epochs = new Epochs(1);
  new EpochReader(epochs.shared, 0).pin();
  epochs.retire(() => undefined);
  epochs.advance();
  expect(epochs.reclaim()).toBe(0);
  epochs.abandon(0);
  expect(epochs.reclaim()).toBe(1);
});

test("epochs wrap around, and none is the mark of an idle slot", () => {
  const epochs = new Epochs(1);
  epochs.shared.words[0] = -2;
  epochs.shared.words[1] = -2;
  const reader = new EpochReader(epochs.shared, 0);
  const pinned = reader.pin();
  epochs.retire(() => undefined);
  expect([epochs.advance(), epochs.advance(), epochs.advance()]).toEqual([-1, 1, 2]);
  expect(epochs.reclaim()).toBe(0);
  reader.unpin(pinned);
  expect(epochs.reclaim()).toBe(1);
  epochs.shared.words[0] = 0x7fff_ffff;
  expect(isBefore(0x7fff_ffff, epochs.advance())).toBe(true);
});

test("threads that pin and unpin never read freed memory while the writer replaces, frees and reuses", async () => {
  const [cells, cellsAt] = [8, 16];
  const readers = 3;
  const epochs = new Epochs(readers);
  const words = new Int32Array(new SharedArrayBuffer(4 * (cellsAt + cells)));
  words.fill(-1, cellsAt);
  words[cellsAt] = 0;
  const workers = Array.from({ length: readers }, (_, slot) => {
    const workerData: EpochReading = { epochs: epochs.shared, slot, cellsAt, words };
    return new Worker(new URL("../../test/base/epoch-reading.ts", import.meta.url), { workerData });
  });
  const ends = workers.map(
    async (worker) => (await once(worker, "message"))[0] as { reads: number; torn: number },
  );
  const free = Array.from({ length: cells - 1 }, (_, i) => i + 1);
  let [published, replacements] = [0, 0];
  // However busy the machine is, every reader reads while much is replaced.
  const areReading = () => [0, 1, 2].every((slot) => Atomics.load(words, 3 + slot) >= 1_000);
  while (!areReading() || replacements < 10_000) {
    for (let i = 0; i < 1_000; i++) {
      const cell = free.shift();
      if (cell === undefined) {
        epochs.reclaim();
        continue;
      }
      Atomics.store(words, cellsAt + cell, ++replacements);
      Atomics.store(words, 1, cell);
      const replaced = published;
      published = cell;
      epochs.retire(() => {
        Atomics.store(words, cellsAt + replaced, -1);
        free.push(replaced);
      });
      epochs.advance();
    }
    await sleep(0);
  }
  Atomics.store(words, 0, 1);
  const seen = await Promise.all(ends);
  expect(seen.map(({ torn }) => torn)).toEqual([0, 0, 0]);
}, 120_000);
