// What is left of a campaign's failure, and how is it looked into?
//
//   $TMPDIR/quiver-failures/CAMPAIGN-SEED-.../
//     facts.json   the campaign, its seed, the moment, the message
//     ledger       what was asked for and acknowledged, as it was before the comparison
//     data/        the data directory that was to be compared: a copy from before a server opened it, or as it was left
//     log          of what was written and synced, where there is one
//
// `node tests/campaigns/CAMPAIGN.ts --replay DIR` starts a server on a copy of `data` and compares it with the ledger again.

import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deserialize, serialize } from "node:v8";
import { randomNumbers } from "@quiver/kernels/random";
import { end, Ledger, type LedgerState } from "./ledger.ts";
import { mustListen, startServer } from "./server-process.ts";
import { type Verified, verify } from "./verify.ts";

export type Facts = {
  readonly campaign: string;
  readonly seed: number;
  readonly message: string;
  /** The moment of the crash, where the ledger goes on after it. */
  readonly moment?: number;
  readonly [fact: string]: unknown;
};

export type Kept = {
  readonly ledger: Ledger;
  /** Directory of the data. */
  readonly data: string;
  readonly log?: string;
};

/** Copies what a failure leaves. @returns the folder */
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

/** An error that says, besides, where its failure is kept and how it is played again. */
export function keptError(error: unknown, facts: Omit<Facts, "message">, kept: Kept): Error {
  const message = error instanceof Error ? error.message : String(error);
  const folder = keepFailure({ ...facts, message } as Facts, kept);
  const again = `node tests/campaigns/${facts.campaign}.ts --replay ${folder}`;
  return new Error(`seed ${facts.seed}: ${message}\n\nKept in ${folder}; again: ${again}`, { cause: error });
}

/** Compares what was kept once more. @throws what is not as it must be */
export async function replayFailure(folder: string): Promise<Verified> {
  const facts = JSON.parse(readFileSync(join(folder, "facts.json"), "utf8")) as Facts;
  const ledger = Ledger.of(deserialize(readFileSync(join(folder, "ledger"))) as LedgerState);
  const copy = mkdtempSync(join(tmpdir(), "quiver-replay-"));
  const data = join(copy, "data");
  cpSync(join(folder, "data"), data, { recursive: true });
  const server = startServer(data);
  try {
    const client = await mustListen(server);
    return await verify(ledger, client, randomNumbers(facts.seed), facts.moment ?? end);
  } finally {
    await server.kill();
    rmSync(copy, { recursive: true, force: true });
  }
}

/** What `--replay DIR` of a campaign does: prints what was, and how it is now. */
export async function replayCommand(folder: string): Promise<void> {
  process.stdout.write(readFileSync(join(folder, "facts.json"), "utf8"));
  const { records, searches } = await replayFailure(folder);
  process.stdout.write(`now all is right: ${records} records and ${searches} searches compared\n`);
}
