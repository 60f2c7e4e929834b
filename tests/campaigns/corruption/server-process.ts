// A server in its own process, as users run it.

import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const main = resolve(import.meta.dirname, "../../../packages/cli/src/main.ts");

export type ServerProcess = {
  readonly url: string;
  readonly adminKey: string;
  /** How it ended, if it has ended by itself, which is a crash. */
  readonly ended: () => string | undefined;
  readonly output: () => string;
  stop(): Promise<void>;
};

/** A server that did not start: its output, and whether it exited with an error message. */
export class NotStarted extends Error {
  override readonly name = "NotStarted";
  readonly signal: NodeJS.Signals | null;

  constructor(message: string, signal: NodeJS.Signals | null) {
    super(message);
    this.signal = signal;
  }
}

/** @throws NotStarted */
export async function startServer(dataDir: string): Promise<ServerProcess> {
  const args = [main, "serve", "--port", "0", "--data-dir", dataDir, "--log-level", "error"];
  const { QUIVER_ADMIN_KEY: _, ...env } = process.env;
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  child.stderr.setEncoding("utf8").on("data", (more) => {
    text += more;
  });
  let ended: string | undefined;
  const exit = new Promise<void>((done) =>
    child.once("exit", (code, signal) => {
      ended = signal ?? `code ${code}`;
      done();
    }),
  );
  const url = await new Promise<string>((found, failed) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      text += `${line}\n`;
      const match = /http:\/\/127\.0\.0\.1:\d+/.exec(line);
      if (match) found(match[0]);
    });
    child.once("close", (_code, signal) => failed(new NotStarted(text, signal)));
  });
  const keyFile = join(dataDir, "admin-key");
  return {
    url,
    adminKey: existsSync(keyFile) ? readFileSync(keyFile, "utf8").trim() : "",
    ended: () => ended,
    output: () => text,
    stop: async () => {
      child.kill("SIGTERM");
      await exit;
    },
  };
}
