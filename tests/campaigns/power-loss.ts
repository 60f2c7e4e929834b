// Does acknowledged data survive a power loss?
//
//   node tests/campaigns/power-loss.ts [--images 1000] [--minutes 9 --tally FILE]
//
// A server works under mixed load. A shim (crash/disk-shim.c) between it and the disk logs all writes and syncs. For each operation the
// campaign notes the log's length at the request and at the acknowledgement. Then it simulates a power loss at many moments of
// the log: it drops, keeps, truncates, reorders or tears the sectors and names that were not synced by then (crash/disk-log.ts). A
// server opens each image of the disk, and the campaign compares it with the ledger. Operations acknowledged before the moment must be
// there, those requested after it must not, and those in flight must be there as a whole or not at all.
//
// A failure is kept with its log and image (crash/kept-failure.ts); --replay runs it again.
//
// Without gcc, or on a system other than Linux, the campaign is skipped with a message.

import { type ChildProcess, fork } from "node:child_process";
import { cpSync, existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@quiverdb/client";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, TemporaryFolder } from "./campaign.ts";
import { Disk, fates, readLog } from "./crash/disk-log.ts";
import { compileShim, shimEnvironment, whyNoShim } from "./crash/disk-shim.ts";
import type { HostAnswer, HostRequest } from "./crash/host.ts";
import { keptError, replayCommand } from "./crash/kept-failure.ts";
import { Ledger } from "./crash/ledger.ts";
import { acknowledgedIn, begin, type Load, work } from "./crash/load.ts";
import { verify } from "./crash/verify.ts";
import type { Figures } from "./figures.ts";
import { ServerProcess } from "./server-process.ts";

const clients = 5;
const records = 1_100;
const imagesPerLog = 150;
const operationsPerLog = 150;

export type PowerLossCounts = {
  images: number;
  withUnsynced: number;
  logs: number;
  logBytes: number;
  operations: number;
  recordsCompared: number;
  searchesCompared: number;
};

export type PowerLossOptions = {
  images: number;
  seed: number;
  minutes?: number;
  /** Simulates a disk that loses synced data, which the campaign must detect. */
  isLying?: boolean;
};

const nothing = (): PowerLossCounts => ({
  images: 0,
  withUnsynced: 0,
  logs: 0,
  logBytes: 0,
  operations: 0,
  recordsCompared: 0,
  searchesCompared: 0,
});

/** Runs the campaign. @throws at the first violation */
export async function powerLossCampaign(
  { images, seed, minutes = Number.POSITIVE_INFINITY, isLying = false }: PowerLossOptions,
  counts = nothing(),
): Promise<PowerLossCounts> {
  const endsAt = performance.now() + minutes * 60_000;
  const isEnough = () => counts.images >= images || performance.now() >= endsAt;
  // In memory if there is such a folder, because syncs cost nothing there.
  using folder = new TemporaryFolder("power", existsSync("/dev/shm") ? "/dev/shm" : tmpdir());
  const host = new Host();
  try {
    const shim = compileShim(folder.path);
    for (let number = 0; !isEnough(); number++) {
      const session = folder.join(`session-${number}`);
      const random = randomNumbers(seed * 1_000 + number);
      const life = await makeLog(session, shim, random, number % 3 === 2 ? records : 0);
      counts.logs++;
      const most = Math.min(imagesPerLog, images - counts.images);
      await losePower(session, life, host, random, most, isEnough, counts, { isLying, seed });
      rmSync(session, { recursive: true, force: true });
    }
  } finally {
    host.stop();
  }
  return counts;
}

/** Runs a server under load and logs its writes. */
async function makeLog(session: string, shim: string, random: () => number, first: number): Promise<Life> {
  const disk = join(session, "disk");
  const log = join(session, "log");
  mkdirSync(disk, { recursive: true });
  const ledger = new Ledger();
  ledger.clock = () => statSync(log).size;
  const load: Load = { ledger, random, acknowledged: {}, stamp: 0 };
  const env = shimEnvironment(shim, { directory: disk, log });
  await using server = new ServerProcess(join(disk, "data"), { env, makesKey: true });
  const client = await server.client();
  const life = { ledger, servedAt: ledger.clock() };
  await begin(load, client, clients, first);
  const working = Array.from({ length: clients }, (_, number) =>
    work(load, client, number, () => acknowledgedIn(load) >= operationsPerLog),
  );
  for (const stopped of await Promise.all(working))
    if (stopped)
      throw new Error(`a client was refused: ${stopped.message}\n${server.output()}`, { cause: stopped });
  // Half of the servers stop gracefully, with all their final writes.
  await server.kill(random() < 0.5 ? "SIGTERM" : "SIGKILL");
  return life;
}

type Life = {
  ledger: Ledger;
  /** The moment when the server listened, with a generated key that exists only in its file. */
  servedAt: number;
};

/** Replays a session's log, and creates and compares images on the way. */
async function losePower(
  session: string,
  { ledger, servedAt }: Life,
  host: Host,
  random: () => number,
  images: number,
  isEnough: () => boolean,
  counts: PowerLossCounts,
  { isLying, seed }: { isLying: boolean; seed: number },
): Promise<void> {
  const log = readLog(join(session, "log")).filter(({ kind }) => !isLying || kind !== "sync");
  counts.logBytes += log.at(-1)?.position ?? 0;
  counts.operations += operationsPerLog;
  const cuts = Array.from({ length: images }, () => Math.floor(random() * log.length)).sort((a, b) => a - b);
  const disk = new Disk(join(session, "disk"));
  let played = 0;
  for (const [number, cut] of cuts.entries()) {
    if (isEnough()) return;
    while (played <= cut) disk.play(log[played++]);
    const fate = fates[Math.floor(random() * fates.length)];
    const folder = join(session, `image-${number}`);
    mkdirSync(folder);
    if (disk.image(folder, fate, random)) counts.withUnsynced++;
    // A copy from before a server opened it.
    const untouched = join(session, "untouched");
    cpSync(folder, untouched, { recursive: true });
    try {
      if (disk.position >= servedAt && !existsSync(join(folder, "data", "admin-key")))
        throw new Error("the file with the admin key is gone");
      await compare(join(folder, "data"), ledger.copy(), disk.position, host, random, counts);
    } catch (error) {
      const what = `image ${counts.images + 1} of log ${counts.logs}, the power gone at byte ${disk.position}, what was not synced ${fate}`;
      const told = new Error(`${what}: ${(error as Error).message}`, { cause: error });
      // A failure in a control run is expected.
      if (isLying) throw told;
      throw keptError(
        told,
        { campaign: "power-loss", seed, moment: disk.position, fate, recordsPlayed: played },
        { ledger, data: join(untouched, "data"), log: join(session, "log") },
      );
    }
    rmSync(untouched, { recursive: true, force: true });
    rmSync(folder, { recursive: true, force: true });
    counts.images++;
  }
}

async function compare(
  dataDir: string,
  ledger: Ledger,
  moment: number,
  host: Host,
  random: () => number,
  counts: PowerLossCounts,
): Promise<void> {
  const opened = await host.ask({ open: dataDir });
  try {
    if (!("url" in opened)) throw new Error(`it does not open: ${"error" in opened ? opened.error : "?"}`);
    const compared = await verify(ledger, createClient({ url: opened.url }), random, moment);
    counts.recordsCompared += compared.records;
    counts.searchesCompared += compared.searches;
  } finally {
    await host.ask({ close: true });
  }
}

/** The process that serves the images; a new one if it has died. */
class Host {
  #child: ChildProcess | undefined;

  ask(request: HostRequest): Promise<HostAnswer> {
    this.#child ??= fork(join(import.meta.dirname, "crash/host.ts"), { stdio: "inherit" });
    const child = this.#child;
    return new Promise((resolve) => {
      const end = (answer: HostAnswer) => {
        child.off("message", end);
        child.off("exit", died);
        resolve(answer);
      };
      const died = (code: number | null, signal: string | null) => {
        this.#child = undefined;
        end({ error: `the process died with ${signal ?? `code ${code}`}` });
      };
      child.on("message", end);
      child.on("exit", died);
      child.send(request);
    });
  }

  stop(): void {
    this.#child?.kill();
  }
}

function figuresOf(counts: PowerLossCounts): Figures {
  return {
    "images of the disk after a power loss": counts.images,
    "of them with writes or names that were not synced": counts.withUnsynced,
    "server lives, each with a log": counts.logs,
    "bytes logged": counts.logBytes,
    "operations acknowledged": counts.operations,
    "records compared": counts.recordsCompared,
    "searches compared with full scans": counts.searchesCompared,
    "images that did not open": 0,
    "acknowledged operations lost": 0,
    "operations half applied": 0,
  };
}

if (import.meta.main)
  await command({
    name: "power-loss",
    options: { images: 1_000, minutes: Number.POSITIVE_INFINITY },
    skip: whyNoShim,
    counts: nothing,
    progress: ({ images }) => `${images} images`,
    run: async (options, counts) => figuresOf(await powerLossCampaign(options, counts)),
    isWhole: ({ images }, counts) => counts.images >= images,
    replay: replayCommand,
  });
