// Does a server that is killed at random moments keep exactly the acknowledged data?
//
//   node tests/campaigns/kill.ts [--kills 1000] [--seed 1] [--lanes 2] [--minutes 9 --tally FILE] | --replay DIR
//
// A server process under mixed load from several clients is killed with SIGKILL, started again on the same directory, and
// compared with the ledger (crash/ledger.ts): then the next load begins. About one kill in seven comes while the server is
// starting. After every fourth kill or so `quiver check` reads the directory as the kill left it. A directory lives through some
// dozens of kills; then the server checks itself, its stopped files are checked, and a new one begins. Lanes are servers that run in
// parallel. The seed determines operations and moments, but not the timing of the machine. With a tally, a long run can be split into
// parts: each continues the counts of the previous ones, with another seed.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { QuiverClient } from "@quiver/client";
import { randomNumbers } from "@quiver/kernels/random";
import type { CheckReport } from "@quiver/protocol/shapes/check";
import { checkDirectory } from "@quiver/server/offline";
import { keptError, replayCommand } from "./crash/kept-failure.ts";
import { Ledger } from "./crash/ledger.ts";
import { begin, type Load, type Random, work } from "./crash/load.ts";
import { mustListen, startServer } from "./crash/server-process.ts";
import { verify } from "./crash/verify.ts";
import { type Figures, whileTelling, writeFigures } from "./figures.ts";

const clients = 5;
/** Enough records that the dense index gets a checkpoint; every second directory starts with this many. */
const records = 1_100;
/** Maximum milliseconds under load after the first acknowledgement. */
const loadMsMax = 250;

export type KillOptions = {
  kills: number;
  seed: number;
  lanes: number;
  minutes?: number;
  counts?: KillCounts;
};

export type KillCounts = {
  kills: number;
  duringStart: number;
  directories: number;
  inDoubt: number;
  recordsCompared: number;
  searchesCompared: number;
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
  checks: 0,
  acknowledged: {},
});

/** Runs the campaign. @throws at the first violation */
export async function killCampaign({
  kills,
  seed,
  lanes,
  minutes,
  counts = nothing(),
}: KillOptions): Promise<KillCounts> {
  const endsAt = performance.now() + (minutes ?? Number.POSITIVE_INFINITY) * 60_000;
  const isEnough = () => counts.kills >= kills || performance.now() >= endsAt;
  await Promise.all(
    Array.from({ length: lanes }, async (_, number) => {
      const random = randomNumbers(seed * 1_000 + number);
      while (!isEnough()) await new Lane(random, seed, counts).live(isEnough, 20 + Math.floor(random() * 40));
    }),
  );
  return counts;
}

function figuresOf(counts: KillCounts): Figures {
  const kinds = Object.entries(counts.acknowledged).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    "kills with SIGKILL": counts.kills,
    "of them while the server was starting": counts.duringStart,
    "data directories": counts.directories,
    "operations acknowledged": kinds.reduce((sum, [, count]) => sum + count, 0),
    ...Object.fromEntries(kinds.map(([kind, count]) => [`– ${kind}`, count])),
    "operations in flight when the kill came": counts.inDoubt,
    "records compared after restarts": counts.recordsCompared,
    "searches compared with full scans": counts.searchesCompared,
    "times that `quiver check` read everything and found nothing": counts.checks,
    "acknowledged operations lost": 0,
    "operations half applied, or back after they were lost": 0,
  };
}

/** One data directory and its servers. */
class Lane {
  readonly #directory = mkdtempSync(join(tmpdir(), "quiver-kills-"));
  readonly #random: Random;
  readonly #seed: number;
  readonly #counts: KillCounts;
  readonly #load: Load;
  #startMs = 1_000;

  constructor(random: Random, seed: number, counts: KillCounts) {
    this.#random = random;
    this.#seed = seed;
    this.#counts = counts;
    this.#load = { ledger: new Ledger(), random, acknowledged: counts.acknowledged, stamp: 0 };
    counts.directories++;
  }

