// What does a campaign save of a failure, and how is it replayed?
//
//   $TMPDIR/quiver-failures/CAMPAIGN-SEED-.../
//     facts.json   the campaign, its seed, the moment, the message
//     ledger       what was requested and acknowledged, as of before the comparison
//     data/        the data directory: a copy from before a server opened it, or as the server left it
//     log          log of writes and syncs, if there is one
//
// `node tests/campaigns/CAMPAIGN.ts --replay DIR` starts a server on a copy of `data` and compares it with the ledger again.

import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deserialize, serialize } from "node:v8";
import { randomNumbers } from "@quiverdb/kernels/random";
import { TemporaryFolder } from "../campaign.ts";
import { ServerProcess } from "../server-process.ts";
import { end, Ledger, type LedgerState } from "./ledger.ts";
import { type Verified, verify } from "./verify.ts";

export type Facts = {
  readonly campaign: string;
  readonly seed: number;
  readonly message: string;
  /** The moment of the crash, if the ledger continues after it. */
  readonly moment?: number;
  readonly [fact: string]: unknown;
};

export type Kept = {
  readonly ledger: Ledger;
  /** Directory of the data. */
  readonly data: string;
  readonly log?: string;
};

/** Saves a failure. @returns the folder */
export function keepFailure(facts: Facts, { ledger, data, log }: Kept): string {
  const parent = join(tmpdir(), "quiver-failures");
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, `${facts.campaign}-${facts.seed}-`));
  writeFileSync(join(folder, "facts.json"), `${JSON.stringify(facts, null, 2)}\n`);
  writeFileSync(join(folder, "ledger"), serialize(ledger.state()));
  if (existsSync(data)) cpSync(data, join(folder, "data"), { recursive: true });
  if (log !== undefined && existsSync(log)) cpSync(log, join(folder, "log"));
  return folder;
}

/** The error with the folder of the saved failure and the command that replays it. */
export function keptError(error: unknown, facts: Omit<Facts, "message">, kept: Kept): Error {
  const message = error instanceof Error ? error.message : String(error);
  const folder = keepFailure({ ...facts, message } as Facts, kept);
  const again = `node tests/campaigns/${facts.campaign}.ts --replay ${folder}`;
  return new Error(`seed ${facts.seed}: ${message}\n\nKept in ${folder}; again: ${again}`, { cause: error });
}

/** Repeats the comparison of a saved failure. @throws at a violation */
export async function replayFailure(folder: string): Promise<Verified> {
  const facts = JSON.parse(readFileSync(join(folder, "facts.json"), "utf8")) as Facts;
  const ledger = Ledger.of(deserialize(readFileSync(join(folder, "ledger"))) as LedgerState);
  using copy = new TemporaryFolder("replay");
  cpSync(join(folder, "data"), copy.join("data"), { recursive: true });
  await using server = new ServerProcess(copy.join("data"));
  return await verify(ledger, await server.client(), randomNumbers(facts.seed), facts.moment ?? end);
}

/** Implements `--replay DIR` of a campaign: prints the saved failure and the result of the replay. */
export async function replayCommand(folder: string): Promise<void> {
  process.stdout.write(readFileSync(join(folder, "facts.json"), "utf8"));
  const { records, searches } = await replayFailure(folder);
  process.stdout.write(`no violation in the replay: ${records} records and ${searches} searches compared\n`);
}
