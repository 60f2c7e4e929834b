// Does a server answer every sequence of operations as a plain model does, across restarts and kills?
//
// Seeded sequences of commands (model/commands) over every endpoint, except those that model/routes excludes, are sent to a real server in
// its own process over HTTP, and to a model of maps and full scans (tests/model.ts). After each command everything readable is compared
// (model/pair). Some commands let several clients write at once, stop the server, or kill it in the middle of a write.
//
//   node tools/launch.mjs run tests/campaigns/model.ts --sequences 2000
//
// Sequence i of a run with seed s is the same as the only sequence of a run with seed s + i.

import { type OperationName, operations } from "@quiverdb/engine/operations/operations";
import fc from "fast-check";
import { command, inLanes, type Say, say, TemporaryFolder } from "./campaign.ts";
import type { Figures } from "./figures.ts";
import { type Command, sequence } from "./model/commands.ts";
import { Pair, type Servers } from "./model/pair.ts";
import { modelled } from "./model/routes.ts";
import { startPatientServer } from "./server-process.ts";

export type ModelOptions = {
  readonly seed: number;
  readonly sequences: number;
  readonly say: Say;
};

/** Number of concurrent sequences, each on its own collections; those that stop the server run alone. */
const lanes = 4;

/** Runs all sequences. @throws at the first disagreement of server and model, with its seed and commands */
export async function modelCampaign({ seed, sequences, say }: ModelOptions): Promise<Figures> {
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
    options: { sequences: 100 },
    run: (options) => modelCampaign({ ...options, say }),
  });