  async live(isEnough: () => boolean, killsMax: number): Promise<void> {
    let server = startServer(this.#directory);
    try {
      let client = await mustListen(server);
      await begin(this.#load, client, clients, this.#random() < 0.5 ? records : 0);
      for (let kill = 0; kill < killsMax && !isEnough(); kill++) {
        await this.#loadAndKill(server, client);
        if (this.#random() < 0.15) await this.#killWhileStarting();
        if (this.#random() < 0.25) await this.#checkFiles();
        const startedAt = performance.now();
        server = startServer(this.#directory);
        client = await mustListen(server);
        this.#startMs = performance.now() - startedAt;
        await this.#verify(client);
      }
      for (const { name } of await client.listCollections())
        this.#mustBeWhole(await client.collection(name).check());
      await server.kill("SIGTERM");
      await this.#checkFiles();
      server = startServer(this.#directory);
      await this.#verify(await mustListen(server));
    } catch (error) {
      await server.kill();
      const told = `kill ${this.#counts.kills}: ${(error as Error).message}\n\nThe server said:\n${server.output()}`;
      throw keptError(
        new Error(told, { cause: error }),
        { campaign: "kill", seed: this.#seed },
        { ledger: this.#load.ledger, data: this.#directory },
      );
    } finally {
      await server.kill();
      rmSync(this.#directory, { recursive: true, force: true });
    }
  }

  async #verify(client: QuiverClient): Promise<void> {
    const { records: compared, searches } = await verify(this.#load.ledger, client, this.#random);
    this.#counts.recordsCompared += compared;
    this.#counts.searchesCompared += searches;
  }

  /** `quiver check DIR`, with no server on it. */
  async #checkFiles(): Promise<void> {
    this.#mustBeWhole(await checkDirectory(this.#directory));
  }

  #mustBeWhole({ findings }: CheckReport): void {
    this.#counts.checks++;
    if (findings.length > 0)
      throw new Error(`quiver check found ${findings.length}, the first: ${JSON.stringify(findings[0])}`);
  }

  async #loadAndKill(server: ReturnType<typeof startServer>, client: QuiverClient): Promise<void> {
    const before = this.#acknowledged;
    const working = Array.from({ length: clients }, (_, number) =>
      work(this.#load, client, number, () => false),
    );
    while (this.#acknowledged === before && !server.hasEnded()) await sleep(1);
    await sleep(this.#random() * loadMsMax);
    await server.kill();
    for (const stopped of await Promise.all(working)) {
      if (stopped?.code !== "connection_failed")
        throw new Error(`a client was refused: ${stopped?.message}`, { cause: stopped });
      this.#counts.inDoubt++;
    }
    this.#counts.kills++;
  }

  get #acknowledged(): number {
    return Object.values(this.#load.acknowledged).reduce((sum, count) => sum + count, 0);
  }

  async #killWhileStarting(): Promise<void> {
    const starting = startServer(this.#directory);
    await sleep((0.3 + 0.8 * this.#random()) * this.#startMs);
    await starting.kill();
    this.#counts.kills++;
    this.#counts.duringStart++;
  }
}

async function command(): Promise<void> {
  const { values } = parseArgs({
    options: {
      kills: { type: "string", default: "1000" },
      seed: { type: "string", default: String(Date.now() % 1_000_000) },
      lanes: { type: "string", default: "2" },
      minutes: { type: "string" },
      tally: { type: "string" },
      replay: { type: "string" },
    },
  });
  if (values.replay !== undefined) return replayCommand(values.replay);
  const [kills, seed, lanes] = [values.kills, values.seed, values.lanes].map(Number);
  const minutes = values.minutes === undefined ? undefined : Number(values.minutes);
  process.stdout.write(`seed ${seed}\n`);
  const { tally } = values;
  const counts =
    tally && existsSync(tally) ? (JSON.parse(readFileSync(tally, "utf8")) as KillCounts) : nothing();
  await whileTelling(() => `${counts.kills} kills`, killCampaign({ kills, seed, lanes, minutes, counts }));
  if (tally) writeFileSync(tally, JSON.stringify(counts));
  const figures = figuresOf(counts);
  for (const [what, value] of Object.entries(figures)) process.stdout.write(`${what}: ${value}\n`);
  if (counts.kills >= kills)
    writeFigures("kill", `npm run test:kill -- --kills ${kills} --seed ${seed}`, figures);
}

if (import.meta.main) await command();
