// How long does a collection of many passages take to come back after a restart, how long does building stop requests, and how
// much memory does it take?
//
//   npm run bench text-start [-- --rows 1000000 --positions --builders 1]
//
// Builds a text index over existing records, closes, and starts again: from the checkpoint, and from the records. With a million passages
// the results go to docs/benchmarks-text-start.md.

import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Collection } from "../../packages/engine/src/database/contract.ts";
import { openDatabase } from "../../packages/engine/src/database/database.ts";
import { head, line, whole, writeDocument } from "../shared/report.ts";
import { missingPassages, passages, realCount, resampled } from "./passages.ts";

const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "1000000" },
    positions: { type: "boolean", default: false },
    builders: { type: "string" },
  },
});

const mebibyte = 2 ** 20;
const mebibytes = (bytes: number): string => `${whole(bytes / mebibyte)} MiB`;

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

const row = (
  what: string,
  { seconds, cpuSeconds, threadSeconds, longestMs, mostOwnBytes }: Measured,
): string =>
  line([
    what,
    `${seconds.toFixed(1)} s`,
    `${cpuSeconds.toFixed(1)} s`,
    `${threadSeconds.toFixed(1)} s`,
    `${longestMs.toFixed(0)} ms`,
    mebibytes(mostOwnBytes),
  ]);

async function run(): Promise<void> {
  const count = Number(values.rows);
  const real = Math.min(realCount(), count);
  const dataDir = mkdtempSync(join(tmpdir(), "quiver-start-"));
  const builders = values.builders === undefined ? {} : { builderThreads: Number(values.builders) };
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
      await collection.createTextIndex({
        name: "t",
        sample_threshold: 1,
        k1: 1.2,
        b: 0.75,
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
    const table = [
      head(["", "wall", "CPU", "of it in the request thread", "longest stretch there", "process at most"]),
      row("the index is built over records that are there", built),
      row("kept on disk, and closed", closed),
      row("start, and a first answer, from what is kept", fromKept),
      row("the same from the records", fromRecords),
    ];
    const text = `# A text index of ${whole(count)} passages

Written by \`npm run bench text-start\`; do not edit. ${whole(real)} passages of two dictionaries${count > real ? ` and ${whole(count - real)} made of their sentences` : ""}, English with
stemming${values.positions ? ", with positions" : ""}. A stretch is processor time of the request thread between two turns of a timer of one millisecond: so long can
a request wait for building. The process had ${mebibytes(before)} of its own before the index was made.

${table.join("\n")}

The index says that it takes ${mebibytes(bytes)}, ${whole(bytes / count)} bytes a passage; while it was built it took ${mebibytes(built.mostIndexBytes)} at most. The file has ${mebibytes(kept)}.
`;
    console.log(text);
    if (count === 1_000_000) writeDocument("benchmarks-text-start.md", text);
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
