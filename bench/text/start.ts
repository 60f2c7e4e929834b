// How long does a collection of many passages take to come back after a restart, and how long does building stop requests?
//
//   node tools/launch.mjs run bench/text/start.ts --rows 263674          with positions: --positions
//
// Builds a text index over records that are there, closes, and starts again: from what is kept on disk, and from the records.

import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openDatabase } from "../../packages/engine/src/database/database.ts";
import { missingPassages, passages, resampled } from "./passages.ts";

const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "263674" },
    positions: { type: "boolean", default: false },
    builders: { type: "string" },
  },
});

const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

/**
 * Does something and tells how long it took, and how much processor time: all threads', the request thread's, and the most that
 * the request thread took between two turns of a timer. Other programs lengthen the clock's times, but not these.
 */
async function timed(what: string, act: () => Promise<unknown>): Promise<void> {
  const begin = performance.now();
  const usage = process.cpuUsage();
  const ofThread = process.threadCpuUsage();
  const milliseconds = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1_000;
  let last = 0;
  let longest = 0;
  const look = (): void => {
    const now = milliseconds(process.threadCpuUsage(ofThread));
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(look, 1);
  await act();
  clearInterval(timer);
  look();
  const seconds = (performance.now() - begin) / 1_000;
  console.log(
    `${what}: ${seconds.toFixed(2)} s; processor time ${(milliseconds(process.cpuUsage(usage)) / 1_000).toFixed(2)} s, ` +
      `of which ${(last / 1_000).toFixed(2)} s in the request thread, at most ${longest.toFixed(1)} ms at a stretch`,
  );
}

async function run(): Promise<void> {
  const rows = resampled(passages(), Number(values.rows));
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
    for (let first = 0; first < rows.length; first += 5_000)
      await collection.upsert(
        rows.slice(first, first + 5_000).map((text, i) => ({ id: `${first + i}`, text })),
      );
    const index = { name: "t", sample_threshold: 1, k1: 1.2, b: 0.75, positions: values.positions };
    await timed(`${rows.length} passages, built over existing records`, async () => {
      await collection.createTextIndex(index);
      await collection.indexed();
    });
    const { memory_bytes = 0 } = collection.indexes()["tf-idf"]?.status ?? {};
    console.log(`the index says that it takes ${mebibytes(memory_bytes)}`);
    await timed("kept on disk and closed", () => database.close());
    const [internal] = readdirSync(join(dataDir, "collections"));
    const file = join(dataDir, "collections", internal, "checkpoints", "tf-idf");
    const kept = statSync(file, { throwIfNoEntry: false });
    if (kept) console.log(`the file has ${mebibytes(kept.size)}`);
    const search = async () => {
      const { results } = await collection.searchText({ query: "a large wild animal", top_k: 10 });
      return results.map(({ id, score }) => `${id} ${score}`).join();
    };
    const answers = new Set<string>();
    const start = async (): Promise<void> => {
      database = await openDatabase({ dataDir, ...builders });
      collection = database.collection("c");
      await collection.indexed();
      answers.add(await search());
    };
    if (kept) {
      await timed("started from what is kept", start);
      await database.close();
      rmSync(file);
    }
    await timed("started from the records", start);
    await database.close();
    if (answers.size !== 1) throw new Error("the answers differ");
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}

const why = missingPassages();
if (why === undefined) await run();
else console.log(why);
