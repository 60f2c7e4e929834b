// What do all commands have in common on the command line?
//
// The error for an unknown option or command names the most similar known one. Shared options are added here.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createClient, type Database, type QuiverClient, type RetryEvent } from "@quiverdb/client";
import { nearestName } from "@quiverdb/protocol/nearest-name";
import { Command, InvalidArgumentError, Option } from "commander";
import { loadEngine } from "./engine.ts";
import { UsageError } from "./exit-codes.ts";
import { readDuration } from "./values.ts";

/** commander's Command with better messages for unknown options and commands. */
export class QuiverCommand extends Command {
  override createCommand(name?: string): QuiverCommand {
    return new QuiverCommand(name);
  }

  /** Called by commander. */
  unknownOption(flag: string): never {
    const known = this.createHelp()
      .visibleOptions(this)
      .flatMap(({ long, short }) => [long, short])
      .filter((name): name is string => typeof name === "string");
    const name = flag.split("=")[0];
    return this.error(`error: unknown option '${name}'.${meant(name, known)} See ${this.path} --help.`, {
      code: "commander.unknownOption",
      exitCode: 2,
    });
  }

  /** `quiver collections create` */
  get path(): string {
    const { parent } = this as { parent: QuiverCommand | null };
    return parent === null ? this.name() : `${parent.path} ${this.name()}`;
  }

  /** Called by commander: a word that is not a command is passed to the default command as an excess argument. */
  _excessArguments(received: readonly string[]): void {
    const parent = this.parent as (QuiverCommand & { _defaultCommandName?: string }) | null;
    if (parent?._defaultCommandName === this.name() && received.length > this.registeredArguments.length) {
      parent.suggestCommand(received[0]);
    }
    (Command.prototype as unknown as QuiverCommand)._excessArguments.call(this, received);
  }

  /** Called by commander. */
  unknownCommand(): never {
    return this.suggestCommand(this.args[0]);
  }

  suggestCommand(name: string): never {
    const known = this.createHelp()
      .visibleCommands(this)
      .map((command) => command.name());
    return this.error(
      `error: unknown command '${name}'.${meant(name, known, `${this.path} `)} See ${this.path} --help.`,
      { code: "commander.unknownCommand", exitCode: 2 },
    );
  }
}

/** Names a known word only if it is similar. */
function meant(given: string, known: readonly string[], before = ""): string {
  const nearest = nearestName(given, known);
  return nearest === undefined ? "" : ` Did you mean ${before}${nearest}?`;
}

/** Turns a parser of values.ts into the parser of an option. */
export function parsed<T>(read: (text: string) => T): (text: string) => T {
  return (text) => {
    try {
      return read(text);
    } catch (error) {
      throw new InvalidArgumentError(`${(error as Error).message}.`);
    }
  };
}

export type ConnectionOptions = {
  url: string;
  dataDir?: string;
  force?: boolean;
  apiKey?: string;
  apiKeyFile?: string;
  timeout: number;
  json?: boolean;
};

/** Where `quiver serve` keeps its data. */
export const defaultDataDir = "./quiver-data";

const keyHelp =
  "the key (default, for a server on this machine: the one in ./quiver-data/admin-key, if it exists)";

/** Adds the options of every command that talks to a server. */
export function withConnection(command: Command): Command {
  return command
    .addOption(
      new Option("--url <url>", "address of the server").env("QUIVER_URL").default("http://127.0.0.1:8443"),
    )
    .option(
      "--data-dir <dir>",
      "opens the data of this directory here, instead of asking a server; no server may have it open",
    )
    .option("--force", "with --data-dir: use the directory also if it has other files, and none of Quiver")
    .addOption(new Option("--api-key <key>", keyHelp).env("QUIVER_API_KEY"))
    .addOption(new Option("--api-key-file <file>", "file that contains the key").env("QUIVER_API_KEY_FILE"))
    .addOption(
      new Option("--timeout <duration>", "timeout of one request")
        .argParser(parsed(readDuration))
        .default(60_000, "60s"),
    )
    .option("--json", "print JSON, for scripts; errors as JSON on stderr")
    .hook("preAction", (_, acting) => {
      // A QUIVER_URL of the environment is no contradiction.
      const isGiven = (name: string) => acting.getOptionValueSource(name) === "cli";
      if (isGiven("url") && isGiven("dataDir")) throw new UsageError("Give --url or --data-dir, not both.");
      if (isGiven("force") && !isGiven("dataDir"))
        throw new UsageError(
          "--force belongs to --data-dir: a directory with other files is used all the same.",
        );
    });
}

type ExtraOptions = {
  readonly timeoutMs?: number;
  readonly retryForMs?: number;
  readonly onRetry?: (event: RetryEvent) => void;
  /** Whether the command may make a data directory that is missing. */
  readonly mayCreate?: boolean;
};

const opened: Database[] = [];

/** The database of a command: a server's, or that of a directory. */
export async function connect(options: ConnectionOptions, extra: ExtraOptions = {}): Promise<Database> {
  const { dataDir, force } = options;
  const { mayCreate = false, ...ofClient } = extra;
  if (dataDir === undefined) return connectServer(options, ofClient);
  if (!mayCreate && !existsSync(dataDir))
    throw new UsageError(
      `--data-dir ${dataDir}: there is no such directory. "quiver collections create NAME --data-dir ${dataDir}" makes it.`,
    );
  const { open } = await loadEngine("--data-dir", () => import("@quiverdb/database"));
  const database = await open(dataDir, { lockWaitMs: 0, force });
  opened.push(database);
  return database;
}

/** Closes what a command has opened. */
export async function disconnect(): Promise<void> {
  for (const database of opened.splice(0)) await database.close();
}

/** What a command's database is called: the address of its server, or its directory. */
export function placeOf(options: ConnectionOptions): string {
  return options.dataDir === undefined ? connectServer(options).url : resolve(options.dataDir);
}

/** The client of a command that only a server can execute. */
export function connectServer(
  options: ConnectionOptions,
  extra: Omit<ExtraOptions, "mayCreate"> = {},
): QuiverClient {
  if (options.dataDir !== undefined)
    throw new UsageError("--data-dir: keys and the audit log belong to a server; name it with --url.");
  return createClient({
    url: options.url,
    apiKey: keyOf(options),
    timeoutMs: options.timeout,
    headers: { "user-agent": "quiver-cli" },
    ...extra,
  });
}

export function keyOf({ url, apiKey, apiKeyFile }: ConnectionOptions): string | undefined {
  if (apiKey !== undefined && apiKey !== "") return apiKey;
  if (apiKeyFile !== undefined && apiKeyFile !== "") {
    try {
      return readFileSync(apiKeyFile, "utf8");
    } catch (error) {
      throw new UsageError(`--api-key-file ${apiKeyFile}: ${(error as Error).message}`);
    }
  }
  // The key that a server started in this directory has generated. It is never sent to another machine.
  const usual = join(defaultDataDir, "admin-key");
  if (!isThisMachine(url) || !existsSync(usual)) return undefined;
  try {
    return readFileSync(usual, "utf8");
  } catch {
    return undefined;
  }
}

function isThisMachine(url: string): boolean {
  const { hostname } = URL.parse(url) ?? { hostname: "" };
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}
