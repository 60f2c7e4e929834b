// Is every answer right for its version, while owners change their collections and readers in other threads search them?
//
// Two threads own a collection each, and four others search both. Readers are ended in the middle of whatever they do, and others take
// their slots. What is wrong comes back as text.

import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { MessageChannel, Worker } from "node:worker_threads";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { newHistory, type SharedHistory } from "./history.ts";
import type {
  FromWriter,
  ReadingReport,
  ReadingStart,
  ToWriter,
  WritingReport,
  WritingStart,
} from "./messages.ts";

export type HammerOptions = {
  readonly seed: number;
  /** It ends when so many answers were compared. */
  readonly answers: number;
  readonly kinds: readonly IndexKind[];
  readonly writers?: number;
  readonly readers?: number;
  /** A reader is ended each time that so many more answers were compared; default: none. */
  readonly deathEvery?: number;
};

export type HammerReport = {
  readonly wrong: readonly string[];
  readonly writers: readonly WritingReport[];
  readonly answers: Record<string, { answers: number; wanted: number; found: number }>;
  readonly pins: number;
  readonly oldPins: number;
  readonly refusedPins: number;
  readonly deaths: number;
};

type Writer = {
  readonly worker: Worker;
  readonly history: SharedHistory;
  readonly flags: Int32Array<SharedArrayBuffer>;
  readonly epochs: ReadingStart["collections"][number]["epochs"];
};

const words = (count: number) => new Int32Array(new SharedArrayBuffer(4 * count));

async function messageOf<K extends FromWriter["kind"]>(
  worker: Worker,
  kind: K,
): Promise<Extract<FromWriter, { kind: K }>> {
  for (;;) {
    const [message] = (await once(worker, "message")) as [FromWriter];
    if (message.kind === kind) return message as Extract<FromWriter, { kind: K }>;
  }
}

async function startWriter(seed: number, kinds: readonly IndexKind[], readerSlots: number): Promise<Writer> {
  const [history, flags] = [newHistory(seed), words(1 + readerSlots)];
  const start: WritingStart = { history, kinds, readerSlots, flags };
  const worker = new Worker(new URL("./writing-thread.ts", import.meta.url), { workerData: start });
  const { epochs } = await messageOf(worker, "begun");
  return { worker, history, flags, epochs };
}

function startReader(
  slot: number,
  seed: number,
  writers: readonly Writer[],
  stop: Int32Array<SharedArrayBuffer>,
): Worker {
  const collections = writers.map(({ worker, history, epochs, flags }) => {
    const { port1, port2 } = new MessageChannel();
    Atomics.store(flags, slot, 0);
    worker.postMessage({ kind: "reader", slot, port: port1 } satisfies ToWriter, [port1]);
    return { history, epochs, port: port2, flags };
  });
  const start: ReadingStart = { slot, seed, collections, stop };
  return new Worker(new URL("./reading-thread.ts", import.meta.url), {
    workerData: start,
    transferList: collections.map(({ port }) => port),
  });
}

export async function hammer({
  seed,
  answers,
  kinds,
  writers: writerCount = 2,
  readers = 4,
  deathEvery,
}: HammerOptions): Promise<HammerReport> {
  let failure: unknown;
  const watch = (worker: Worker) =>
    worker.on("error", (error) => {
      failure ??= error;
    });
  const writers = await Promise.all(
    Array.from({ length: writerCount }, (_, i) => startWriter(seed + i, kinds, readers)),
  );
  for (const { worker } of writers) watch(worker);
  const stop = words(3);
  const reading = new Map<number, { worker: Worker; report: Promise<ReadingReport> }>();
  const start = (slot: number, readerSeed: number) => {
    const worker = startReader(slot, readerSeed, writers, stop);
    watch(worker);
    const report = once(worker, "message").then(([message]) => message as ReadingReport);
    report.catch(() => {});
    reading.set(slot, { worker, report });
  };
  for (let slot = 1; slot <= readers; slot++) start(slot, seed + 100 + slot);
  let deaths = 0;
  for (;;) {
    const count = Atomics.load(stop, 1);
    if (count >= answers || Atomics.load(stop, 2) > 0) break;
    await sleep(20);
    if (failure !== undefined) throw failure;
    if (deathEvery === undefined || count < (deaths + 1) * deathEvery) continue;
    const slot = 1 + (deaths++ % readers);
    await reading.get(slot)?.worker.terminate();
    for (const { worker } of writers) {
      const abandoned = messageOf(worker, "abandoned");
      worker.postMessage({ kind: "abandon", slot } satisfies ToWriter);
      await abandoned;
    }
    start(slot, seed + 1_000 + deaths);
  }
  Atomics.store(stop, 0, 1);
  Atomics.notify(stop, 0);
  const reports = await Promise.all([...reading.values()].map(({ report }) => report));
  const ended = writers.map(({ worker }) => messageOf(worker, "ended"));
  for (const { flags } of writers) Atomics.store(flags, 0, 1);
  const written = (await Promise.all(ended)).map(({ report }) => report);
  const sum = sumOf(reports);
  // The reports of readers that were ended are lost.
  const lost = Atomics.load(stop, 2) - sum.wrong.length;
  const wrong = lost > 0 ? [...sum.wrong, `${lost} wrong answers of readers that were ended`] : sum.wrong;
  return { ...sum, wrong, writers: written, deaths };
}

function sumOf(reports: readonly ReadingReport[]): Omit<HammerReport, "writers" | "deaths"> {
  const answers: HammerReport["answers"] = {};
  for (const report of reports)
    for (const [kind, counts] of Object.entries(report.answers)) {
      answers[kind] ??= { answers: 0, wanted: 0, found: 0 };
      const sum = answers[kind];
      sum.answers += counts.answers;
      sum.wanted += counts.wanted;
      sum.found += counts.found;
    }
  const total = (of: (report: ReadingReport) => number) =>
    reports.reduce((sum, report) => sum + of(report), 0);
  return {
    wrong: reports.flatMap(({ wrong }) => wrong),
    answers,
    pins: total(({ pins }) => pins),
    oldPins: total(({ oldPins }) => oldPins),
    refusedPins: total(({ refusedPins }) => refusedPins),
  };
}
