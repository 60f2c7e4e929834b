// What does a server do when its disk fails?
//
//   node tests/campaigns/failing-disks.ts [--trials 150]
//
// A server works under mixed load, with a shim (crash/disk-shim.c) between it and its disk. In each trial some calls fail from some moment
// on: writes, syncs, the write of a commit's meta page, writes that need space, new names; of the catalog, of collections, of checkpoints
// and all else; with EIO or ENOSPC; once, a few times, or until the disk works again. Then
//
//   - every rejection is a documented error (507 storage_full, 500 storage_failed, 503 not_ready while a store is reopened);
//   - while the disk fails, reads and searches are answered; only a collection that is being reopened returns 503 for a while;
//   - when the disk works again, the server recovers by itself: rejected changes are not stored (changes reported as in doubt are
//     stored as a whole or not at all), acknowledged ones are, and every collection accepts writes;
//   - the same after a SIGKILL and a restart, which follow some of the trials.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type QuiverClient, QuiverError } from "@quiverdb/client";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, TemporaryFolder } from "./campaign.ts";
import {
  calls,
  compileShim,
  drawnFault,
  errors,
  type Fault,
  Faults,
  files,
  shimEnvironment,
  whyNoShim,
} from "./crash/disk-shim.ts";
import { keptError, replayCommand } from "./crash/kept-failure.ts";
import { Ledger } from "./crash/ledger.ts";
import { acknowledgedIn, begin, type Load, type Random, type Stopped, upsert, work } from "./crash/load.ts";
import { verify } from "./crash/verify.ts";
import type { Figures } from "./figures.ts";
import { ServerProcess } from "./server-process.ts";

const clients = 4;
const operationsPerTrial = 25;
const refusals = ["storage_full", "storage_failed", "not_ready"];
const wellAgainMs = 20_000;

/**
 * The first trials are always these: a commit's last write in a collection and in the catalog, a sync, a full disk. Only the first leaves a
 * client in doubt, and not if it was part of a creation or of background work: so it is there three times.
 */
const firstFaults: readonly Fault[] = [
  { calls: calls.meta, files: files.collection, pass: 3, fail: 1, error: errors.EIO },
  { calls: calls.meta, files: files.catalog, pass: 0, fail: 1, error: errors.EIO },
  { calls: calls.sync, files: files.collection, pass: 2, fail: 2, error: errors.EIO },
  { calls: calls.growth + calls.names, files: 7, pass: 0, fail: -1, error: errors.ENOSPC },
  { calls: calls.meta, files: files.collection, pass: 0, fail: 1, error: errors.EIO },
  { calls: calls.meta, files: files.collection, pass: 6, fail: 1, error: errors.EIO },
];

export type FailingDisksCounts = {
  trials: number;
  failedCalls: number;
  restarts: number;
  /** Crashes of the server inside lmdb-js after a failed write. */
  crashes: number;
  refused: Record<string, number>;
  reads: number;
  acknowledged: Record<string, number>;
};

/** Runs the campaign. @throws at the first broken promise */
export async function failingDisksCampaign(
  trials: number,
  seed: number,
  counts = nothing(),
): Promise<FailingDisksCounts> {
  using folder = new TemporaryFolder("failing");
  const campaign = new Campaign(folder.path, seed, counts);
  try {
    await campaign.run(trials);
    return counts;
  } finally {
    await campaign.stop();
  }
}

const nothing = (): FailingDisksCounts => ({
  trials: 0,
  failedCalls: 0,
  restarts: 0,
  crashes: 0,
  refused: {},
  reads: 0,
  acknowledged: {},
});

class Campaign {
  readonly counts: FailingDisksCounts;
  readonly #disk: string;
  readonly #faults: Faults;
  readonly #environment: Record<string, string>;
  readonly #random: Random;
  readonly #seed: number;
  readonly #load: Load;
  #server: ServerProcess | undefined;

