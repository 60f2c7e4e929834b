// A thread that searches the collections of other threads, and compares every answer with brute force of the version that it has pinned.

import "../../../src/process/node-host.ts";
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { randomNumbers } from "@quiverdb/kernels/random";
import { EpochReader } from "../../../src/base/epochs.ts";
import { visibleAt } from "../../../src/collection/visibility.ts";
import { hammerDrivers } from "../../index/hammer-drivers.ts";
import { ordinalsAt } from "./history.ts";
import type { PostedView, ReadingReport, ReadingStart } from "./messages.ts";

const { slot, seed, collections, stop } = workerData as ReadingStart;
const random = randomNumbers(seed);

/** Views of a collection that are kept; older ones are pinned as long as they can be. */
const keptMax = 4;

const report = {
  answers: {},
  pins: 0,
  refusedPins: 0,
  oldPins: 0,
  wrong: [] as string[],
} as ReadingReport & {
  pins: number;
  refusedPins: number;
  oldPins: number;
  wrong: string[];
};
const readers = collections.map((collection) => ({
  ...collection,
  pins: new EpochReader(collection.epochs, slot),
  kept: [] as PostedView[],
  isAsked: false,
}));
type Collection = (typeof readers)[number];

function receive(collection: Collection): void {
  for (;;) {
    const received = receiveMessageOnPort(collection.port);
    if (received === undefined) break;
    collection.isAsked = false;
    collection.kept.push(received.message as PostedView);
    if (collection.kept.length > keptMax) collection.kept.shift();
  }
  if (collection.isAsked) return;
  collection.isAsked = true;
  Atomics.store(collection.flags, slot, 1);
}

function wrongly(what: string): void {
  Atomics.add(stop, 2, 1);
  report.wrong.push(what);
}

function search(collection: Collection): void {
  const { kept, pins, history } = collection;
  const at = random() < 0.6 ? kept.length - 1 : Math.floor(random() * kept.length);
  const { view, first } = kept[at];
  if (!pins.tryPin(view.epoch)) {
    report.refusedPins++;
    kept.splice(0, at + 1);
    return;
  }
  report.pins++;
  if (pins.current !== view.epoch) report.oldPins++;
  const ordinals = ordinalsAt(history, view.version, first);
  const seen = new Set(ordinals);
  for (const { kind, ask, vectorOf } of hammerDrivers) {
    const descriptor = view.indexes[kind.name];
    if (descriptor === undefined || kind.attach === undefined) continue;
    const reader = kind.attach(descriptor, slot);
    const version = {
      seed: history.seed,
      ordinals,
      statistics: view.statistics[kind.name],
      visible: () => visibleAt(view.visibility, view.version, view.ordinalEnd),
      vectorOf(ordinal: number) {
        if (!seen.has(ordinal))
          throw new Error(`the vector of ${ordinal} is read, which the version does not see`);
        return vectorOf?.(history.seed, ordinal) ?? new Uint8Array(0);
      },
    };
    for (let asked = random() < 0.1 ? 20 : 2; asked > 0; asked--) {
      try {
        const { question, wrong, wanted = 0, found = 0 } = ask(reader, version, random);
        report.answers[kind.name] ??= { answers: 0, wanted: 0, found: 0 };
        const counts = report.answers[kind.name];
        counts.answers++;
        Atomics.add(stop, 1, 1);
        counts.wanted += wanted;
        counts.found += found;
        if (wrong !== undefined) wrongly(`version ${view.version}: ${question}: ${wrong}`);
      } catch (error) {
        wrongly(`version ${view.version}: ${kind.name}: ${(error as Error).stack}`);
      }
    }
  }
  pins.unpin(view.epoch);
}

while (Atomics.load(stop, 0) === 0) {
  const collection = readers[Math.floor(random() * readers.length)];
  receive(collection);
  if (collection.kept.length > 0) search(collection);
  else Atomics.wait(stop, 0, 0, 1);
}
parentPort?.postMessage(report);
