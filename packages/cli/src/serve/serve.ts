// How does the server run as a process: from its settings to its exit code?
//
//   settings -> start -> listening --signal--> stopping --> exit 0
//                 |                               | second signal
//                 v                               v
//             exit 1, or 2 for settings        exit 130, at once
//
// After the first signal every accepted request is finished. A second signal does not lose anything acknowledged either: acknowledged means
// durable.

import { availableParallelism } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { ConfigError, completeConfig, type ServerConfig } from "@quiverdb/server/config";
import type { RunningServer } from "@quiverdb/server/running-server";
import { CommandError, exitCodes, UsageError } from "../exit-codes.ts";
import { findConfigFile, type ResolvedSettings, resolveSettings, type SettingInputs } from "./settings.ts";

/** Runs the server until a signal; returns the exit code of the process. */
export async function serve(flags: SettingInputs["flags"], env: SettingInputs["env"]): Promise<number> {
  const resolved = resolveSettings({ flags, env, file: findConfigFile(flags, env) });
  // The old generation may double before it is marked. By its own measure V8 lets it grow by a tenth, and then marks after every few requests
  // (docs/decisions/memory.md).
  setFlagsFromString("--heap-growing-percent=100");
  // What lives in a young generation of 8 MB is so little that one thread copies it in less time than several share it out, and a request passes
  // so many small functions that V8 must inline more of them (docs/decisions/rest-path.md, `npm run bench rest`).
  setFlagsFromString("--no-parallel-scavenge");
  setFlagsFromString("--max-inlined-bytecode-size-cumulative=5520");
  const server = await start(resolved);
  announce(server, resolved.config);
  await untilSignal();
  process.stdout.write("Stopping: finishing accepted requests. A second signal stops at once.\n");
  const impatient = () => {
    process.stderr.write("quiver: stopped at once by a second signal; everything acknowledged is on disk.\n");
    process.exit(exitCodes.interrupted);
  };
  process.on("SIGTERM", impatient);
  process.on("SIGINT", impatient);
  await server.close();
  process.stdout.write("Stopped.\n");
  return exitCodes.ok;
}

/** Each takes some 40 MB of memory: more than this many only on request. */
const servingThreadsMax = 8;

/**
 * One serving thread a core, of which the first starts at once, and the others when the load needs them. With one core, and where threads
 * cannot share a port, the thread of the database serves.
 */
function servingThreadsDefault(): Pick<ServerConfig, "servingThreads" | "servingThreadsAtStart"> {
  const cores = availableParallelism();
  if (process.platform !== "linux" || cores < 2) return { servingThreads: 0 };
  return { servingThreads: Math.min(cores, servingThreadsMax), servingThreadsAtStart: 1 };
}

async function start({ config: given, sources }: ResolvedSettings): Promise<RunningServer> {
  // The thread of the database applies the log of a cluster, and answers what must see it.
  const isAlone = given.cluster === undefined;
  const config = {
    ...(given.servingThreads === undefined && isAlone && servingThreadsDefault()),
    ...given,
  };
  try {
    completeConfig(config);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const source = sources.get(error.option);
    throw new UsageError(source === undefined ? error.message : `${source}: ${error.message}`);
  }
  // Loaded only here, because the other commands do not need the server.
  const { collectAtRest, startServer } = await import("@quiverdb/server/server");
  try {
    const server = await startServer(config);
    collectAtRest();
    return server;
  } catch (error) {
    // The settings are valid but cannot be used on this machine: the port is in use, for example.
    if (!(error instanceof ConfigError)) throw error;
    const hint = error.option === "port" ? " The option is --port (0 selects a free one)." : "";
    throw new CommandError(`Cannot start: ${error.message}${hint}`, { cause: error });
  }
}

function announce(server: RunningServer, config: ServerConfig): void {
  const lines = [
    `Quiver listens on ${server.url}`,
    ...(config.console === false ? [] : [`  console        ${server.url}/`]),
    `  API reference  ${server.url}/docs`,
    `  data           ${config.dataDir}`,
  ];
  if (server.adminKeyFile !== undefined) {
    lines.push(`  admin key      generated and written to ${server.adminKeyFile}`);
  } else if (config.noAuth) {
    lines.push("  admin key      none: every program on this machine may read and change everything");
  } else if (config.adminKey === undefined) {
    lines.push(`  admin key      unchanged, see ${join(config.dataDir, "admin-key")}`);
  }
  process.stdout.write(`${lines.join("\n")}\n`);
}

/** Resolves with the first SIGTERM or SIGINT. */
function untilSignal(): Promise<void> {
  return new Promise((resolve) => {
    const stop = () => {
      process.off("SIGTERM", stop);
      process.off("SIGINT", stop);
      resolve();
    };
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
  });
}
