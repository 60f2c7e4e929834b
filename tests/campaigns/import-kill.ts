// Does an import survive a kill of the server in the middle?
//
//   node tests/campaigns/import-kill.ts [--runs 10]
//
// A run: the command line imports vectors into a server process; at a random moment that process is killed with
// SIGKILL and started again on the same directory. Then
//
//   1. every record that the import has saved as acknowledged exists, equal to its source bit by bit (in a streaming
//      import), or the open transaction has at least that many records and none of them is visible (in a transaction);
//   2. every record that exists is complete and equal to its source;
//   3. the import completes: in the same process if it waits for the server, or with the same command again;
//   4. all records exist and are equal, and a dense search finds the same as brute force over the source.
//
// Runs alternate between streaming and transaction, and between an import that waits for the server and one that gives up and is started
// again. Everything random is derived from the printed seed, except the timing of the machine.
//
// The vectors are ../shared/data/glove100-100k, read in place; if they are missing, the runs are skipped with a message.
// import-kill.test.ts makes one short run of each kind with generated vectors.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Collection, QuiverClient } from "@quiverdb/client";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, say, TemporaryFolder } from "./campaign.ts";
import { adminKey, main, ServerProcess } from "./server-process.ts";

const gloveBase = resolve(import.meta.dirname, "../../../shared/data/glove100-100k/base.f32");
const collectionName = "killed";
const queries = 20;
const topK = 10;

export type Mode = "streaming" | "transaction";

export type Source = { readonly path: string; readonly dimension: number; readonly values: Float32Array };

export type RunOptions = {
  readonly source: Source;
  readonly mode: Mode;
  /** Whether the import fails when the server is gone, and is started again; otherwise it waits. */
  readonly givesUp: boolean;
  readonly seed: number;
};

export type RunResult = {
  /** Milliseconds after the import's start at which the server was killed. */
  readonly killedAfterMs: number;
  /** Acknowledged records according to the saved state, after the server was dead. */
  readonly acknowledged: number;
  /** Records that were visible after the restart. */
  readonly visible: number;
  /** Records in the open transaction after the restart; null without one. */
  readonly buffered: number | null;
  readonly total: number;
};

/** Reads raw 32-bit floats. */
export function readSource(path: string, dimension: number): Source {
  const bytes = readFileSync(path);
  return {
    path,
    dimension,
    values: new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)),
  };
}

/** One run; throws at a violation. */
export async function runOnce({ source, mode, givesUp, seed }: RunOptions): Promise<RunResult> {
  const random = randomNumbers(seed);
  using folder = new TemporaryFolder("import-kill");
  const total = source.values.length / source.dimension;
  let server: ServerProcess | undefined;
  let importing: ImportProcess | undefined;
  try {
    server = await new ServerProcess(folder.join("data")).ready();
    const client = await server.client();
    const collection = await client.createCollection({
      name: collectionName,
      dense_vector: { enabled: true, dimension: source.dimension },
    });
    await collection.createDenseIndex({ distance_metric_type: "cosine" });

    const statePath = folder.join("state.json");
    const args = importArguments(source, mode, statePath, server.url, givesUp ? "0s" : "60s", total);
    const startedAt = performance.now();
    importing = startImport(args);
    // After a random part was saved as acknowledged, plus a random delay: mostly somewhere in the middle, in about one run of eight at the
    // end, when a transaction commits.
    const wanted = Math.min(total, Math.floor(random() * 1.15 * total));
    await untilAcknowledged(statePath, wanted, importing);
    const momentMs = wanted < total ? 100 : 1_500;
    await sleep((random() * momentMs * total) / 100_000);
    const killedAfterMs = Math.round(performance.now() - startedAt);
    await server.kill();
    // An import that was just complete when the server died has nothing to resume; all of it must exist.
    const wasReady = givesUp && (await importing.ended()) === 0;
    const acknowledged = wasReady ? total : readState(statePath).acknowledged;

    const flags = ["--port", String(server.port)];
    server = await new ServerProcess(folder.join("data"), { flags }).ready();
    const seen = await checkAfterRestart(client, source, mode, acknowledged, givesUp);

    if (givesUp && !wasReady) importing = startImport(args);
    await importing.done();
    importing = undefined;
    await checkComplete(collection, source);
    if (existsSync(statePath)) throw new Error("the import has ended and its saved state still exists");
    await checkSearch(collection, source, random);
    return { killedAfterMs, acknowledged, ...seen, total };
  } finally {
    importing?.kill();
    await server?.kill();
  }
}

