// Does a server answer every sequence of operations as a plain model does, across restarts and kills?
//
// Seeded sequences of commands (model/commands) over every endpoint, except those that model/routes excludes, are sent to a real server in
// its own process over HTTP, and to a model of maps and full scans (tests/model.ts). After each command everything readable is compared
// (model/pair). Some commands let several clients write at once, stop the server, or kill it in the middle of a write.
//
//   node tools/launch.mjs run tests/campaigns/model.ts --sequences 2000
//
// Sequence i of a run with seed s is the same as the only sequence of a run with seed s + i.

import { resolve } from "node:path";
import { DevCluster } from "@quiverdb/cluster/dev/dev-cluster";
import { findNatsServer } from "@quiverdb/cluster/dev/nats-server";
import { type OperationName, operations } from "@quiverdb/engine/operations/operations";
import fc from "fast-check";
import { command, inLanes, type Say, say, shardFlags, TemporaryFolder } from "./campaign.ts";
import type { Figures } from "./figures.ts";
import { type Command, sequence } from "./model/commands.ts";
import { Pair, type Servers } from "./model/pair.ts";
import { modelled } from "./model/routes.ts";
import { adminKey, main, patience, startPatientServer } from "./server-process.ts";

export type ModelOptions = {
  readonly seed: number;
  readonly sequences: number;
  /** Whether the server is three nodes of a cluster, each request to the next one. */
  readonly nodes?: boolean;
  /** Of each collection of the cluster, with a replica more than one. Default: 1, with replicas on all nodes. */
  readonly shards?: number;
  readonly say: Say;
};

/** What ends a server, and what is of each node of a cluster. */
const ofOneServer: ReadonlySet<string> = new Set([
  ...["restart", "kill", "idle", "snapshot", "restore", "carrySnapshot", "dropSnapshot", "load", "unload"],
]);

/** Number of concurrent sequences, each on its own collections; those that stop the server run alone. */
const lanes = 4;

/** Runs sequences of what a cluster has in common, at three nodes. @throws at the first disagreement, with its seed and commands */
async function modelOverNodes({ seed, sequences, shards = 1, say }: ModelOptions): Promise<Figures> {
  const found = findNatsServer(resolve(import.meta.dirname, "../../.cache"));
  if ("missing" in found) throw new Error(found.missing);
  using folder = new TemporaryFolder("model-nodes");
  const cluster = await DevCluster.start({
    nats: found.path,
    directory: folder.path,
    quiver: [process.execPath, main],
    env: { QUIVER_ADMIN_KEY: adminKey },
    args: ["--no-console", ...patience, ...shardFlags(shards)],
  });
  let asked = 0;
  let commands = 0;
  const called = new Set<OperationName>();
  const never = () => Promise.reject(new Error("a cluster is not restarted by this campaign"));
  const servers: Servers = {
    url: () => cluster.urls[asked++ % cluster.urls.length],
    headers: { "x-quiver-consistency": "strict" },
    isLimited: shards === 1,
    restart: never,
    withoutPatience: never,
  };
  try {
    for (let i = 0; i < sequences; i++) {
      const all = fc.sample(sequence, { seed: seed + i, numRuns: 1 })[0];
      const common = all.filter((each) => !ofOneServer.has(each.do));
      await runSequence(seed + i, common, servers, called);
      commands += common.length;
      if ((i + 1) % 10 === 0) say(`${i + 1} sequences`);
    }
  } finally {
    await cluster.stop();
  }
  return {
    sequences,
    commands,
    "endpoints called": `${called.size} of ${Object.keys(operations).length}`,
    disagreements: 0,
  };
}

/** Runs all sequences. @throws at the first disagreement of server and model, with its seed and commands */
export async function modelCampaign(options: ModelOptions): Promise<Figures> {
  if (options.nodes) return modelOverNodes(options);
  const { seed, sequences, say } = options;
  using folder = new TemporaryFolder("model");
  let server = await startPatientServer(folder.path);
  const ends = { stop: 0, kill: 0, idle: 0 };
  const called = new Set<OperationName>();
  const kinds = new Map<string, number>();
  const servers: Servers = {
    url: () => server.url,
    async restart(how) {
      ends[how]++;
      await server[how]();
      server = await startPatientServer(folder.path);
    },
    async withoutPatience(act) {
      ends.idle++;
      await server.stop();
      server = await startPatientServer(folder.path, ["--transaction-idle", "1ms"]);
      await act();
      await server.stop();
      server = await startPatientServer(folder.path);
    },
  };
  try {
    const all = Array.from({ length: sequences }, (_, i) => ({
      seed: seed + i,
      commands: fc.sample(sequence, { seed: seed + i, numRuns: 1 })[0],
    }));
    const endsServer = ({ commands }: { commands: readonly Command[] }) =>
      commands.some((command) => ["restart", "kill", "idle"].includes(command.do));
    let done = 0;
    const runOne = async (each: (typeof all)[number]) => {
      await runSequence(each.seed, each.commands, servers, called);
      for (const command of each.commands) kinds.set(command.do, (kinds.get(command.do) ?? 0) + 1);
      if (++done % 50 === 0) say(`${done} sequences`);
    };
    const together = all.filter((each) => !endsServer(each));
    await inLanes(together, lanes, runOne);
    for (const each of all.filter(endsServer)) await runOne(each);
    const missed = [...modelled].filter((name) => !called.has(name));
    if (sequences >= 300 && missed.length > 0) throw new Error(`no sequence called ${missed.join(", ")}`);
    await server.stop();
  } finally {
    await server.kill();
  }
  return {
    sequences,
    commands: [...kinds.values()].reduce((sum, n) => sum + n, 0),
    "searches, in every form": kinds.get("search") ?? 0,
    commits: kinds.get("commit") ?? 0,
    "snapshots, full or incremental": kinds.get("snapshot") ?? 0,
    restores: kinds.get("restore") ?? 0,
    "steps with several clients at once": kinds.get("together") ?? 0,
    "kills in the middle of a write": ends.kill,
    restarts: ends.stop,
    "restarts that end idle transactions": ends.idle,
    "endpoints called": `${called.size} of ${Object.keys(operations).length}`,
    disagreements: 0,
  };
}

async function runSequence(
  seed: number,
  commands: readonly Command[],
  servers: Servers,
  called: Set<OperationName>,
): Promise<void> {
  const pair = new Pair(servers, called, String(seed));
  for (const [i, command] of commands.entries()) {
    try {
      await pair.run(command);
    } catch (error) {
      const before = commands.slice(0, i + 1).map((each) => JSON.stringify(each));
      throw new Error(`seed ${seed}, command ${i + 1}: ${(error as Error).message}\n${before.join("\n")}`, {
        cause: error,
      });
    }
  }
  await pair.end();
}

if (import.meta.main)
  await command({
    name: "model",
    options: { sequences: 100, nodes: false, shards: 1 },
    run: (options) => modelCampaign({ ...options, say }),
  });
