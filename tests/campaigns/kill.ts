// Does a server that is killed at random moments keep exactly the acknowledged data?
//
//   node tests/campaigns/kill.ts [--kills 1000] [--lanes 2] [--minutes 9 --tally FILE]
//
// A server process under mixed load from several clients is killed with SIGKILL, started again on the same directory, and
// compared with the ledger (crash/ledger.ts): then the next load begins. About one kill in seven comes while the server is
// starting. After every fourth kill or so `quiver check` reads the directory as the kill left it. A directory lives through some
// dozens of kills; then the server checks itself, its stopped files are checked, and a new one begins. Lanes are servers that run in
// parallel. The seed determines operations and moments, but not the timing of the machine. With a tally, a long run can be split into
// parts: each continues the counts of the previous ones, with another seed.

import { setTimeout as sleep } from "node:timers/promises";
import type { QuiverClient } from "@quiverdb/client";
import { randomNumbers } from "@quiverdb/kernels/random";
import type { CheckReport } from "@quiverdb/protocol/shapes/check";
import { checkDirectory } from "@quiverdb/server/offline";
import { command, inLanes, TemporaryFolder } from "./campaign.ts";
import { keptError, replayCommand } from "./crash/kept-failure.ts";
import { Ledger } from "./crash/ledger.ts";
import { acknowledgedIn, begin, type Load, type Random, work } from "./crash/load.ts";
import { verify } from "./crash/verify.ts";
import type { Figures } from "./figures.ts";
import { ServerProcess } from "./server-process.ts";

const clients = 5;
/** Enough records that the dense index gets a checkpoint; every second directory starts with this many. */
const records = 1_100;
/** Maximum milliseconds under load after the last operation that a kill waits for. */
const loadMsMax = 250;

export type KillOptions = {
  kills: number;
  seed: number;
  lanes: number;
  minutes?: number;
  /** How many operations are acknowledged before each kill, at the least: a slow machine does few in the time of a load. 1 by default. */
  operations?: number;
};

export type KillCounts = {
  kills: number;
  duringStart: number;
  directories: number;
  inDoubt: number;
  recordsCompared: number;
  searchesCompared: number;
  filtersCompared: number;
  checks: number;
  acknowledged: Record<string, number>;
};

const nothing = (): KillCounts => ({
  kills: 0,
  duringStart: 0,
  directories: 0,
  inDoubt: 0,
  recordsCompared: 0,
  searchesCompared: 0,
  filtersCompared: 0,
  checks: 0,
  acknowledged: {},
});

/** Runs the campaign. @throws at the first violation */
export async function killCampaign(
  { kills, seed, lanes, minutes = Number.POSITIVE_INFINITY, operations = 1 }: KillOptions,
  counts = nothing(),
): Promise<KillCounts> {
  const endsAt = performance.now() + minutes * 60_000;
  const isEnough = () => counts.kills >= kills || performance.now() >= endsAt;
  const random = Array.from({ length: lanes }, (_, number) => randomNumbers(seed * 1_000 + number));
  function* directories() {
    while (!isEnough()) yield;
  }
  await inLanes(directories(), lanes, (_, lane) =>
    new Lane(random[lane], seed, operations, counts).live(isEnough, 20 + Math.floor(random[lane]() * 40)),
  );
  return counts;
}

function figuresOf(counts: KillCounts): Figures {
  return {
    "kills with SIGKILL": counts.kills,
    "of them during a start": counts.duringStart,
    "data directories": counts.directories,
    "operations acknowledged": Object.values(counts.acknowledged).reduce((sum, count) => sum + count, 0),
    "operations in flight when the kill came": counts.inDoubt,
    "records compared after restarts": counts.recordsCompared,
    "searches compared with full scans": counts.searchesCompared,
    "filters compared after restarts": counts.filtersCompared,
    "runs of `quiver check`, without a finding": counts.checks,
    "acknowledged operations lost": 0,
    "operations half applied, or applied later": 0,
  };
}