// --- What must hold -------------------------------------------------------------------------------------------------

/** @param atRest whether no import is running, so that counts cannot grow meanwhile */
async function checkAfterRestart(
  client: QuiverClient,
  source: Source,
  mode: Mode,
  acknowledged: number,
  atRest: boolean,
): Promise<{ visible: number; buffered: number | null }> {
  const collection = client.collection(collectionName);
  const [open] = (await collection.transactions()).filter(({ status }) => "NotStarted" in status);
  const there = await checkRecords(collection, source);
  if (mode === "streaming") {
    // Batches overlap, so more records than the saved ones may exist, but none of the saved ones may be missing.
    for (let row = 0; row < acknowledged; row++) {
      if (!there.has(String(row)))
        throw new Error(`record ${row} was acknowledged (${acknowledged} were) and is missing`);
    }
    return { visible: there.size, buffered: null };
  }
  const rows = source.values.length / source.dimension;
  if (!open) {
    // The kill came when the commit was durable, or before the transaction existed.
    if (there.size !== rows && there.size !== 0) {
      throw new Error(`the transaction is no longer open, and ${there.size} of ${rows} records are visible`);
    }
    if (there.size === 0 && acknowledged > 0) throw new Error("the transaction is gone");
    return { visible: there.size, buffered: null };
  }
  if (there.size > 0 && there.size !== rows) {
    throw new Error(`${there.size} of ${rows} records of the transaction are visible`);
  }
  if (there.size > 0 && atRest) throw new Error(`${there.size} records are visible before the commit`);
  const [{ stats }] = Object.values(open.status);
  if (stats.records_upserted < acknowledged) {
    throw new Error(
      `${acknowledged} records were acknowledged, the transaction holds ${stats.records_upserted}`,
    );
  }
  return { visible: there.size, buffered: stats.records_upserted };
}

/** Reads every existing record and compares it with its source; returns the ids. */
async function checkRecords(collection: Collection, source: Source): Promise<Set<string>> {
  const ids = new Set<string>();
  for await (const record of collection.export().records()) {
    const row = Number(record.id);
    const start = row * source.dimension;
    const values = record.dense_values ?? [];
    const isEqual =
      values.length === source.dimension && values.every((value, i) => value === source.values[start + i]);
    if (!isEqual) throw new Error(`record ${record.id} is not what was imported`);
    if (ids.has(record.id)) throw new Error(`record ${record.id} is there twice`);
    ids.add(record.id);
  }
  return ids;
}

async function checkComplete(collection: Collection, source: Source): Promise<void> {
  const rows = source.values.length / source.dimension;
  const ids = await checkRecords(collection, source);
  if (ids.size !== rows) throw new Error(`${ids.size} of ${rows} records are there`);
  const { vectors_count } = await collection.describe();
  if (vectors_count !== rows) throw new Error(`vectors_count is ${vectors_count}, expected ${rows}`);
  // Reading by id uses another code path than exporting.
  for (const row of [0, Math.floor(rows / 2), rows - 1]) await collection.get(String(row));
}

/** Compares dense searches with brute force over the source. */
async function checkSearch(collection: Collection, source: Source, random: () => number): Promise<void> {
  const rows = source.values.length / source.dimension;
  await collection.waitForIndex();
  for (let i = 0; i < queries; i++) {
    const at = Math.floor(random() * rows) * source.dimension;
    const query = source.values
      .slice(at, at + source.dimension)
      .map((value) => value + (random() - 0.5) * 0.1);
    const { results } = await collection.search.dense({ query_vector: query, top_k: topK, exact: true });
    const expected = bruteForce(source, query);
    const found = results.map(({ id }) => Number(id));
    // Two vectors may be equally near within the rounding of floats.
    const nearEnough = found.every(
      (row, rank) => Math.abs(cosine(source, row, query) - expected[rank].score) < 1e-5,
    );
    if (found.length !== Math.min(topK, rows) || !nearEnough) {
      throw new Error(`search ${i} found ${found}, expected ${expected.map(({ row }) => row)}`);
    }
  }
}

