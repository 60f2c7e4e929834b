// Does a server answer every sequence of operations as a plain model does, across restarts and kills?
//
// Seeded sequences of commands (model/commands) over every endpoint, except those that model/routes excludes, are sent to a real server in
// its own process over HTTP, and to a model of maps and full scans (tests/model.ts). After each command everything readable is compared
// (model/pair). Some commands let several clients write at once, stop the server, or kill it in the middle of a write.
//
//   node tools/launch.mjs run tests/campaigns/model.ts --sequences 2000 --seed 1 [--figures]
//
// Sequence i of a run with seed s is the same as the only sequence of a run with seed s + i.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type RouteName, routes } from "@quiver/protocol/routes";
import fc from "fast-check";
import { startChildServer } from "./child-server.ts";
import { type Figures, writeFigures } from "./figures.ts";
import { type Command, sequence } from "./model/commands.ts";
import { Pair, type Servers } from "./model/pair.ts";
import { modelled } from "./model/routes.ts";

export type ModelOptions = {
  readonly seed: number;
  readonly sequences: number;
  readonly say: (line: string) => void;
};

/** Number of concurrent sequences, each on its own collections; those that stop the server run alone. */
const lanes = 4;

/** Runs all sequences. @throws at the first disagreement of server and model, with its seed and commands */
export async function modelCampaign({ seed, sequences, say }: ModelOptions): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), "quiver-model-"));
  let server = await startChildServer(folder);
  const ends = { stop: 0, kill: 0, idle: 0 };
  const called = new Set<RouteName>();
  const kinds = new Map<string, number>();
  const servers: Servers = {
    url: () => server.url,
    async restart(how) {
      ends[how]++;
      await server[how]();
      server = await startChildServer(folder);
    },
    async withoutPatience(act) {
      ends.idle++;
      await server.stop();
      server = await startChildServer(folder, ["--transaction-idle", "1ms"]);
      await act();
      await server.stop();
      server = await startChildServer(folder);
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
    let next = 0;
    let failed = false;
    await Promise.all(
      Array.from({ length: lanes }, async () => {
        while (next < together.length && !failed) {
          try {
            await runOne(together[next++]);
          } catch (error) {
            failed = true;
            throw error;
          }
        }
      }),
    );
    for (const each of all.filter(endsServer)) await runOne(each);
    const missed = [...modelled].filter((name) => !called.has(name));
    if (sequences >= 300 && missed.length > 0) throw new Error(`no sequence called ${missed.join(", ")}`);
    await server.stop();
  } finally {
    if (server.exit() === undefined) await server.kill();
    rmSync(folder, { recursive: true, force: true });
  }
  return {
    sequences,
    commands: [...kinds.values()].reduce((sum, n) => sum + n, 0),
    "searches, each in all its forms": kinds.get("search") ?? 0,
    "commits asked": kinds.get("commit") ?? 0,
    "snapshots, full or incremental": kinds.get("snapshot") ?? 0,
    "restores asked": kinds.get("restore") ?? 0,
    "several clients at once": kinds.get("together") ?? 0,
    "kills, each in the middle of a write": ends.kill,
    restarts: ends.stop,
    "restarts in which idle transactions end": ends.idle,
    "endpoints called": `${called.size} of ${Object.keys(routes).length}`,
    disagreements: 0,
  };
}

async function runSequence(
  seed: number,
  commands: readonly Command[],
  servers: Servers,
  called: Set<RouteName>,
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

async function command(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seed: { type: "string", default: String(Date.now() % 1_000_000) },
      sequences: { type: "string", default: "100" },
      figures: { type: "boolean", default: false },
    },
  });
  process.stdout.write(`seed ${values.seed}\n`);
  const say = (line: string) => process.stdout.write(`${line}\n`);
  const seen = await modelCampaign({ seed: Number(values.seed), sequences: Number(values.sequences), say });
  process.stdout.write(`${JSON.stringify(seen, null, 2)}\n`);
  if (values.figures)
    writeFigures(
      "model",
      `npm run test:model -- --seed ${values.seed} --sequences ${values.sequences}`,
      seen,
    );
}

if (import.meta.main) await command();
