// Does every backup contain exactly one acknowledged version, whatever is written or killed meanwhile?
//
//   node tests/campaigns/backup.ts [--backups 120]
//
// A server process is under load: one client sends upserts, deletes and transactions, and records what each version must contain (the
// oracle). Meanwhile full and incremental backups are created and downloaded, and one of them is repeatedly restored on the same server
// under another name. At a random moment the process is killed with SIGKILL and started again on its directory. Then
//
//   1. the collection is at the last acknowledged version or the next one, that of the write that the kill interrupted;
//   2. every listed snapshot is complete: its file has the listed SHA-256. The file of an interrupted one is gone;
//   3. the collection that was being restored is either the old one or the new one, by its hash;
//   4. every finished backup, restored in a database that is never killed, has the version, the hash and the exact records
//      of the oracle. Incremental backups are restored as chains.
//
// The seed determines what is written and backed up; the timing depends on the machine.

import { createHash } from "node:crypto";
import { createReadStream, readdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Collection, isQuiverError, type QuiverClient } from "@quiverdb/client";
import type { Database } from "@quiverdb/engine/database/contract";
import { openDatabase } from "@quiverdb/engine/database/database";
import { randomNumbers } from "@quiverdb/kernels/random";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import { command, type Say, say, TemporaryFolder } from "./campaign.ts";
import type { Figures } from "./figures.ts";
import { ServerProcess } from "./server-process.ts";

const idsMax = 400;
/** Maximum number of incremental backups after a full one. */
const chainMax = 6;

/** A write: ids with new contents, and deleted ids. */
type Write = { upserts: string[]; deletes: string[]; inTransaction: boolean };
type Version = { hash: string; write: Write | null };
type Backup = { snapshot: Snapshot; path: string; after: Backup | null };

const recordOf = (id: string, version: number) => ({
  id,
  document_id: `d${id.length}`,
  dense_values: [version, id.length, 0.5],
  text: `text of ${id} at ${version}`,
  metadata: { version },
});

/** What every version must contain. */
class Oracle {
  readonly versions: Version[] = [];
  /** Sent but not acknowledged. */
  pending: Write | null = null;

  get current(): number {
    return this.versions.length - 1;
  }

  /** id -> the version that wrote it. */
  stateAt(version: number): Map<string, number> {
    const state = new Map<string, number>();
    for (let at = 0; at <= version; at++) {
      const { write } = this.versions[at];
      for (const id of write?.deletes ?? []) state.delete(id);
      for (const id of write?.upserts ?? []) state.set(id, at);
    }
    return state;
  }
}

export type CampaignOptions = {
  backups: number;
  /** Maximum number of backups to wait for before a kill. */
  backupsPerLife: number;
  seed: number;
  say: Say;
};

/** Runs until the given number of backups is verified. @throws at the first violation */
export async function runCampaign(options: CampaignOptions): Promise<Figures> {
  using folder = new TemporaryFolder("backup-campaign");
  const campaign = new Campaign(folder.path, options);
  try {
    return await campaign.run();
  } finally {
    await campaign.end();
  }
}

