// Does a server ever serve damaged data, and does the intact data stay available?
//
//   node tests/campaigns/corruption.ts [--runs 300] [--tally FILE]
//
// A data directory is created by real use (corruption/data.ts). Each run damages one random place in a random file of a copy: it flips a
// bit, zeroes or overwrites a sector, or replaces one page by another; some snapshot files are removed. Then
//
//   1. `quiver check` reads the copy; `quiver repair` saves what is intact. Its result passes `quiver check`, every record in it is
//      the original, and every missing record and snapshot is named;
//   2. a server process is started on the copy. It serves, or exits and names the damage; it is never killed by a signal;
//   3. all requests are sent: each response is that of the undamaged server, or an error that reports corrupted data;
//   4. records are written to every collection that accepts them, and read back; if snapshots were damaged, each of their chains restores
//      to its original contents, or is rejected;
//   5. a second start has the same result as the first one;
//   6. if any response was an error, `quiver check` had a finding.

import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { QuiverClient } from "@quiverdb/client";
import { text } from "@quiverdb/engine/base/bytes";
import { allVectors } from "@quiverdb/engine/collection/reading";
import { collectionTables, metaKeys } from "@quiverdb/engine/collection/tables";
import { checkDirectory } from "@quiverdb/engine/database/check/directory";
import { repairDirectory } from "@quiverdb/engine/database/check/repair";
import { collectionsDirectory, snapshotsDirectory } from "@quiverdb/engine/process/data-directory";
import { LmdbStore } from "@quiverdb/engine/storage/lmdb";
import { randomNumbers } from "@quiverdb/kernels/random";
import { isQuiverError } from "@quiverdb/protocol/errors";
import { command, say, TemporaryFolder } from "./campaign.ts";
import { type Damage, damage } from "./corruption/damage.ts";
import { makeData } from "./corruption/data.ts";
import { type Answers, answersOf, compare, makeProbes } from "./corruption/probes.ts";
import type { Figures } from "./figures.ts";
import { NotStarted, ServerProcess } from "./server-process.ts";

export type Summary = {
  runs: number;
  /** Where the damaged places were. */
  inStores: number;
  inCatalog: number;
  inKeptIndexes: number;
  inSnapshots: number;
  /** Runs in which `quiver check` found something. */
  found: number;
  /** Runs in which all answers were right. */
  allRight: number;
  /** Runs in which the server did not start, and said why. */
  refused: number;
  /** Runs in which some answers were errors that name the damage. */
  withErrors: number;
  answersRight: number;
  answersErrors: number;
  recordsSaved: number;
  recordsLost: number;
  /** The largest number of records lost by one damaged place, by kind. */
  lostMost: Record<string, number>;
};

const nothing = (): Summary => ({
  runs: 0,
  inStores: 0,
  inCatalog: 0,
  inKeptIndexes: 0,
  inSnapshots: 0,
  found: 0,
  allRight: 0,
  refused: 0,
  withErrors: 0,
  answersRight: 0,
  answersErrors: 0,
  recordsSaved: 0,
  recordsLost: 0,
  lostMost: {},
});

type Records = Map<string, string>;

export class Campaign {
  readonly #folder: string;
  readonly #random: () => number;
  #oracle: Answers = new Map();
  #probes: Awaited<ReturnType<typeof makeProbes>> = [];
  #records: Records = new Map();
  /** Chains of snapshots, each with what the restored collection exports. */
  readonly #chains: { ids: string[]; exported: string }[] = [];
  readonly summary: Summary;

  constructor(folder: string, seed: number, summary = nothing()) {
    this.#folder = folder;
    this.#random = randomNumbers(seed);
    this.summary = summary;
  }

  get #original(): string {
    return join(this.#folder, "original");
  }

