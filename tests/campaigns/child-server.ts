// How does a campaign run a server in its own process, which it can stop, kill, restart and inspect?

import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { Holds, Probe } from "./child-probe.ts";

const main = resolve(import.meta.dirname, "../../packages/cli/src/main.ts");
const probe = resolve(import.meta.dirname, "child-probe.ts");

/** Admin key of every server that a campaign starts. */
export const adminKey = "campaign-admin-key";

/** Limits are raised, because these campaigns test responses; other campaigns test rejections under load and after wrong keys. */
const patience = [
  ...["--queue-wait", "2m", "--request-deadline", "5m", "--request-deadline-max", "1h"],
  ...["--auth-failures-max", "1000000000"],
];

/** Milliseconds that a start may take; recovery after a kill is part of it. */
const startMsMax = 120_000;

export type ChildServer = {
  readonly url: string;
  readonly port: number;
  /** The output of the process, standard output and standard error together; if it is long, only the end. */
  output(): string;
  /** Undefined while the process runs. */
  exit(): string | undefined;
  /** Memory and handles after a full collection of garbage. */
  measure(): Promise<Probe>;
  /** How long the event loop was blocked at a time since the last call, in processor time. */
  holds(): Promise<Holds>;
  /** Stops it as a service manager does. @throws unless it exits with 0 */
  stop(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
};

/**
 * Starts `quiver serve` on a free port of the loopback address, and waits until it has recovered its collections.
 * @param flags further flags of the command
 */
export async function startChildServer(dataDir: string, flags: readonly string[] = []): Promise<ChildServer> {
  const args = ["serve", "--port", "0", "--data-dir", dataDir, "--log-level", "error", ...patience, ...flags];
  const child = spawn(process.execPath, ["--expose-gc", "--import", probe, main, ...args], {
    env: { ...process.env, QUIVER_ADMIN_KEY: adminKey },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const output = keepOutput(child);
  let exit: string | undefined;
  const ended = new Promise<void>((done) =>
    child.once("close", (code, signal) => {
      exit = signal ?? `exit code ${code}`;
      done();
    }),
  );
  const url = await new Promise<string>((found, failed) => {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      const match = /listens on (http:\/\/127\.0\.0\.1:\d+)/.exec(line);
      if (match) found(match[1]);
    });
    void ended.then(() => failed(new Error(`the server did not start (${exit}):\n${output()}`)));
  });
  const askProbe = <T>(what: "measure" | "holds") =>
    new Promise<T>((answered, failed) => {
      child.once("message", (message) => answered(message as T));
      void ended.then(() => failed(new Error(`the server is gone (${exit}):\n${output()}`)));
      child.send(what);
    });
  await untilReady(url, () => exit);
  return {
    url,
    port: Number(new URL(url).port),
    output,
    exit: () => exit,
    measure: () => askProbe<Probe>("measure"),
    holds: () => askProbe<Holds>("holds"),
    async stop() {
      child.kill("SIGTERM");
      await ended;
      if (exit !== "exit code 0") throw new Error(`the server did not stop well (${exit}):\n${output()}`);
    },
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

async function untilReady(url: string, exit: () => string | undefined): Promise<void> {
  const deadline = performance.now() + startMsMax;
  for (;;) {
    const response = await fetch(`${url}/health/ready`);
    await response.arrayBuffer();
    if (response.status === 200) return;
    if (exit() !== undefined || performance.now() > deadline)
      throw new Error(`the server is not ready after its start: ${response.status}`);
    await sleep(5);
  }
}

function keepOutput(child: ChildProcess): () => string {
  const charactersMax = 64 * 1024;
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (more) => {
      text = (text + more).slice(-charactersMax);
    });
  }
  return () => text;
}
