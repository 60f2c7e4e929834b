// Which command runs, and what is the exit code of the process?

import { QuiverError } from "@quiver/client";
import { CommanderError } from "commander";
import { QuiverCommand } from "./command.ts";
import { backupCommand } from "./commands/backup.ts";
import { checkCommand } from "./commands/check.ts";
import { collectionsCommand } from "./commands/collections.ts";
import { exportCommand } from "./commands/export.ts";
import { importCommand } from "./commands/import.ts";
import { indexCommand } from "./commands/index-command.ts";
import { auditCommand, keysCommand } from "./commands/keys.ts";
import { countCommand, deleteCommand } from "./commands/matching.ts";
import { getCommand, transactionsCommand, versionsCommand } from "./commands/records.ts";
import { repairCommand } from "./commands/repair.ts";
import { restoreCommand } from "./commands/restore.ts";
import { searchCommand } from "./commands/search.ts";
import { serveCommand } from "./commands/serve.ts";
import { CommandError, exitCodes, exitCodesHelp, UsageError } from "./exit-codes.ts";

let exitCode: number = exitCodes.ok;
const finish = (code: number) => {
  exitCode = code;
};

function program(): QuiverCommand {
  const quiver = new QuiverCommand("quiver");
  quiver
    .description("Quiver, a vector database: dense, sparse, full-text and hybrid search.")
    .version("0.1.0")
    .addHelpText(
      "after",
      `
quiver COMMAND --help describes a command. Client commands find their server by --url or QUIVER_URL, and its
key by --api-key, --api-key-file, QUIVER_API_KEY or QUIVER_API_KEY_FILE. To trust a server whose certificate
is not signed by a known authority, set NODE_EXTRA_CA_CERTS to the PEM file of its authority.
${exitCodesHelp}`,
    )
    .addCommand(serveCommand(finish))
    .addCommand(collectionsCommand())
    .addCommand(indexCommand())
    .addCommand(importCommand(finish))
    .addCommand(exportCommand())
    .addCommand(backupCommand())
    .addCommand(restoreCommand())
    .addCommand(searchCommand())
    .addCommand(countCommand())
    .addCommand(getCommand())
    .addCommand(deleteCommand())
    .addCommand(versionsCommand())
    .addCommand(transactionsCommand())
    .addCommand(keysCommand())
    .addCommand(auditCommand())
    .addCommand(checkCommand(finish))
    .addCommand(repairCommand(finish));
  throwInsteadOfExit(quiver);
  return quiver;
}

function throwInsteadOfExit(command: QuiverCommand): void {
  command.exitOverride();
  for (const child of command.commands) throwInsteadOfExit(child as QuiverCommand);
}

function codeFor(error: unknown, asJson: boolean): number {
  if (error instanceof CommanderError) {
    // --help and --version exit with 0; commander has already printed its message.
    return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
  }
  const known = error instanceof QuiverError || error instanceof UsageError || error instanceof CommandError;
  if (asJson) process.stderr.write(`${JSON.stringify(asObject(error))}\n`);
  else if (known) process.stderr.write(`quiver: ${(error as Error).message}\n`);
  else process.stderr.write(`quiver: ${(error as Error)?.stack ?? String(error)}\n`);
  return error instanceof UsageError ? exitCodes.usage : exitCodes.failed;
}

function asObject(error: unknown): object {
  const cause = error instanceof QuiverError ? error : (error as Error | undefined)?.cause;
  const origin = cause instanceof QuiverError ? { code: cause.code, details: cause.details } : {};
  return { error: { message: error instanceof Error ? error.message : String(error), ...origin } };
}

/** Runs the command line; returns the exit code of the process. */
export async function run(argv: readonly string[]): Promise<number> {
  // `quiver ... | head` closes the pipe; that is not an error.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(exitCodes.ok);
    throw error;
  });
  try {
    await program().parseAsync(argv);
  } catch (error) {
    return codeFor(error, argv.includes("--json"));
  }
  return exitCode;
}
