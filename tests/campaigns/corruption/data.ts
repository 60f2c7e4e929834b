// Which data does the corruption campaign damage?
//
// A small data directory created by real use: three collections with every kind of index, short and long records (with overflow pages),
// updates, deletes, ended and open transactions, checkpoints of every index, an unloaded collection, full and incremental snapshots, an
// admin key and a session.

import { openDatabase } from "@quiverdb/engine/database/database";
import type { VectorInput } from "@quiverdb/protocol/shapes/vector";
import { ServerProcess } from "../server-process.ts";
import type { Random } from "./damage.ts";

const words =
  "the quick brown fox jumps over lazy dogs while seven wizards mix potions under old stone bridges".split(
    " ",
  );

type Kind = { name: string; dimension: number | null; text: number; records: number };

const kinds: readonly Kind[] = [
  { name: "small", dimension: 8, text: 12, records: 1_150 },
  { name: "long vectors", dimension: 700, text: 400, records: 90 },
  { name: "unloaded, without vectors", dimension: null, text: 6, records: 900 },
];

function record(random: Random, { dimension, text }: Kind, number: number): VectorInput {
  const pick = (count: number) => Math.floor(random() * count);
  return {
    id: `record-${number}`,
    ...(pick(4) > 0 && { document_id: `document ${pick(30)}` }),
    ...(dimension !== null && { dense_values: Array.from({ length: dimension }, () => random() * 2 - 1) }),
    sparse_values: [
      [pick(50), random()],
      [50 + pick(50), random()],
    ],
    text: Array.from({ length: 1 + pick(text) }, () => words[pick(words.length)]).join(" "),
    metadata: { number, nested: { word: words[pick(words.length)] } },
  } as VectorInput;
}

/** Fills an empty directory. @returns the admin key that the server has generated */
export async function makeData(dataDir: string, random: Random): Promise<void> {
  const database = await openDatabase({ dataDir, builderThreads: 1, versionsKept: 60 });
  try {
    for (const kind of kinds) {
      await fill(database, kind, random);
      const full = await database.snapshots.create(kind.name);
      if (kind.name !== "small") continue;
      await database.collection(kind.name).upsert([record(random, kind, 1)]);
      await database.snapshots.create(kind.name, {
        since_version: full.version_number,
        since_hash: full.hash,
      });
    }
    await database.collection("unloaded, without vectors").unload();
  } finally {
    await database.close();
  }
  // Writes the key and a session to the catalog.
  await using server = new ServerProcess(dataDir, { makesKey: true });
  const client = await server.client();
  await client.createSession({ username: "admin", password: server.adminKey });
  await server.stop();
}

type Database = Awaited<ReturnType<typeof openDatabase>>;

async function fill(database: Database, kind: Kind, random: Random): Promise<void> {
  const pick = (count: number) => Math.floor(random() * count);
  await database.createCollection({
    name: kind.name,
    dense_vector: { enabled: kind.dimension !== null, dimension: kind.dimension },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
    store_raw_text: kind.name === "small",
  });
  const collection = database.collection(kind.name);
  await collection.createIndex("sparse", { name: "sparse", quantization: 64, sample_threshold: 10 });
  await collection.createIndex("tf-idf", {
    name: "text",
    sample_threshold: 10,
    k1: 1.2,
    b: 0.75,
    positions: true,
  });
  if (kind.dimension !== null)
    await collection.createIndex("dense", {
      name: "dense",
      distance_metric_type: "cosine",
      quantization: { type: "scalar", properties: { data_type: "u8", range: { min: -1, max: 1 } } },
      index: { type: "hnsw", properties: {} },
    });
  const batch = (count: number) =>
    Array.from({ length: count }, () => record(random, kind, pick(kind.records)));
  await collection.upsert(Array.from({ length: kind.records }, (_, i) => record(random, kind, i)));
  for (let i = 0; i < 25; i++) await collection.upsert(batch(1 + pick(20)));
  for (let i = 0; i < 40; i++) {
    const id = `record-${pick(kind.records)}`;
    if (collection.has(id)) await collection.delete(id);
  }
  for (const isCommitted of [true, false]) {
    const transaction = collection.transaction((await collection.beginTransaction()).transaction_id);
    await transaction.upsert(batch(30));
    if (isCommitted) await transaction.commit();
    else await transaction.abort();
  }
  await collection.upsert(Array.from({ length: 20 }, (_, i) => record(random, kind, kind.records + i)));
  const open = collection.transaction((await collection.beginTransaction()).transaction_id);
  await open.upsert(batch(15));
  await collection.load();
  // A graph is built from a thousand records on; closing the database writes its checkpoint, if all records are linked by then.
  while (kind.records > 1_000 && (collection.indexes().dense?.status?.records_in_tail ?? 0) > 0)
    await new Promise((done) => setTimeout(done, 20));
}