function bruteForce(source: Source, query: Float32Array): { row: number; score: number }[] {
  const rows = source.values.length / source.dimension;
  return Array.from({ length: rows }, (_, row) => ({ row, score: cosine(source, row, query) }))
    .sort((a, b) => b.score - a.score)
    .slice(0, topK);
}

function cosine({ values, dimension }: Source, row: number, query: Float32Array): number {
  let product = 0;
  let a = 0;
  let b = 0;
  for (let i = 0; i < dimension; i++) {
    const x = values[row * dimension + i];
    product += x * query[i];
    a += x * x;
    b += query[i] * query[i];
  }
  return product / Math.sqrt(a * b || 1);
}

// --- The processes --------------------------------------------------------------------------------------------------

function importArguments(
  source: Source,
  mode: Mode,
  statePath: string,
  url: string,
  retryFor: string,
  total: number,
): string[] {
  return [
    "import",
    collectionName,
    source.path,
    "--format",
    "f32",
    "--dimension",
    String(source.dimension),
    `--${mode}`,
    "--state",
    statePath,
    "--url",
    url,
    "--api-key",
    adminKey,
    "--retry-for",
    retryFor,
    "--batch-size",
    String(Math.ceil(total / 200)),
    "--json",
  ];
}

type ImportProcess = {
  /** Resolves when the import has succeeded. */
  done(): Promise<void>;
  /** The exit code: 0, or 1 when the import failed because of the server. */
  ended(): Promise<0 | 1>;
  hasEnded(): boolean;
  kill(): void;
};

function startImport(args: readonly string[]): ImportProcess {
  const child = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const output = keepOutput(child);
  const closed = new Promise<number | null>((done) => child.once("close", done));
  const ended = async () => {
    const code = await closed;
    if (code === 0 || (code === 1 && output().includes("connection_failed"))) return code;
    throw new Error(`the import ended with code ${code}:\n${output()}`);
  };
  return {
    ended,
    done: async () => {
      if ((await ended()) === 1) throw new Error(`the import failed:\n${output()}`);
    },
    hasEnded: () => child.exitCode !== null,
    kill: () => child.kill("SIGKILL"),
  };
}

function keepOutput(child: ChildProcess): () => string {
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (more) => {
      text += more;
    });
  }
  return () => text;
}

function readState(path: string): { acknowledged: number } {
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : { acknowledged: 0 };
}

async function untilAcknowledged(statePath: string, wanted: number, importing: ImportProcess): Promise<void> {
  while (readState(statePath).acknowledged < wanted && !importing.hasEnded()) await sleep(2);
}

// --- The command ----------------------------------------------------------------------------------------------------

if (import.meta.main)
  await command({
    name: "import-kill",
    options: { runs: 10, seed: 1 },
    skip: () => (existsSync(gloveBase) ? null : "../shared/data/glove100-100k is not there"),
    async run({ runs, seed: first }) {
      const source = readSource(gloveBase, 100);
      let failures = 0;
      for (let run = 0; run < runs; run++) {
        const seed = first + run;
        const mode: Mode = run % 2 === 0 ? "streaming" : "transaction";
        const givesUp = run % 4 < 2;
        const name = `run ${run + 1}, seed ${seed}, ${mode}, the import ${givesUp ? "fails and is started again" : "waits"}`;
        try {
          const result = await runOnce({ source, mode, givesUp, seed });
          const buffered = result.buffered === null ? "" : `, ${result.buffered} in the open transaction`;
          say(
            `${name}: ok; killed after ${result.killedAfterMs} ms with ${result.acknowledged} acknowledged, after the restart ${result.visible} visible${buffered}, at the end ${result.total}`,
          );
        } catch (error) {
          failures++;
          say(`${name}: FAILED: ${(error as Error).stack}`);
        }
      }
      if (failures > 0) throw new Error(`${failures} of ${runs} runs failed`);
      return { runs, failed: 0 };
    },
  });
