// How long does a collection of many passages take to come back after a restart, how long does building stop requests, and how
// much memory does it take?
//
//   npm run bench text-start [-- --rows 1000000 --positions --builders 1]
//
// Builds a text index over existing records, closes, and starts again: from the checkpoint, and from the records. "longestMs" is processor
// time of the request thread between two turns of a timer of one millisecond: so long can a request wait for building.

import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Collection } from "../../packages/engine/src/database/contract.ts";
import { openDatabase } from "../../packages/engine/src/database/database.ts";
import { b, k1 } from "../engines/engine.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";
import { missingPassages, passages, realCount, resampled } from "./passages.ts";

const { values, isKept } = readOptions({}, { rows: "1000000", positions: false, builders: "" });

const mebibyte = 2 ** 20;

/** Private memory of this process, without the mapped pages of the store. */
const ownBytes = (): number =>
  1_024 * Number(/RssAnon:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))?.[1]);

const indexBytes = (collection: Collection): number =>
  collection.indexes()["tf-idf"]?.status.memory_bytes ?? 0;

type Measured = {
  seconds: number;
  cpuSeconds: number;
  /** Of the request thread only. */
  threadSeconds: number;
  /** Longest processor time of the request thread between two ticks of a timer. */
  longestMs: number;
  mostIndexBytes: number;
  mostOwnBytes: number;
};

/** Runs and measures an action. Other programs lengthen wall times, but not processor times. */
async function measured(act: () => Promise<unknown>, collection?: Collection): Promise<Measured> {
  const begin = performance.now();
  const usage = process.cpuUsage();
  const ofThread = process.threadCpuUsage();
  const milliseconds = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1_000;
  let [last, longestMs, turns, mostIndexBytes, mostOwnBytes] = [0, 0, 0, 0, 0];
  const look = (isLast = false): void => {
    const now = milliseconds(process.threadCpuUsage(ofThread));
    longestMs = Math.max(longestMs, now - last);
    if (turns++ % 50 === 0 || isLast) {
      mostOwnBytes = Math.max(mostOwnBytes, ownBytes());
      if (collection) mostIndexBytes = Math.max(mostIndexBytes, indexBytes(collection));
    }
    last = milliseconds(process.threadCpuUsage(ofThread));
  };
  const timer = setInterval(() => look(), 1);
  await act();
  clearInterval(timer);
  look(true);
  return {
    seconds: (performance.now() - begin) / 1_000,
    cpuSeconds: milliseconds(process.cpuUsage(usage)) / 1_000,
    threadSeconds: last / 1_000,
    longestMs,
    mostIndexBytes,
    mostOwnBytes,
  };
}

const row = (step: string, { seconds, cpuSeconds, threadSeconds, longestMs, mostOwnBytes }: Measured) => ({
  step,
  seconds,
  cpuS: cpuSeconds,
  threadCpuS: threadSeconds,
  longestMs,
  processMiB: mostOwnBytes / mebibyte,
});

async function run(): Promise<void> {
  const count = Number(values.rows);
  const real = Math.min(realCount(), count);
  const dataDir = mkdtempSync(join(tmpdir(), "quiver-start-"));
  const builders = values.builders === "" ? {} : { builderThreads: Number(values.builders) };
  try {
    let database = await openDatabase({ dataDir, ...builders });
    await database.createCollection({
      name: "c",
      dense_vector: { enabled: false },
      sparse_vector: { enabled: false },
      tf_idf_options: { enabled: true },
      config: {},
      store_raw_text: true,
    });
    let collection = database.collection("c");
    await addPassages(collection, count);
    globalThis.gc?.();
    const before = ownBytes();
    const built = await measured(async () => {
      await collection.createIndex("tf-idf", {
        name: "t",
        sample_threshold: 1,
        k1,
        b,
        positions: values.positions,
      });
      await collection.indexed();
    }, collection);
    const bytes = indexBytes(collection);
    const closed = await measured(() => database.close());
    const [internal] = readdirSync(join(dataDir, "collections"));
    const file = join(dataDir, "collections", internal, "checkpoints", "tf-idf");
    const kept = statSync(file).size;
    const answers = new Set<string>();
    const start = async (): Promise<void> => {
      database = await openDatabase({ dataDir, ...builders });
      collection = database.collection("c");
      await collection.indexed();
      const { results } = await collection.search("text", { query: "a large wild animal", top_k: 10 });
      answers.add(results.map(({ id, score }) => `${id} ${score}`).join());
    };
    const fromKept = await measured(start);
    await database.close();
    rmSync(file);
    const fromRecords = await measured(start);
    await database.close();
    if (answers.size !== 1) throw new Error("the results differ");
    publish(
      "text-start",
      {
        key: String(count),
        title: `A text index of ${count.toLocaleString("en")} passages`,
        options: { rows: count, language: "english", positions: values.positions },
        facts: {
          realPassages: real,
          processMiBBefore: before / mebibyte,
          indexMiB: bytes / mebibyte,
          indexBytesPerPassage: bytes / count,
          indexMiBMost: built.mostIndexBytes / mebibyte,
          fileMiB: kept / mebibyte,
        },
        rows: [
          row("the index is built over records that are there", built),
          row("kept on disk, and closed", closed),
          row("start, and a first answer, from what is kept", fromKept),
          row("the same from the records", fromRecords),
        ],
      },
      isKept,
    );
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}

/** A separate function, so that the passages can be collected as garbage once the index is built. */
async function addPassages(collection: Collection, count: number): Promise<void> {
  const rows = resampled(passages(), count);
  for (let first = 0; first < count; first += 5_000)
    await collection.upsert(
      rows.slice(first, first + 5_000).map((text, i) => ({ id: `${first + i}`, text })),
    );
}

const why = missingPassages();
if (why === undefined) await run();
else console.log(why);
