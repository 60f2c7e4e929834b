// Does a server start again at once after a kill, while the killed process is still ending?
//
//   node tests/campaigns/restart.ts [--restarts 100]
//
// The campaign sends SIGKILL to a server under the load of five clients. It starts the next server on the same directory without waiting
// for the killed process to end. Each start must succeed and have all acknowledged data (crash/ledger.ts). Every eighth time two servers
// start at once: one must serve, and the other must be refused and name the owner.

import { setTimeout as sleep } from "node:timers/promises";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, TemporaryFolder } from "./campaign.ts";
import { keptError, replayCommand } from "./crash/kept-failure.ts";
import { Ledger } from "./crash/ledger.ts";
import { begin, type Load, work } from "./crash/load.ts";
import { verify } from "./crash/verify.ts";
import { ServerProcess } from "./server-process.ts";

const clients = 5;
/** Enough memory for the process's end to take some time. */
const records = 1_100;
/** Maximum milliseconds under load. */
const loadMsMax = 150;

export type RestartCounts = {
  restarts: number;
  /** Starts that found the lock held by the process that was ending, and waited for it. */
  waited: number;
  /** How often two were started at once; one of each pair was refused. */
  contended: number;
  recordsCompared: number;
};

const nothing = (): RestartCounts => ({ restarts: 0, waited: 0, contended: 0, recordsCompared: 0 });

/** Runs the campaign. @throws at the first failed start or violation */
export async function restartCampaign(
  { restarts, seed }: { restarts: number; seed: number },
  counts = nothing(),
): Promise<RestartCounts> {
  using folder = new TemporaryFolder("restarts");
  const directory = folder.path;
  const random = randomNumbers(seed);
  const load: Load = { ledger: new Ledger(), random, acknowledged: {}, stamp: 0 };
  let server = new ServerProcess(directory);
  try {
    let client = await server.client();
    await begin(load, client, clients, records);
    while (counts.restarts < restarts) {
      const working = Array.from({ length: clients }, (_, number) => work(load, client, number, () => false));
      await sleep(random() * loadMsMax);
      const killed = server.kill();
      const isContended = counts.restarts % 8 === 7;
      server = isContended ? await oneOfTwo(directory) : new ServerProcess(directory);
      client = await server.client();
      if (isContended) counts.contended++;
      else if (server.output().includes("Waiting for it to end")) counts.waited++;
      for (const stopped of await Promise.all(working))
        if (stopped?.code !== "connection_failed")
          throw new Error(`a client was refused: ${stopped?.message}`, { cause: stopped });
      await killed;
      counts.recordsCompared += (await verify(load.ledger, client, random)).records;
      counts.restarts++;
    }
    return counts;
  } catch (error) {
    await server.kill();
    const told = `restart ${counts.restarts + 1}: ${(error as Error).message}\n\nThe server said:\n${server.output()}`;
    throw keptError(
      new Error(told, { cause: error }),
      { campaign: "restart", seed },
      { ledger: load.ledger, data: directory },
    );
  } finally {
    await server.kill();
  }
}

/** Starts two servers at once. @returns the one that serves, when the other one has been refused */
async function oneOfTwo(directory: string): Promise<ServerProcess> {
  const both = [0, 1].map(() => new ServerProcess(directory, { flags: ["--lock-wait", "3s"] }));
  try {
    const listening = await Promise.all(both.map((each) => each.listening));
    const served = both.filter((_, i) => listening[i] !== null);
    const refused = both.filter((_, i) => listening[i] === null);
    if (served.length !== 1) throw new Error(`${served.length} of two servers on one directory serve`);
    const said = refused[0].output();
    if (!/in use by process \d+ on host/.test(said)) throw new Error(`one is refused, but says:\n${said}`);
    return served[0];
  } catch (error) {
    await Promise.all(both.map((each) => each.kill()));
    throw error;
  }
}

if (import.meta.main)
  await command({
    name: "restart",
    options: { restarts: 100 },
    counts: nothing,
    progress: ({ restarts }) => `${restarts} restarts`,
    async run(options, counts) {
      await restartCampaign(options, counts);
      return {
        "restarts right after SIGKILL": counts.restarts,
        "of them starts that waited for the ending process": counts.waited,
        "starts of two servers at once, one refused": counts.contended,
        "records compared after restarts": counts.recordsCompared,
        "starts that failed": 0,
        "acknowledged operations lost": 0,
      };
    },
    replay: replayCommand,
  });
