// What do all commands have in common on the command line?
//
// The error for an unknown option or command names the most similar known one. Shared options are added here.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createClient, type QuiverClient, type RetryEvent } from "@quiver/client";
import { nearestName } from "@quiver/protocol/nearest-name";
import { Command, InvalidArgumentError, Option } from "commander";
import { UsageError } from "./exit-codes.ts";
import { defaultDataDir } from "./serve/settings.ts";
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
  apiKey?: string;
  apiKeyFile?: string;
  timeout: number;
  json?: boolean;
};

const keyHelp =
  "the key (default, for a server on this machine: the one in ./quiver-data/admin-key, if it exists)";

/** Adds the options of every command that talks to a server. */
export function withConnection(command: Command): Command {
  return command
    .addOption(
      new Option("--url <url>", "address of the server").env("QUIVER_URL").default("http://127.0.0.1:8443"),
    )
    .addOption(new Option("--api-key <key>", keyHelp).env("QUIVER_API_KEY"))
    .addOption(new Option("--api-key-file <file>", "file that contains the key").env("QUIVER_API_KEY_FILE"))
    .addOption(
      new Option("--timeout <duration>", "timeout of one request")
        .argParser(parsed(readDuration))
        .default(60_000, "60s"),
    )
    .option("--json", "print JSON, for scripts; errors as JSON on stderr");
}

/** The client of a command. */
export function connect(
  options: ConnectionOptions,
  extra: { timeoutMs?: number; retryForMs?: number; onRetry?: (event: RetryEvent) => void } = {},
): QuiverClient {
  return createClient({
    url: options.url,
    apiKey: findKey(options),
    timeoutMs: options.timeout,
    headers: { "user-agent": "quiver-cli" },
    ...extra,
  });
}

function findKey({ url, apiKey, apiKeyFile }: ConnectionOptions): string | undefined {
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
