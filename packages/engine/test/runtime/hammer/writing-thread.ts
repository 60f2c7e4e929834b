// The owner of a hammered collection: what an indexer does, as fast and as irregularly as possible.

import "../../../src/process/node-host.ts";
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { randomNumbers } from "@quiverdb/kernels/random";
import { Visibility } from "../../../src/collection/visibility.ts";
import type { Builders } from "../../../src/index/builders.ts";
import type { Index } from "../../../src/index/contract.ts";
import type { IndexDependencies } from "../../../src/index/kind.ts";
import type { ReadTransaction } from "../../../src/storage/store.ts";
import { type LiveIndexes, Views } from "../../../src/views/view.ts";
import type { HammerDriver } from "../../index/hammer-driver.ts";
import { hammerDrivers } from "../../index/hammer-drivers.ts";
import { hasRoom } from "./history.ts";
import type { FromWriter, PostedView, ToWriter, WritingReport, WritingStart } from "./messages.ts";

const { history, kinds, readerSlots, flags } = workerData as WritingStart;
const { seed } = history;
const random = randomNumbers(seed);
const below = (count: number): number => Math.floor(random() * count);
const say = (message: FromWriter) => parentPort?.postMessage(message);

const ports = new Map<number, MessagePort>();
const report = {
  versions: 0,
  ordinals: 0,
  removed: 0,
  posted: 0,
  retired: 0,
  freed: 0,
} satisfies WritingReport;
const views = new Views(() => {}, readerSlots);
const retire = (free: () => void): void => {
  report.retired++;
  views.retire(() => {
    report.freed++;
    free();
  });
};
const visibility = new Visibility(retire);
const dependencies: IndexDependencies = {
  builders: undefined as unknown as Builders,
  memoryBudgetBytes: undefined,
  readVector: () => undefined,
  mayTake: () => true,
  onProgress: () => {},
  wake: () => {},
  onNotice: () => {},
  readerSlots,
  retire,
};
const drivers: readonly HammerDriver[] = hammerDrivers.filter(({ kind }) => kinds.includes(kind.name));
const held: { readonly driver: HammerDriver; readonly index: Index }[] = drivers.map((driver) => ({
  driver,
  index: driver.make(seed, dependencies),
}));
const indexes: LiveIndexes = Object.fromEntries(held.map(({ driver, index }) => [driver.kind.name, index]));
const readTxn = { release() {} } as ReadTransaction;

let version = 0;
let end = 0;
/** Living records, about in their order. */
const living: number[] = [];
let target = 500;

/** Adds and closes some records, and publishes the version. */
function change(): void {
  version++;
  // Grows, shrinks to almost nothing, is replaced all the time, by turns.
  if (random() < 0.01) target = [20, 300, 1_200, 3_000][below(4)];
  const added = below(random() < 0.1 ? 200 : 20);
  const closed = Math.max(0, living.length + added - target);
  for (let i = 0; i < Math.min(closed, 300) + below(4) && living.length > 0; i++) close();
  for (let i = 0; i < added; i++, end++) {
    for (const { driver, index } of held) driver.add(index, seed, end);
    living.push(end);
  }
  visibility.indexedUpTo(end);
  report.versions = version;
  report.ordinals = end;
  Atomics.store(history.ends, version, end);
  const statistics = Object.fromEntries(
    held.map(({ driver, index }) => [driver.kind.name, index.statistics?.()]),
  );
  views.publish({ version, ordinalEnd: end, readTxn, indexes, statistics }, visibility);
}

/** Closes a living record: an old one, or any. */
function close(): void {
  const at = random() < 0.5 ? below(Math.min(8, living.length)) : below(living.length);
  const [ordinal] = living.splice(at, 1);
  Atomics.store(history.closed, ordinal, version);
  visibility.close(ordinal, version);
  for (const { index } of held) index.retire(ordinal);
}

function reclaim(): void {
  if (random() < 0.3) return;
  for (const ordinal of visibility.reclaim(views.oldestVersion, 1 + below(400))) {
    for (const { index } of held) index.remove(ordinal);
    report.removed++;
  }
  views.reclaim();
}

function post(): void {
  const { current } = views;
  if (current === null) return;
  for (const [slot, port] of ports)
    if (Atomics.compareExchange(flags, slot, 1, 0) === 1) {
      port.postMessage({ view: current.shared, first: living.length === 0 ? end : 0 } satisfies PostedView);
      report.posted++;
    }
}

parentPort?.on("message", (message: ToWriter) => {
  if (message.kind === "reader") ports.set(message.slot, message.port);
  else {
    views.abandon(message.slot);
    ports.delete(message.slot);
    say({ kind: "abandoned", slot: message.slot });
  }
});

function turn(): void {
  for (let i = 0; i < 4 && hasRoom(version + 1, end + 1_000); i++) {
    change();
    post();
    for (const { driver, index } of held) driver.disturb(index, random);
    reclaim();
    // Between the changes of a version, too.
    post();
  }
  if (Atomics.load(flags, 0) === 0) setImmediate(turn);
  else {
    for (const { driver, index } of held) driver.check(index, seed);
    say({ kind: "ended", report });
    process.exit(0);
  }
}

say({ kind: "begun", epochs: views.sharedEpochs });
setImmediate(turn);
