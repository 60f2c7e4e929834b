// Which command runs, and what is the exit code of the process?

import { QuiverError } from "@quiverdb/client";
import { type Command, CommanderError } from "commander";
import { messageFor } from "./advice.ts";
import { disconnect, QuiverCommand } from "./command.ts";
import { loadEngine } from "./engine.ts";
import { CommandError, exitCodes, exitCodesHelp, UsageError } from "./exit-codes.ts";
import { InterruptedError } from "./interruption.ts";

let exitCode: number = exitCodes.ok;
const finish = (code: number) => {
  exitCode = code;
};

type Entry = {
  readonly name: string;
  readonly description: string;
  readonly load: () => Promise<Command>;
};

/** All commands, in the order of the help. The module of a command is loaded when that command is wanted. */
const commands: readonly Entry[] = [
  entry("serve", "start the server", async () =>
    (await loadEngine("serve", () => import("./commands/serve.ts"))).serveCommand(finish),
  ),
  entry("collections", "list, create, show, delete, load, unload; aliases", async () =>
    (await import("./commands/collections.ts")).collectionsCommand(),
  ),
  entry("index", "create, show, test and delete the indexes of a collection", async () =>
    (await import("./commands/index-command.ts")).indexCommand(),
  ),
  entry("fields", "declare fields of the metadata, so that filters find them by an index", async () =>
    (await import("./commands/fields.ts")).fieldsCommand(),
  ),
  entry(
    "import",
    "import files of any size (JSON Lines, JSON arrays, CSV, Parquet, .npy, .fvecs, raw .f32; most also with gzip), or from other databases",
    async () => (await import("./commands/import.ts")).importCommand(finish),
  ),
  entry(
    "export",
    "write all records of one version as JSON Lines, which import reads back exactly",
    async () => (await import("./commands/export.ts")).exportCommand(),
  ),
  entry(
    "backup",
    "write one version of a collection, or of all collections, to files for restore",
    async () => (await import("./commands/backup.ts")).backupCommand(),
  ),
  entry("restore", "restore a collection from files that backup has written", async () =>
    (await import("./commands/restore.ts")).restoreCommand(),
  ),
  entry(
    "search",
    "search a collection; two or three kinds of query together make a hybrid search",
    async () => (await import("./commands/search.ts")).searchCommand(),
  ),
  entry("count", "count the records of a collection, or those that match a filter", async () =>
    (await import("./commands/matching.ts")).countCommand(),
  ),
  entry("facets", "the values of fields, and how many records have each", async () =>
    (await import("./commands/matching.ts")).facetsCommand(),
  ),
  entry("get", "print a record as JSON, with its metadata exactly as it was written", async () =>
    (await import("./commands/records.ts")).getCommand(),
  ),
  entry("update", "change the metadata of the records that match a filter, all at once", async () =>
    (await import("./commands/matching.ts")).updateCommand(),
  ),
  entry("delete", "delete the records that match a filter, all at once", async () =>
    (await import("./commands/matching.ts")).deleteCommand(),
  ),
  entry("versions", "versions of a collection: list, keep, tag, compare, restore, copy, merge", async () =>
    (await import("./commands/versions.ts")).versionsCommand(),
  ),
  entry("transactions", "list transactions, commit or abort one", async () =>
    (await import("./commands/records.ts")).transactionsCommand(),
  ),
  entry("cluster", "several nodes: status, check, and a trial on this machine", async () =>
    (await import("./commands/cluster.ts")).clusterCommand(finish),
  ),
  entry("keys", "API keys with roles: list, create, revoke", async () =>
    (await import("./commands/keys.ts")).keysCommand(),
  ),
  entry("audit", "who changed keys, collections and indexes, newest first", async () =>
    (await import("./commands/keys.ts")).auditCommand(),
  ),
  entry("check", "verify all stored data: checksums, pages, log, records, indexes, snapshots", async () =>
    (await import("./commands/check.ts")).checkCommand(finish),
  ),
  entry("repair", "save everything that is intact in a damaged data directory into a new one", async () =>
    (await import("./commands/repair.ts")).repairCommand(finish),
  ),
];

function entry(name: string, description: string, load: Entry["load"]): Entry {
  return { name, description, load };
}

/** The program with all its commands loaded, for the reference of the command line. */
export const wholeProgram = (): Promise<QuiverCommand> => program(() => true);

/** @param wants whether to load the command of a name; the others have only their description */
async function program(wants: (name: string) => boolean): Promise<QuiverCommand> {
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
What opens data in its own process (serve, repair, check DIR, --data-dir) needs Node.js 24 or newer.
${exitCodesHelp}`,
    );
  for (const { name, description, load } of commands) {
    const command = wants(name) ? await load() : new QuiverCommand(name);
    quiver.addCommand(command.description(description));
  }
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
  const known = [QuiverError, UsageError, CommandError, InterruptedError].some(
    (kind) => error instanceof kind,
  );
  if (asJson) process.stderr.write(`${JSON.stringify(asObject(error))}\n`);
  else if (known) process.stderr.write(`quiver: ${messageFor(error)}\n`);
  else process.stderr.write(`quiver: ${(error as Error)?.stack ?? String(error)}\n`);
  if (error instanceof InterruptedError) return exitCodes.interrupted;
  return error instanceof UsageError ? exitCodes.usage : exitCodes.failed;
}

function asObject(error: unknown): object {
  const cause = error instanceof QuiverError ? error : (error as Error | undefined)?.cause;
  const origin = cause instanceof QuiverError ? { code: cause.code, details: cause.details } : {};
  return { error: { message: messageFor(error), ...origin } };
}

/** Runs the command line; returns the exit code of the process. */
export async function run(argv: readonly string[]): Promise<number> {
  // `quiver ... | head` closes the pipe; that is not an error.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(exitCodes.ok);
    throw error;
  });
  try {
    const [first, second] = argv.slice(2);
    const quiver = await program((name) => name === (first === "help" ? second : first));
    try {
      await quiver.parseAsync(argv);
    } finally {
      await disconnect();
    }
  } catch (error) {
    return codeFor(error, argv.includes("--json"));
  }
  return exitCode;
}