/** One data directory and its servers. */
class Lane {
  readonly #folder = new TemporaryFolder("kills");
  readonly #random: Random;
  readonly #seed: number;
  readonly #operations: number;
  readonly #counts: KillCounts;
  readonly #load: Load;
  #startMs = 1_000;

  constructor(random: Random, seed: number, operations: number, counts: KillCounts) {
    this.#random = random;
    this.#seed = seed;
    this.#operations = operations;
    this.#counts = counts;
    this.#load = { ledger: new Ledger(), random, acknowledged: counts.acknowledged, stamp: 0 };
    counts.directories++;
  }

  async live(isEnough: () => boolean, killsMax: number): Promise<void> {
    using folder = this.#folder;
    let server = new ServerProcess(folder.path);
    try {
      let client = await server.client();
      await begin(this.#load, client, clients, this.#random() < 0.5 ? records : 0);
      for (let kill = 0; kill < killsMax && !isEnough(); kill++) {
        await this.#loadAndKill(server, client);
        if (this.#random() < 0.15) await this.#killWhileStarting();
        if (this.#random() < 0.25) await this.#checkFiles();
        const startedAt = performance.now();
        server = new ServerProcess(folder.path);
        client = await server.client();
        this.#startMs = performance.now() - startedAt;
        await this.#verify(client);
      }
      for (const { name } of await client.listCollections())
        this.#mustBeWhole(await client.collection(name).check());
      await server.kill("SIGTERM");
      await this.#checkFiles();
      server = new ServerProcess(folder.path);
      await this.#verify(await server.client());
    } catch (error) {
      await server.kill();
      const told = `kill ${this.#counts.kills}: ${(error as Error).message}\n\nThe server said:\n${server.output()}`;
      throw keptError(
        new Error(told, { cause: error }),
        { campaign: "kill", seed: this.#seed },
        { ledger: this.#load.ledger, data: folder.path },
      );
    } finally {
      await server.kill();
    }
  }

  async #verify(client: QuiverClient): Promise<void> {
    const { records: compared, searches, filters } = await verify(this.#load.ledger, client, this.#random);
    this.#counts.recordsCompared += compared;
    this.#counts.searchesCompared += searches;
    this.#counts.filtersCompared += filters;
  }

  /** `quiver check DIR`, with no server on it. */
  async #checkFiles(): Promise<void> {
    this.#mustBeWhole(await checkDirectory(this.#folder.path));
  }

  #mustBeWhole({ findings }: CheckReport): void {
    this.#counts.checks++;
    if (findings.length > 0)
      throw new Error(`quiver check found ${findings.length}, the first: ${JSON.stringify(findings[0])}`);
  }

  async #loadAndKill(server: ServerProcess, client: QuiverClient): Promise<void> {
    const enough = acknowledgedIn(this.#load) + this.#operations;
    const working = Array.from({ length: clients }, (_, number) =>
      work(this.#load, client, number, () => false),
    );
    while (acknowledgedIn(this.#load) < enough && !server.hasEnded()) await sleep(1);
    await sleep(this.#random() * loadMsMax);
    await server.kill();
    for (const stopped of await Promise.all(working)) {
      if (stopped?.code !== "connection_failed")
        throw new Error(`a client was refused: ${stopped?.message}`, { cause: stopped });
      this.#counts.inDoubt++;
    }
    this.#counts.kills++;
  }

  async #killWhileStarting(): Promise<void> {
    const starting = new ServerProcess(this.#folder.path);
    await sleep((0.3 + 0.8 * this.#random()) * this.#startMs);
    await starting.kill();
    this.#counts.kills++;
    this.#counts.duringStart++;
  }
}

if (import.meta.main)
  await command({
    name: "kill",
    options: { kills: 1_000, lanes: 2, minutes: Number.POSITIVE_INFINITY },
    counts: nothing,
    progress: ({ kills }) => `${kills} kills`,
    run: async (options, counts) => figuresOf(await killCampaign(options, counts)),
    isWhole: ({ kills }, counts) => counts.kills >= kills,
    replay: replayCommand,
  });