  constructor(folder: string, seed: number, counts: FailingDisksCounts) {
    this.counts = counts;
    this.#seed = seed;
    const random = randomNumbers(seed);
    this.#disk = join(folder, "disk");
    mkdirSync(this.#disk);
    this.#faults = new Faults(join(folder, "faults"));
    this.#environment = shimEnvironment(compileShim(folder), {
      directory: this.#disk,
      faults: this.#faults.path,
    });
    this.#random = random;
    this.#load = { ledger: new Ledger(), random, acknowledged: this.counts.acknowledged, stamp: 0 };
  }

  async stop(): Promise<void> {
    await this.#server?.kill();
  }

  async run(trials: number): Promise<void> {
    let client = await this.#start();
    await begin(this.#load, client, clients, 0);
    // The clients' own collections exist before the first fault: a creation that fails is refused, and leaves no doubt.
    await this.#work(client, () => false);
    while (this.counts.trials < trials) {
      const fault = firstFaults[this.counts.trials] ?? drawnFault(this.#random);
      try {
        this.#faults.set(fault);
        await this.#trial(client);
        if (this.#server?.hasEnded() || this.#random() < 0.2) {
          await this.#server?.kill();
          client = await this.#start();
          await verify(this.#load.ledger, client, this.#random);
          this.counts.restarts++;
        }
      } catch (error) {
        await this.#server?.kill();
        const told = `trial ${this.counts.trials + 1}, ${JSON.stringify(fault)}: ${(error as Error).message}\n\nThe server said:\n${this.#server?.output().slice(-6_000)}`;
        throw keptError(
          new Error(told, { cause: error }),
          { campaign: "failing-disks", seed: this.#seed, fault },
          { ledger: this.#load.ledger, data: join(this.#disk, "data") },
        );
      }
      this.counts.trials++;
    }
  }

  async #start(): Promise<QuiverClient> {
    this.#server = new ServerProcess(join(this.#disk, "data"), { env: this.#environment });
    return this.#server.client();
  }

  async #trial(client: QuiverClient): Promise<void> {
    const stopped = await this.#work(client, () => this.#faults.failed > 3);
    if (this.#server?.hasEnded()) {
      await this.#died();
      return;
    }
    for (const [number, error] of stopped.entries()) if (error) this.#refused(number, error);
    try {
      await this.#goOn(client);
    } catch (error) {
      // Requests in progress when it ended are in doubt in the ledger until the restart.
      if (!(await this.#endsSoon())) throw error;
      await this.#died();
    }
  }

  /** All clients work until they are refused, enough operations are acknowledged, or it is over. */
  #work(client: QuiverClient, isOver: () => boolean): Promise<(Stopped | null)[]> {
    const enough = acknowledgedIn(this.#load) + operationsPerTrial;
    return Promise.all(
      Array.from({ length: clients }, (_, number) =>
        work(this.#load, client, number, () => acknowledgedIn(this.#load) >= enough || isOver()),
      ),
    );
  }

  /** Whether the server has ended. Its clients may notice that a moment before this process does. */
  async #endsSoon(): Promise<boolean> {
    await Promise.race([this.#server?.ended, sleep(2_000)]);
    return this.#server?.hasEnded() ?? true;
  }

  async #goOn(client: QuiverClient): Promise<void> {
    await this.#read(client);
    this.counts.failedCalls += this.#faults.failed;
    this.#faults.clear();
    await this.#read(client);
    await verify(this.#load.ledger, client, this.#random);
    await this.#write(client);
    await verify(this.#load.ledger, client, this.#random);
  }

  /**
   * lmdb-js crashes when the very first write of a new store fails, and sometimes when another write fails, because its error message
   * overflows a buffer. The server avoids both when the disk fails permanently, but not for a single failure. Such a crash must not lose
   * data, and nothing else may end the server.
   */
  async #died(): Promise<void> {
    const server = this.#server as ServerProcess;
    const { signal, code } = await server.ended;
    const isCreating = this.#load.ledger.pieces.some((piece) => piece.isBeingCreated);
    const isOfLmdb =
      (signal === "SIGSEGV" && isCreating) ||
      (["SIGSEGV", "SIGABRT"].includes(signal ?? "") && server.output().includes("Write error: "));
    if (!isOfLmdb) throw new Error(`the server ended with ${signal ?? `code ${code}`}`);
    this.counts.failedCalls += this.#faults.failed;
    this.#faults.clear();
    this.counts.crashes++;
  }

  /** A request was rejected: its change is not stored, unless the outcome was reported as unknown. */
  #refused(client: number, error: QuiverError): void {
    // A long-idle connection may be closed at the moment of its use: then the outcome is unknown, too.
    if (error.code === "connection_failed" && this.#server?.hasEnded() === false) return;
    if (!refusals.includes(error.code))
      throw new Error(`a client was refused with ${error.code}: ${error.message}`, { cause: error });
    const what = error.details.applied === "unknown" ? `${error.code}, in doubt` : error.code;
    this.counts.refused[what] = (this.counts.refused[what] ?? 0) + 1;
    if (error.details.applied === "unknown") return;
    for (const piece of this.#load.ledger.pieces) if (piece.client === client) piece.refuse();
  }

  /** Reads go on while the disk fails. */
  async #read(client: QuiverClient): Promise<void> {
    for (const { name } of await client.listCollections()) {
      const collection = client.collection(name);
      await retried("reading", async () => {
        await collection.currentVersion({ retries: 0 });
        for await (const line of collection.export({ retries: 0 })) JSON.parse(line);
        const { dense, sparse } = await collection.indexes({ retries: 0 });
        if (dense) await collection.search.dense({ query_vector: [1, 0, 0, 0], exact: true }, { retries: 0 });
        if (sparse) await collection.search.sparse({ query_terms: [{ index: 1, value: 1 }] }, { retries: 0 });
      });
      this.counts.reads++;
    }
  }

  /** Every collection, and the catalog, accepts writes again without intervention. */
  async #write(client: QuiverClient): Promise<void> {
    for (const piece of this.#load.ledger.pieces) {
      if (!piece.isOwner || piece.state === null) continue;
      const collection = client.collection(piece.collection);
      const { state } = piece;
      await retried("writing", () =>
        upsert(this.#load, collection, piece, state).catch((error: unknown) => {
          piece.refuse();
          throw error;
        }),
      );
    }
    await retried("unloading", () => client.collection("shared").unload({ retries: 0 }));
  }
}

/** Retries a request that must succeed soon; until then `not_ready` is allowed. */
async function retried(what: string, act: () => Promise<unknown>): Promise<void> {
  const endsAt = performance.now() + wellAgainMs;
  for (;;) {
    try {
      await act();
      return;
    } catch (error) {
      if (!(error instanceof QuiverError) || error.code !== "not_ready" || performance.now() > endsAt)
        throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
      await sleep(20);
    }
  }
}

function figuresOf(counts: FailingDisksCounts): Figures {
  const acknowledged = Object.values(counts.acknowledged).reduce((sum, count) => sum + count, 0);
  return {
    "trials, each with a failing disk": counts.trials,
    "system calls that failed": counts.failedCalls,
    "operations acknowledged": acknowledged,
    [`refused: ${Object.keys(counts.refused).join("; ")}`]: Object.values(counts.refused).join("; "),
    "collections read and searched while the disk failed": counts.reads,
    "kills and restarts between trials": counts.restarts,
    "acknowledged operations lost": 0,
    "refused operations that were applied": 0,
    "servers that lmdb-js ended when a write failed": counts.crashes,
    "other servers that needed help": 0,
  };
}

if (import.meta.main)
  await command({
    name: "failing-disks",
    options: { trials: 150 },
    skip: whyNoShim,
    counts: nothing,
    progress: ({ trials }) => `${trials} trials`,
    run: async ({ trials, seed }, counts) => figuresOf(await failingDisksCampaign(trials, seed, counts)),
    replay: replayCommand,
  });
