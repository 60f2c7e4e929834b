// What do kept versions cost?
//
//   npm run bench versions            [-- --records 100000 --rewrites 10 --rounds 15]
//
// A collection keeps all versions while every record is rewritten several times. Beside it are collections without history: one that is rewritten
// likewise, one for each compared version with the records of that version alone. All take turns in one process. The first search in an
// earlier version makes a copy of it, and is told apart.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Collection, Database, PastCollection } from "../packages/engine/src/database/contract.ts";
import { openDatabase } from "../packages/engine/src/database/database.ts";
import { randomNumbers } from "../packages/kernels/src/random.ts";
import { idsOf } from "./engines/quiver.ts";
import { median } from "./shared/figures.ts";
import { readOptions } from "./shared/options.ts";
import { publish } from "./shared/publish.ts";
import { ownCpuMs, untilQuiet } from "./shared/quiet.ts";
import type { Row } from "./shared/results.ts";
import { compare, inProcess, type Search, usOf } from "./shared/turns.ts";

const dimension = 128;
const clusters = 500;
const words = 20_000;
const wordsPerText = 12;
const k = 10;
const queryCount = 200;
const recordsAtOnce = 5_000;

const { values, isKept } = readOptions(
  {},
  { records: "100000", rewrites: "10", rounds: "15", compared: "2" },
);
const [records, rewrites, rounds, compared] = [
  values.records,
  values.rewrites,
  values.rounds,
  values.compared,
].map(Number);

/** Vectors around centres, and words of which few are frequent. */
function generator(stream: number) {
  const random = randomNumbers(stream);
  const centres = randomNumbers(1);
  const all = Float32Array.from({ length: clusters * dimension }, () => centres() - 0.5);
  const vector = () => {
    const at = dimension * Math.floor(clusters * random());
    return Float32Array.from({ length: dimension }, (_, i) => all[at + i] + 0.4 * (random() - 0.5));
  };
  const word = () => `w${Math.floor(words * random() ** 3)}`;
  const text = (length: number) => Array.from({ length }, word).join(" ");
  return { vector, text };
}

/** The records of the rewrite of this number, in parts. */
function* rewritten(rewrite: number) {
  const { vector, text } = generator(100 + rewrite);
  for (let at = 0; at < records; at += recordsAtOnce)
    yield Array.from({ length: Math.min(recordsAtOnce, records - at) }, (_, i) => ({
      id: `r${at + i}`,
      dense_values: vector(),
      text: text(wordsPerText),
      metadata: { n: (at + i) % 10 },
    }));
}

async function make(database: Database, name: string, history?: "all"): Promise<Collection> {
  await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension, auto_create_index: true },
    tf_idf_options: { enabled: true },
    ...(history && { config: { history } }),
  });
  const collection = database.collection(name);
  await collection.createIndex("tf-idf", {});
  return collection;
}

/** Writes all records as one version. */
async function write(collection: Collection, rewrite: number): Promise<void> {
  const { transaction_id } = await collection.beginTransaction();
  const transaction = collection.transaction(transaction_id);
  for (const part of rewritten(rewrite)) await transaction.upsert(part);
  await transaction.commit();
}

const { vector, text } = generator(7);
const queries = Array.from({ length: queryCount }, () => ({ vector: vector(), text: text(3) }));
type Searched = Pick<Collection | PastCollection, "search">;
const searches: Record<string, (collection: Searched) => Search> = {
  dense: (collection) => async (i) =>
    idsOf(await collection.search("dense", { query_vector: queries[i].vector, top_k: k })),
  text: (collection) => async (i) =>
    idsOf(await collection.search("text", { query: queries[i].text, top_k: k })),
};

/** Microseconds of both, in turns. */
async function inTurns(name: string, one: Searched, other: Searched): Promise<[number, number]> {
  const players = [one, other].map((each) => inProcess(searches[name](each)));
  await compare(players, { rounds, warmUps: 3, queries: queryCount, k });
  return [usOf(players[0]), usOf(players[1])];
}

const directory = mkdtempSync(join(tmpdir(), "quiver-bench-"));
try {
  const database = await openDatabase({ dataDir: join(directory, "data") });
  const kept = await make(database, "kept", "all");
  const rows: Row[] = [];
  const plain = await make(database, "plain");
  for (const each of [kept, plain])
    for (let rewrite = 1; rewrite <= rewrites; rewrite++) await write(each, rewrite);
  await kept.indexed();
  await plain.indexed();
  await untilQuiet(ownCpuMs);
  const bytesOf = async (collection: Collection) => Number((await collection.describe()).disk_bytes);
  const disk = { keptBytes: await bytesOf(kept), plainBytes: await bytesOf(plain) };
  for (const name of Object.keys(searches)) {
    const [keptUs, plainUs] = await inTurns(name, kept, plain);
    rows.push({ search: `${name}, today`, us: keptUs, plainUs, times: keptUs / plainUs });
  }
  const versions = Array.from(
    { length: compared },
    (_, i) => 1 + Math.floor(((i + 0.5) * (rewrites - 1)) / compared),
  );
  const firsts: { wallMs: number; cpuMs: number }[] = [];
  for (const version of versions) {
    const alone = await make(database, `version ${version}`);
    await write(alone, version);
    await alone.indexed();
    await untilQuiet(ownCpuMs);
    const past = kept.at({ version });
    for (const name of Object.keys(searches)) {
      const [beganMs, cpuMs] = [performance.now(), ownCpuMs()];
      const search = searches[name](past);
      await search(0);
      firsts.push({ wallMs: performance.now() - beganMs, cpuMs: ownCpuMs() - cpuMs });
      rows.push({ search: `${name}, the first at version ${version}`, wallMs: firsts.at(-1)?.wallMs });
    }
    const beganMs = performance.now();
    const cpuMs = ownCpuMs();
    await untilQuiet(ownCpuMs);
    rows.push({
      search: `indexes of version ${version}`,
      wallMs: performance.now() - beganMs,
      cpuMs: ownCpuMs() - cpuMs,
    });
    for (const name of Object.keys(searches)) {
      const [pastUs, aloneUs] = await inTurns(name, past, alone);
      rows.push({
        search: `${name}, later at version ${version}`,
        us: pastUs,
        plainUs: aloneUs,
        times: pastUs / aloneUs,
      });
    }
  }
  await database.close();
  publish(
    "versions",
    {
      key: "all",
      title: "What kept versions cost",
      options: { records, rewrites, queries: queryCount, turns: rounds },
      facts: {
        ...disk,
        timesDisk: disk.keptBytes / disk.plainBytes,
        firstSearchMs: median(firsts.map(({ wallMs }) => wallMs)),
      },
      rows,
    },
    isKept,
  );
} finally {
  rmSync(directory, { recursive: true, force: true });
}