  /** Creates the data and records all responses of the undamaged server. */
  async prepare(): Promise<void> {
    await makeData(this.#original, this.#random);
    const clean = await checkDirectory(this.#original);
    if (clean.findings_total > 0)
      throw new Error(`undamaged data has findings: ${JSON.stringify(clean.findings[0])}`);
    const copy = this.#copy("oracle");
    const server = new ServerProcess(copy, { makesKey: true });
    try {
      const client = await server.client();
      this.#probes = await makeProbes(server, this.#random);
      this.#oracle = await answersOf(server, this.#probes);
      const again = compare(this.#probes, this.#oracle, await answersOf(server, this.#probes));
      if (again.wrong.length > 0) throw new Error(`the oracle is not stable: ${again.wrong[0]}`);
      await this.#prepareChains(client);
    } finally {
      await server.kill("SIGTERM");
    }
    this.#records = await recordsOf(copy);
    rmSync(copy, { recursive: true });
  }

  /** Restores every chain of snapshots on the undamaged server. */
  async #prepareChains(client: QuiverClient): Promise<void> {
    const { snapshots } = await client.listSnapshots();
    for (const { id, since_hash } of snapshots) {
      const base = snapshots.find(({ hash }) => hash === since_hash);
      const ids = base === undefined ? [id] : [base.id, id];
      this.#chains.push({ ids, exported: await restoredBy(client, ids) });
    }
  }

  /** Restores every chain; each restores to its original contents or is rejected. @returns the number of rejected chains */
  async #restore(client: QuiverClient): Promise<number> {
    let refused = 0;
    for (const { ids, exported } of this.#chains)
      try {
        if ((await restoredBy(client, ids)) !== exported)
          throw new Error(`the snapshots ${ids.join(", ")} are restored to something else`);
      } catch (error) {
        if (!isQuiverError(error, "data_corrupted") && !isQuiverError(error, "invalid_snapshot")) throw error;
        refused++;
      }
    return refused;
  }

  #copy(name: string): string {
    const path = join(this.#folder, name);
    rmSync(path, { recursive: true, force: true });
    cpSync(this.#original, path, { recursive: true });
    return path;
  }

  /** Tests one damaged place. @returns a description of the outcome. @throws at a violation */
  async run(): Promise<string> {
    const copy = this.#copy("damaged");
    const done = damage(copy, this.#random);
    try {
      this.summary.runs++;
      this.summary[roomOf(done)]++;
      const seen = await this.#look(copy, done);
      return `${describe(done)}: ${seen}`;
    } catch (error) {
      throw new Error(`${describe(done)}: ${(error as Error).message}`, { cause: error });
    } finally {
      rmSync(copy, { recursive: true, force: true });
    }
  }

  async #look(copy: string, done: Damage): Promise<string> {
    const { summary } = this;
    const report = await checkDirectory(copy);
    if (report.findings_total > 0) summary.found++;
    // Undamaged data is also repaired now and then, because then nothing may be lost.
    const isRepaired = report.findings_total > 0 || summary.runs % 5 === 0;
    const lost = isRepaired ? await this.#repair(copy, done) : 0;
    const first = await this.#serve(copy, done);
    if (first.errors > 0 && report.findings_total === 0)
      throw new Error("the server reported damage that quiver check did not find");
    // Without an error the loop is not needed.
    const second = first.errors > 0 && (await this.#startAgain(copy));
    if (first.isRefused && !second)
      throw new Error("a server that had not started, started at the second attempt");
    if (first.isRefused) summary.refused++;
    else if (first.errors > 0) summary.withErrors++;
    else summary.allRight++;
    summary.answersRight += first.right;
    summary.answersErrors += first.errors;
    const served = first.isRefused ? "not started" : `${first.right} answers right, ${first.errors} errors`;
    return `${report.findings_total} findings; ${served}; ${lost} records lost`;
  }

  async #repair(copy: string, { kind }: Damage): Promise<number> {
    const into = join(this.#folder, "repaired");
    rmSync(into, { recursive: true, force: true });
    const named = new Set<string>();
    const lostSnapshots = new Set<string>();
    let unnamed = 0;
    const repaired = await repairDirectory(copy, into, {
      onLoss: ({ collection, record_id, message }) => {
        const [, snapshot] = /^The snapshot ([0-9a-f]+) is lost/.exec(message) ?? [];
        if (snapshot !== undefined) lostSnapshots.add(snapshot);
        else if (record_id !== undefined) named.add(`${collection}/${record_id}`);
        else unnamed += Number(/^(\d+) more records/.exec(message)?.[1] ?? 1);
      },
    });
    const { findings } = await checkDirectory(into);
    if (findings.length > 0)
      throw new Error(`the repaired directory has findings: ${JSON.stringify(findings[0])}`);
    this.#compareSnapshots(into, lostSnapshots);
    const records = await recordsOf(into);
    for (const [name, record] of records)
      if (this.#records.get(name) !== record)
        throw new Error(`the repaired record ${name} is not the original`);
    const missing = [...this.#records.keys()].filter((name) => !records.has(name));
    const silent = missing.filter((name) => !named.has(name));
    if (silent.length > unnamed) throw new Error(`${silent.length} records were lost silently: ${silent[0]}`);
    const { summary } = this;
    summary.recordsSaved += repaired.collections.reduce((sum, { records: count }) => sum + count, 0);
    summary.recordsLost += missing.length;
    summary.lostMost[kind] = Math.max(summary.lostMost[kind] ?? 0, missing.length);
    if (kind === "bit" && missing.length > 1) throw new Error(`one bit lost ${missing.length} records`);
    rmSync(into, { recursive: true });
    return missing.length;
  }

  /** Every snapshot is in the repaired directory as it was, or named as lost. */
  #compareSnapshots(into: string, lost: ReadonlySet<string>): void {
    for (const name of readdirSync(snapshotsDirectory(this.#original))) {
      if (lost.has(name.split(".")[0])) continue;
      const [before, after] = [this.#original, into].map((dir) => join(snapshotsDirectory(dir), name));
      if (!existsSync(after)) throw new Error(`the snapshot ${name} was lost silently`);
      if (!readFileSync(before).equals(readFileSync(after)))
        throw new Error(`the repaired snapshot ${name} is not the original`);
    }
  }

  async #serve(
    copy: string,
    { file }: Damage,
  ): Promise<{ right: number; errors: number; isRefused: boolean }> {
    const server = new ServerProcess(copy, { makesKey: true });
    let client: QuiverClient;
    try {
      client = await server.client();
    } catch (error) {
      requireReason(error);
      return { right: 0, errors: 1, isRefused: true };
    }
    try {
      const { right, errors, wrong } = compare(
        this.#probes,
        this.#oracle,
        await answersOf(server, this.#probes),
      );
      if (wrong.length > 0)
        throw new Error(`${wrong.length} answers are wrong, the first is\n    ${wrong[0]}`);
      if (server.hasEnded()) throw new Error(`the server ended (${server.ending()}):\n${server.output()}`);
      await this.#write(server);
      const refused = file.startsWith("snapshots") ? await this.#restore(client) : 0;
      return { right, errors: errors + refused, isRefused: false };
    } catch (error) {
      if (server.hasEnded())
        throw new Error(`the server ended (${server.ending()}): ${server.output().slice(-2000)}`, {
          cause: error,
        });
      throw error;
    } finally {
      await server.kill("SIGTERM");
    }
  }

  /** Writes to every collection and reads it back; damaged ones may reject the write with an error that reports the damage. */
  async #write(server: ServerProcess): Promise<void> {
    const headers = { authorization: `Bearer ${server.adminKey}`, "content-type": "application/json" };
    for (const name of ["small", "long vectors", "unloaded, without vectors"]) {
      const c = `${server.url}/vectordb/collections/${encodeURIComponent(name)}`;
      const record = { id: "written afterwards", text: "written afterwards" };
      const written = await fetch(`${c}/streaming/upsert`, {
        method: "POST",
        headers,
        body: JSON.stringify({ vectors: [record] }),
      });
      if (!written.ok) {
        const body = await written.text();
        if (!body.includes("data_corrupted"))
          throw new Error(`a write to "${name}" was answered with ${body}`);
        continue;
      }
      await written.text();
      const read = await fetch(`${c}/vectors/${encodeURIComponent(record.id)}`, { headers });
      const found = (await read.json()) as { id?: string };
      if (found.id !== record.id)
        throw new Error(`a record written to "${name}" is not there: ${JSON.stringify(found)}`);
      const removed = await fetch(`${c}/vectors/${encodeURIComponent(record.id)}`, {
        method: "DELETE",
        headers,
      });
      if (!removed.ok)
        throw new Error(`a written record of "${name}" was not deleted: ${await removed.text()}`);
    }
  }

  /** @returns whether the second start failed, too */
  async #startAgain(copy: string): Promise<boolean> {
    await using server = new ServerProcess(copy, { makesKey: true });
    try {
      await server.client();
      return false;
    } catch (error) {
      requireReason(error);
      return true;
    }
  }
}

/** A server that does not start exits by itself and names the damage. */
function requireReason(error: unknown): void {
  if (!(error instanceof NotStarted)) throw error;
  if (error.signal !== null) throw new Error(`the server was killed by ${error.signal} at its start`);
  if (!/damaged|corrupt|checksum/.test(error.message))
    throw new Error(
      `the server did not start, and did not say what is damaged:\n${error.message.slice(-2000)}`,
    );
}

/** Restores a chain of snapshots under another name. @returns what the collection exports */
async function restoredBy(client: QuiverClient, snapshots: string[]): Promise<string> {
  const collection = client.collection("restored");
  await collection.restore({ snapshots });
  const lines: string[] = [];
  for await (const record of collection.export()) lines.push(JSON.stringify(record));
  await collection.drop();
  return lines.join("\n");
}

function roomOf({ file }: Damage): "inStores" | "inCatalog" | "inKeptIndexes" | "inSnapshots" {
  if (file.startsWith("snapshots")) return "inSnapshots";
  if (file.startsWith("catalog")) return "inCatalog";
  return file.includes("checkpoints") ? "inKeptIndexes" : "inStores";
}

const describe = ({ kind, file, at, length }: Damage) => `${kind} at ${at}+${length} of ${file}`;

/** All records of an undamaged directory as text, by collection and id. */
async function recordsOf(dataDir: string): Promise<Records> {
  const records: Records = new Map();
  const root = collectionsDirectory(dataDir);
  for (const internalId of readdirSync(root)) {
    const store = new LmdbStore(join(root, internalId), collectionTables);
    const readTxn = store.beginRead();
    const { name } = JSON.parse(text(readTxn.get("meta", metaKeys.definition) as Uint8Array)) as {
      name: string;
    };
    for (const record of allVectors(readTxn)) records.set(`${name}/${record.id}`, record.toJson());
    readTxn.release();
    await store.close();
  }
  return records;
}

function figuresOf(summary: Summary): Figures {
  const { inStores, inCatalog, inKeptIndexes, inSnapshots, lostMost } = summary;
  return {
    "damaged places": summary.runs,
    "in stores, the catalog, checkpoints, snapshots": [inStores, inCatalog, inKeptIndexes, inSnapshots].join(
      ", ",
    ),
    "found by `quiver check`": summary.found,
    "not found: no data was hit, all answers right": summary.runs - summary.found,
    "servers with right answers only": summary.allRight,
    "servers with some errors that name the damage": summary.withErrors,
    "servers that refused to start, naming the damage": summary.refused,
    "right answers": summary.answersRight,
    "errors that name the damage": summary.answersErrors,
    "wrong answers": 0,
    "server processes ended by a signal": 0,
    "records saved by `quiver repair`": summary.recordsSaved,
    "records lost, each one named": summary.recordsLost,
    [`most lost by one place: ${Object.keys(lostMost).join(", ")}`]: Object.values(lostMost).join(", "),
  };
}

if (import.meta.main)
  await command({
    name: "corruption",
    options: { runs: 300, seed: 1 },
    counts: nothing,
    async run({ runs, seed }, summary) {
      using folder = new TemporaryFolder("corruption");
      const campaign = new Campaign(folder.path, seed, summary);
      await campaign.prepare();
      let failures = 0;
      for (let run = 1; run <= runs; run++)
        try {
          say(`run ${run}: ${await campaign.run()}`);
        } catch (error) {
          failures++;
          say(`run ${run}: FAILED: ${(error as Error).message}`);
        }
      if (failures > 0) throw new Error(`${failures} of ${runs} runs failed`);
      return figuresOf(summary);
    },
  });
