// How does a campaign run a real server and kill it?

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createClient, type QuiverClient } from "@quiver/client";

const main = resolve(import.meta.dirname, "../../../packages/cli/src/main.ts");
const armFailpoint = new URL("./arm-failpoint.ts", import.meta.url).href;
/** The admin key of a server that does not generate its own. */
export const adminKey = "campaign";

/** Where Node.js keeps compiled modules between starts: most of a start is compiling. */
const compileCache = join(tmpdir(), "quiver-campaigns-compile-cache");

export type ServerProcess = {
  /** Resolves when the server listens; null when it ended before. */
  readonly listening: Promise<QuiverClient | null>;
  readonly hasEnded: () => boolean;
  /** How it ended; resolves when it has. */
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** What it wrote to its outputs. */
  output(): string;
  /** SIGKILL unless told otherwise; resolves when the process is gone. */
  kill(signal?: NodeJS.Signals): Promise<void>;
};

/**
 * Starts `quiver serve` on a directory, on a free port.
 * @param env additional environment variables
 * @param makesKey whether the server makes its admin key itself
 * @param failpoint `NAME@N`: where it kills itself
 */
export function startServer(
  dataDir: string,
  env: Record<string, string> = {},
  makesKey = false,
  failpoint?: string,
): ServerProcess {
  const { QUIVER_ADMIN_KEY: _, ...inherited } = process.env;
  const key = makesKey ? {} : { QUIVER_ADMIN_KEY: adminKey };
  const arming = failpoint === undefined ? [] : ["--import", armFailpoint];
  const armed = failpoint === undefined ? {} : { QUIVER_FAILPOINT: failpoint };
  const child = spawn(
    process.execPath,
    [...arming, main, "serve", "--port", "0", "--data-dir", dataDir, "--log-level", "warn"],
    {
      env: { ...inherited, ...key, NODE_COMPILE_CACHE: compileCache, ...armed, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let text = "";
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) =>
    child.once("close", (code, signal) => resolve({ code, signal })),
  );
  const listening = new Promise<QuiverClient | null>((resolve) => {
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (more: string) => {
        text += more;
        const url = /listens on (http:\S+)/.exec(text)?.[1];
        // The line about the directory follows the address, and the key file exists before both.
        if (url) resolve(createClient({ url, apiKey: makesKey ? keyIn(dataDir) : adminKey }));
      });
    void ended.then(() => resolve(null));
  });
  return {
    listening,
    ended,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    output: () => text,
    kill: async (signal = "SIGKILL") => {
      child.kill(signal);
      await ended;
    },
  };
}

const keyIn = (dataDir: string) => readFileSync(join(dataDir, "admin-key"), "utf8").trim();

/** The client of a server that must start. @throws with its output if it does not */
export async function mustListen(server: ServerProcess): Promise<QuiverClient> {
  const client = await server.listening;
  if (client) return client;
  throw new Error(`the server did not start:\n${server.output()}`);
}
