// quiver check

import type { Database } from "@quiverdb/client";
import { isQuiverError } from "@quiverdb/protocol/errors";
import type { CheckReport, Finding } from "@quiverdb/protocol/shapes/check";
import type { Command } from "commander";
import { messageFor } from "../advice.ts";
import { type ConnectionOptions, connect, QuiverCommand, withConnection } from "../command.ts";
import { loadEngine } from "../engine.ts";
import { UsageError } from "../exit-codes.ts";
import { printJson, printLine } from "../output.ts";
import { countOf } from "../values.ts";

type CheckOptions = ConnectionOptions & { collection?: string };

/** A check reads all data of a collection; this timeout is only for servers that no longer respond. */
const checkTimeoutMs = 24 * 3_600_000;

/** Maximum number of findings that are listed on a terminal. */
const shownMax = 100;

const exitHelp = `
Exit codes of check:
  0    no damage was found
  1    damage was found; each finding is listed
  2    the check could not run: no data directory, a directory in use, no response from the server`;

/** @param finish called with the exit code of the process */
export function checkCommand(finish: (code: number) => void): Command {
  const command = new QuiverCommand("check")
    .argument(
      "[dir]",
      "a data directory that no server has open; without it, the server at --url runs the check",
    )
    .option("--collection <name>", "only this collection and its snapshots");
  withConnection(command);
  return command
    .addHelpText("after", exitHelp)
    .action(async (dir: string | undefined, options: CheckOptions, self: Command) => {
      const isAsked = self.getOptionValueSource("url") !== "default";
      if (dir === undefined && !isAsked)
        throw new UsageError("quiver check needs a data directory, or --url with the address of a server.");
      if (dir !== undefined && self.getOptionValueSource("url") === "cli")
        throw new UsageError("quiver check takes a data directory or --url, not both.");
      const report = await couldNotRun(() =>
        dir === undefined ? checkServer(options) : checkFiles(dir, options),
      );
      if (options.json) printJson(report);
      else printReport(report);
      finish(report.findings_total === 0 ? 0 : 1);
    });
}

async function checkFiles(dir: string, { collection, json }: CheckOptions): Promise<CheckReport> {
  const progress = new Progress(json !== true);
  try {
    const { checkDirectory } = await loadEngine("check DIR", () => import("@quiverdb/server/offline"));
    return await checkDirectory(dir, {
      collection,
      onProgress: (name, entries) => progress.read(name, entries),
    });
  } finally {
    progress.end();
  }
}

/**
 * Lets a server check its collections, one after the other, and its snapshots. For a collection that is not served because of damage, the
 * error is the finding.
 */
async function checkServer(options: CheckOptions): Promise<CheckReport> {
  const client = await connect(options, { timeoutMs: checkTimeoutMs });
  const names =
    options.collection === undefined
      ? (await client.listCollections()).map(({ name }) => name)
      : [options.collection];
  const progress = new Progress(options.json !== true);
  const add = (report: CheckReport) => {
    whole.findings.push(...report.findings);
    whole.findings_total += report.findings_total;
    whole.collections.push(...report.collections);
    whole.snapshots += report.snapshots;
  };
  const whole: CheckReport = { findings: [], findings_total: 0, collections: [], snapshots: 0 };
  for (const name of names) {
    progress.read(name, 0);
    add(await reportOf(client, name));
  }
  progress.read("snapshots", 0);
  add(
    await (options.collection === undefined
      ? client
      : client.collection(options.collection)
    ).checkSnapshots(),
  );
  progress.end();
  return whole;
}

async function reportOf(client: Database, name: string): Promise<CheckReport> {
  try {
    return await client.collection(name).check();
  } catch (error) {
    if (!isQuiverError(error, "data_corrupted")) throw error;
    const finding: Finding = { kind: "collection", collection: name, message: error.message };
    return { findings: [finding], findings_total: 1, collections: [], snapshots: 0 };
  }
}

/** If a check cannot run, the exit code is 2, so that 1 always means damage. */
export async function couldNotRun<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw new UsageError(messageFor(error), { cause: error });
  }
}

/** A progress line on stderr, if it is a terminal. */
class Progress {
  readonly #isShown: boolean;
  #entries = 0;
  #shownMs = 0;

  constructor(isWanted: boolean) {
    this.#isShown = isWanted && process.stderr.isTTY === true;
  }

  read(collection: string, entries: number): void {
    this.#entries += entries;
    const now = Date.now();
    if (!this.#isShown || now - this.#shownMs < 200) return;
    this.#shownMs = now;
    process.stderr.write(`\r\u001b[2K${collection}: ${this.#entries.toLocaleString("en-US")} entries read`);
  }

  end(): void {
    if (this.#isShown) process.stderr.write("\r\u001b[2K");
  }
}

function printReport({ findings, findings_total, collections, snapshots }: CheckReport): void {
  for (const finding of findings.slice(0, shownMax)) printLine(lineOf(finding));
  if (findings_total > shownMax)
    printLine(
      `... and ${findings_total - Math.min(shownMax, findings.length)} more; --json lists the first 10,000.`,
    );
  for (const {
    name,
    version,
    records,
    versions,
    hashes_derived,
    indexes,
    indexes_not_compared,
  } of collections) {
    printLine(
      `${JSON.stringify(name)}: ${countOf(records, "record")} at version ${version ?? "?"}, ${countOf(versions, "version")} in the log (${countOf(hashes_derived, "hash", "hashes")} recomputed), ${indexes.length === 0 ? "no index compared" : `index compared: ${indexes.join(", ")}`}`,
    );
    // A server of an earlier version does not say.
    for (const { index, reason } of indexes_not_compared ?? [])
      printLine(`  not compared: ${index}, because ${reason}.`);
  }
  printLine(
    findings_total === 0
      ? `No damage found in ${countOf(collections.length, "collection")} and ${countOf(snapshots, "snapshot")}.`
      : `${countOf(findings_total, "finding")}. quiver repair DIR --into NEWDIR saves what is intact.`,
  );
}

/** Without control characters, so that stored data cannot move the terminal's cursor. */
export function safe(message: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is removed.
  return message.replace(/[\u0000-\u001f\u007f-\u009f]/g, "?");
}

/** A finding on one line. */
export function lineOf(finding: Finding): string {
  const { kind, message, collection, table, derived } = finding;
  const where = [collection === undefined ? "" : JSON.stringify(collection), table ?? ""].filter(
    (w) => w !== "",
  );
  return `${derived ? "rebuilt" : "DAMAGED"}  ${kind}${where.length > 0 ? ` in ${where.join(" ")}` : ""}: ${safe(message)}`;
}
