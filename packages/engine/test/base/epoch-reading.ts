// A reading thread of epochs.test.ts: pins, reads what is published, and looks at it again and again until it unpins.
//
// Cells hold the number of the publication that owns them. A cell that is freed is overwritten at once, so a reader that is pinned and
// sees another number has read freed memory.

import { parentPort, workerData } from "node:worker_threads";
import { EpochReader, type SharedEpochs } from "../../src/base/epochs.ts";

export type EpochReading = {
  readonly epochs: SharedEpochs;
  readonly slot: number;
  readonly cellsAt: number;
  /** [0]: whether to stop. [1]: the cell that is published. [3 + slot]: what the reader has read. Cells follow from `cellsAt` on. */
  readonly words: Int32Array<SharedArrayBuffer>;
};

const { epochs, slot, cellsAt, words } = workerData as EpochReading;
const reader = new EpochReader(epochs, slot);
const readsAt = 3;
let reads = 0;
let torn = 0;
while (Atomics.load(words, 0) === 0) {
  // Two pins that overlap, as searches in steps do.
  const outer = reader.pin();
  for (let i = 0; i < 8; i++) {
    const epoch = reader.pin();
    const cell = Atomics.load(words, 1);
    const first = Atomics.load(words, cellsAt + cell);
    for (let again = 0; again < 50; again++) if (Atomics.load(words, cellsAt + cell) !== first) torn++;
    if (first < 0) torn++;
    reads++;
    reader.unpin(epoch);
    Atomics.store(words, readsAt + slot, reads);
  }
  reader.unpin(outer);
}
parentPort?.postMessage({ reads, torn });