class Campaign {
  readonly #folder: string;
  readonly #options: CampaignOptions;
  readonly #random: () => number;
  readonly #oracle = new Oracle();
  readonly #seen = {
    backups: 0,
    incremental: 0,
    kills: 0,
    cutOff: 0,
    foundAfterKill: 0,
    restoresCutOff: 0,
    longest: 1,
    records: 0,
  };
  #server: ServerProcess | undefined;
  #judge: Database | undefined;
  #newest: Backup | null = null;
  #files = 0;
  /** The hash of the restored collection, and the one that it may have got just before the kill. */
  #copy: { is: string | null; becomes: string | null } = { is: null, becomes: null };

  constructor(folder: string, options: CampaignOptions) {
    this.#folder = folder;
    this.#options = options;
    this.#random = randomNumbers(options.seed);
  }

  #below(n: number): number {
    return Math.floor(this.#random() * n);
  }

  get #data(): string {
    return join(this.#folder, "data");
  }

  async run(): Promise<Figures> {
    this.#judge = await openDatabase({ dataDir: join(this.#folder, "judge") });
    while (this.#seen.backups < this.#options.backups) {
      const client = await this.#start();
      const finished = await this.#live(client);
      for (const backup of finished) await this.#verify(backup);
      this.#options.say(
        `${this.#seen.kills} kills, version ${this.#oracle.current}: ${this.#seen.backups} backups verified (${this.#seen.incremental} incremental)`,
      );
    }
    const client = await this.#start();
    await this.#stop(client);
    const seen = this.#seen;
    return {
      "backups, each restored to exactly one acknowledged version": seen.backups,
      "of them incremental": seen.incremental,
      "longest chain restored": seen.longest,
      "kills (SIGKILL) under load": seen.kills,
      "backups interrupted by a kill, nothing left": seen.cutOff,
      "complete snapshots after a kill": seen.foundAfterKill,
      "restores interrupted by a kill: old collection or new one": seen.restoresCutOff,
      "versions written": this.#oracle.current,
      "records compared": seen.records,
    };
  }

  async end(): Promise<void> {
    await this.#server?.kill();
    await this.#judge?.close();
  }

  async #stop(client: QuiverClient): Promise<void> {
    // Final comparison of the server with the oracle.
    const { version_number } = await client.collection("c").currentVersion();
    if (version_number !== this.#oracle.current) throw new Error("the last version is not the oracle's");
  }

  // ---- Lives of the server

  /** Starts the server and compares its contents with the oracle. */
  async #start(): Promise<QuiverClient> {
    this.#server = new ServerProcess(this.#data, { flags: ["--versions-kept", "100000"] });
    const client = await this.#server.client({ retries: 0 });
    if (this.#oracle.versions.length === 0) {
      const created = await client.createCollection({
        name: "c",
        dense_vector: { enabled: true, dimension: 3 },
        tf_idf_options: { enabled: true },
        store_raw_text: true,
      });
      await created.createDenseIndex({ distance_metric_type: "cosine" });
      await created.createTextIndex();
      this.#oracle.versions.push({ hash: (await created.currentVersion()).hash, write: null });
      return client;
    }
    const collection = client.collection("c");
    await this.#settleVersion(collection);
    await this.#settleSnapshots(collection);
    await this.#settleCopy(client);
    for (const { transaction_id, status } of await collection.transactions())
      if ("NotStarted" in status) await collection.resumeTransaction(transaction_id).abort();
    return client;
  }

  async #settleVersion(collection: Collection): Promise<void> {
    const oracle = this.#oracle;
    const { version_number: version, hash } = await collection.currentVersion();
    if (version === oracle.current + 1 && oracle.pending !== null)
      oracle.versions.push({ hash, write: oracle.pending });
    oracle.pending = null;
    if (version !== oracle.current || hash !== oracle.versions[version].hash)
      throw new Error(
        `after a kill the collection is at version ${version}, acknowledged was ${oracle.current}`,
      );
  }

  /** Every snapshot of the killed server is either listed and complete, or gone. */
  async #settleSnapshots(collection: Collection): Promise<void> {
    const { snapshots, running } = await collection.snapshots();
    if (running.length > 0) throw new Error("a snapshot is being created without a request");
    const files = readdirSync(join(this.#data, "snapshots"));
    if (files.length !== 2 * snapshots.length)
      throw new Error(`${snapshots.length} snapshots are listed, and there are the files ${files.join(" ")}`);
    for (const snapshot of snapshots) {
      const path = await this.#download(collection, snapshot);
      this.#seen.foundAfterKill++;
      if (snapshot.since_version === null) await this.#verify({ snapshot, path, after: null });
      await collection.deleteSnapshot(snapshot.id);
    }
  }

  async #settleCopy(client: QuiverClient): Promise<void> {
    const { is, becomes } = this.#copy;
    const there = (await client.listCollections()).some(({ name }) => name === "copy");
    const hash = there ? (await client.collection("copy").currentVersion()).hash : null;
    if (hash !== is && hash !== becomes) throw new Error(`the restored collection has the hash ${hash}`);
    if (becomes !== null) this.#seen.restoresCutOff++;
    this.#copy = { is: hash, becomes: null };
  }

  /** One server run: writes, backups and restores until the kill. @returns finished backups */
  async #live(client: QuiverClient): Promise<Backup[]> {
    const finished: Backup[] = [];
    const life = { isOver: false };
    // The loops end when the connection breaks; any other error is a violation.
    const untilKilled = async (act: () => Promise<void>) => {
      try {
        while (!life.isOver) await act();
      } catch (error) {
        if (!life.isOver || !isQuiverError(error, "connection_failed")) throw error;
      }
    };
    const loops = [
      untilKilled(() => this.#write(client.collection("c"))),
      untilKilled(async () => void finished.push(await this.#backUp(client.collection("c")))),
      untilKilled(() => this.#restoreThere(client)),
    ];
    const all = Promise.all(loops);
    const killing = (async () => {
      // Some backups in each run, then a random moment.
      const wanted = 1 + this.#below(this.#options.backupsPerLife);
      while (finished.length < wanted) await sleep(20);
      await sleep(this.#random() * 1_500);
      life.isOver = true;
      await this.#server?.kill();
      this.#seen.kills++;
    })();
    await Promise.race([all, killing]);
    await killing;
    await all;
    return finished;
  }

  async #write(collection: Collection): Promise<void> {
    const oracle = this.#oracle;
    const version = oracle.current + 1;
    const state = oracle.stateAt(oracle.current);
    const ids = Array.from({ length: 1 + this.#below(30) }, () => `r${this.#below(idsMax)}`);
    const upserts = [...new Set(ids)];
    const gone = [...state.keys()].filter((id) => !upserts.includes(id));
    const kind = this.#below(4);
    const deletes = kind < 2 && gone.length > 0 ? [gone[this.#below(gone.length)]] : [];
    const write: Write =
      kind === 0 && deletes.length > 0
        ? { upserts: [], deletes, inTransaction: false }
        : { upserts, deletes: kind === 1 ? deletes : [], inTransaction: kind === 1 };
    const records = write.upserts.map((id) => recordOf(id, version));
    if (write.inTransaction) {
      const transaction = await collection.transaction();
      await transaction.upsert(records);
      for (const id of write.deletes) await transaction.delete(id);
      oracle.pending = write;
      await transaction.commit();
    } else {
      oracle.pending = write;
      if (write.upserts.length > 0) await collection.upsert(records);
      else await collection.delete(write.deletes[0]);
    }
    const current = await collection.currentVersion();
    if (current.version_number !== version)
      throw new Error(`write ${version} made version ${current.version_number}`);
    oracle.versions.push({ hash: current.hash, write });
    oracle.pending = null;
  }

  // ---- Backups

  /** Creates a backup and downloads it; a quarter of the snapshots stay on the server for the next run. */
  async #backUp(collection: Collection): Promise<Backup> {
    const before = this.#newest;
    const after = before !== null && chainOf(before).length <= chainMax && this.#below(4) > 0 ? before : null;
    const acknowledged = this.#oracle.current;
    this.#seen.cutOff++;
    const snapshot = await collection.createSnapshot(
      after === null ? {} : { sinceVersion: after.snapshot.version_number, sinceHash: after.snapshot.hash },
    );
    if (snapshot.version_number < acknowledged)
      throw new Error(
        `a snapshot is of version ${snapshot.version_number}, and ${acknowledged} was acknowledged`,
      );
    const path = await this.#download(collection, snapshot);
    if (this.#below(4) > 0) await collection.deleteSnapshot(snapshot.id);
    this.#seen.cutOff--;
    this.#newest = { snapshot, path, after };
    return this.#newest;
  }

  async #download(collection: Collection, { id, sha256 }: Snapshot): Promise<string> {
    const path = join(this.#folder, `backup-${this.#files++}`);
    const hash = createHash("sha256");
    const file = await open(path, "wx");
    try {
      for await (const chunk of collection.downloadSnapshot(id)) {
        hash.update(chunk);
        await file.write(chunk);
      }
    } finally {
      await file.close();
    }
    if (hash.digest("hex") !== sha256) throw new Error(`the snapshot ${id} is not what it was listed as`);
    return path;
  }

  /** Restores a finished backup on the server under another name, under load. */
  async #restoreThere(client: QuiverClient): Promise<void> {
    const backup = this.#newest;
    await sleep(200 + this.#random() * 300);
    if (backup === null) return;
    const chain = chainOf(backup);
    const snapshots: string[] = [];
    for (const { path } of chain) {
      const stream = () => fileStream(path);
      snapshots.push((await client.uploadSnapshot(stream)).id);
    }
    this.#copy.becomes = backup.snapshot.hash;
    const { hash } = await client.collection("copy").restore({ snapshots, overwrite: true });
    this.#copy = { is: hash, becomes: null };
    for (const id of snapshots) await client.collection("c").deleteSnapshot(id);
  }

  /** Restores a backup in a database that is never killed, and compares all of it with the oracle. */
  async #verify(backup: Backup): Promise<void> {
    const judge = this.#judge as Database;
    const chain = chainOf(backup);
    const received: Snapshot[] = [];
    for (const { path } of chain) received.push(await judge.snapshots.receive(createReadStream(path)));
    await judge.restoreCollection("c", { snapshots: received.map(({ id }) => id), overwrite: true });
    for (const { id } of received) judge.snapshots.delete("c", id);
    const { version_number: version, hash, vector_count, since_version } = backup.snapshot;
    const known = this.#oracle.versions[version];
    if (known === undefined)
      throw new Error(`a backup is of version ${version}, which was never acknowledged`);
    const restored = judge.collection("c");
    const { version_number, hash: itsHash } = restored.currentVersion();
    if (version_number !== version || itsHash !== hash || hash !== known.hash)
      throw new Error(
        `a backup of version ${version} (${known.hash}) was restored as ${version_number} (${itsHash})`,
      );
    const state = this.#oracle.stateAt(version);
    const exported = restored.exportVectors();
    let records = 0;
    for (const stored of exported) {
      const { sparse_values, sparse_indices, ...record } = stored.toRecord();
      const born = state.get(record.id);
      const expected = born === undefined ? undefined : recordOf(record.id, born);
      if (sparse_values !== null || sparse_indices !== null || !sameJson(record, expected))
        throw new Error(`in the backup of version ${version}, ${record.id} is ${JSON.stringify(record)}`);
      records++;
    }
    if (records !== state.size || vector_count !== state.size)
      throw new Error(`the backup of version ${version} has ${records} records of ${state.size}`);
    this.#seen.backups++;
    this.#seen.records += records;
    if (since_version !== null) this.#seen.incremental++;
    this.#seen.longest = Math.max(this.#seen.longest, chain.length);
  }
}

function chainOf(backup: Backup): Backup[] {
  const chain: Backup[] = [];
  for (let at: Backup | null = backup; at !== null; at = at.after) chain.unshift(at);
  return chain;
}

const sameJson = (a: unknown, b: unknown): boolean => {
  const sorted = (value: object) => JSON.stringify(Object.entries(value).sort());
  return (
    typeof a === "object" && typeof b === "object" && a !== null && b !== null && sorted(a) === sorted(b)
  );
};

function fileStream(path: string): ReadableStream<Uint8Array> {
  const source = createReadStream(path)[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await source.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}

if (import.meta.main)
  await command({
    name: "backup",
    options: { backups: 120 },
    run: (options) => runCampaign({ ...options, backupsPerLife: 15, say }),
  });
