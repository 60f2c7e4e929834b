// Did every search and every read see one version, in one order that all clients agree on?
//
// Many clients write, commit transactions, read and search in one collection of a real server over HTTP. Meanwhile its indexes are updated
// in the background, unloaded, loaded, deleted and rebuilt, and the server is stopped, killed and restarted. The requests with their times
// and responses are a history (histories/clients); histories/checker searches for a serial order that explains it, and histories/versions
// compares the versions in the responses.
//
//   node tools/launch.mjs run tests/campaigns/histories.ts --seconds 300
//
// The seed determines what each client does, but not how the requests interleave. So a failure is reported with everything that the checker
// knows about it, and may not recur with its seed.

import { setTimeout as sleep } from "node:timers/promises";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, type Say, say, TemporaryFolder } from "./campaign.ts";
import type { Figures } from "./figures.ts";
import { check } from "./histories/checker.ts";
import { Client, collectionPath, indexBodies, keyCount, Recording } from "./histories/clients.ts";
import { versionFault } from "./histories/versions.ts";
import { type ServerProcess, startPatientServer } from "./server-process.ts";

export type HistoryOptions = {
  readonly seed: number;
  readonly seconds: number;
  /** Mean time between two stops or kills of the server. */
  readonly secondsBetweenRestarts: number;
  readonly writers: number;
  readonly readers: number;
  readonly say: Say;
};

/** Records a history and checks it. @throws if no serial order explains it */
export async function histories(options: HistoryOptions): Promise<Figures> {
  using folder = new TemporaryFolder("histories");
  const random = randomNumbers(options.seed);
  let server = await startPatientServer(folder.path);
  let back: Promise<void> = Promise.resolve();
  const recording = new Recording();
  const restarts = { kills: 0, stops: 0 };
  try {
    await prepare(server);
    let isOver = false;
    const target = { url: () => server.url, again: () => back };
    const kinds = [
      ...new Array<"writes">(options.writers).fill("writes"),
      ...new Array<"reads">(options.readers).fill("reads"),
      "disturbs" as const,
    ];
    const clients = kinds.map((kind, i) =>
      new Client(i, target, recording, randomNumbers(options.seed * 1_000 + i)).run(kind, () => isOver),
    );
    // The first failing client ends the others.
    const failed = Promise.all(clients).then(() => undefined);
    failed.catch(() => {
      isOver = true;
    });
    const until = performance.now() + options.seconds * 1_000;
    while (performance.now() < until && !isOver) {
      const pauseMs = (0.5 + random()) * options.secondsBetweenRestarts * 1_000;
      await sleep(Math.min(pauseMs, Math.max(0, until - performance.now())));
      if (performance.now() >= until || isOver) break;
      if (server.hasEnded())
        throw new Error(`the server ended by itself (${server.ending()}):\n${server.output()}`);
      const kills = random() < 0.6;
      restarts[kills ? "kills" : "stops"]++;
      // Set before the server ends: clients that lose their connection wait for the next server.
      back = restart(kills);
      await back;
      options.say(
        `${recording.operations.length} operations, ${restarts.kills} kills, ${restarts.stops} stops`,
      );
    }
    isOver = true;
    await failed;
    await server.stop();
    return verdict(options, recording, restarts);
  } catch (error) {
    throw new Error(`${(error as Error).message}\nthe server wrote:\n${server.output()}`, { cause: error });
  } finally {
    await back.catch(() => undefined);
    await server.kill();
  }

  async function restart(kills: boolean): Promise<void> {
    await (kills ? server.kill() : server.stop());
    const next = await startPatientServer(folder.path);
    // Aborts a transaction that was open when the server ended, because its client has lost it.
    await abortOpen(next);
    server = next;
  }
}

async function prepare(server: ServerProcess): Promise<void> {
  await server.must("POST", "/vectordb/collections", {
    name: "history",
    dense_vector: { enabled: true, dimension: 2 },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
    store_raw_text: true,
  });
  for (const [kind, body] of Object.entries(indexBodies))
    await server.must("POST", `${collectionPath}/indexes/${kind}`, body);
}

async function abortOpen(server: ServerProcess): Promise<void> {
  const { transactions } = JSON.parse(await server.must("GET", `${collectionPath}/transactions`)) as {
    transactions: { transaction_id: string; status: object }[];
  };
  for (const { transaction_id, status } of transactions)
    if ("NotStarted" in status)
      await server.must("POST", `${collectionPath}/transactions/${transaction_id}/abort`);
}

function verdict(
  { seconds, writers, readers, say }: HistoryOptions,
  { operations, told, versionOfStamp, counts }: Recording,
  restarts: { kills: number; stops: number },
): Figures {
  const begun = performance.now();
  const found = check(operations, keyCount);
  if (!found.isExplained) throw new Error(`no serial order explains ${found.why}`);
  const fault = versionFault(told, operations, versionOfStamp);
  if (fault !== undefined) throw new Error(fault);
  say(`checked in ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  const sum = (pattern: RegExp) =>
    [...counts].filter(([what]) => pattern.test(what)).reduce((total, [, n]) => total + n, 0);
  return {
    "clients: writing, reading, disturbing": `${writers}, ${readers}, 1`,
    seconds,
    "operations in the history": operations.length,
    "streaming writes": sum(/^streaming/),
    "transactions committed, aborted": `${sum(/^commit$/)}, ${sum(/^aborted/)}`,
    "searches, single and batch": sum(/^search/),
    "reads by id and document, exports": sum(/^(get|exists|vectors by|export|a delete)/),
    "versions reported": told.length,
    "kills, stops of the server": `${restarts.kills}, ${restarts.stops}`,
    "writes of unknown outcome": operations.filter((each) => each.kind === "write" && !each.isKnown).length,
    "unloads and loads, rebuilt indexes": `${sum(/^unloads/)}, ${sum(/^indexes/)}`,
    "most possible states at one time": found.configurationsMost,
    "reads that no serial order explains": 0,
  };
}

if (import.meta.main)
  await command({
    name: "histories",
    options: { seconds: 60, restart: 10, writers: 6, readers: 8 },
    run: ({ restart, ...options }) => histories({ ...options, secondsBetweenRestarts: restart, say }),
  });
