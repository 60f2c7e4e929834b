// How does a rival's server run?

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { inDebian } from "./debian.ts";

export type Child = {
  readonly pid: number;
  readonly port: number;
  /** Ends it, and waits until it has. */
  end(): Promise<void>;
};

export type ChildPlan = {
  /** A program of Debian and its arguments. */
  command(port: number): readonly [program: string, ...args: string[]];
  /** Throws as long as the server does not answer. */
  ask(port: number): Promise<unknown>;
  /** The signal that ends it. Default SIGTERM. */
  readonly signal?: NodeJS.Signals;
};

/** A server that has not answered after this time has not started. */
const startMs = 30_000;
/** A server that has not ended this long after its signal is killed. */
const endMs = 20_000;

/** A port that nobody listens at. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode !== null || signalCode !== null;

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (hasEnded(child)) return;
  const exit = once(child, "exit");
  child.kill(signal);
  const killing = setTimeout(() => child.kill("SIGKILL"), endMs);
  await exit;
  clearTimeout(killing);
}

/** Starts a server, and waits until it answers. @throws with what it has written on stderr, if it does not */
export async function startChild({ command, ask, signal = "SIGTERM" }: ChildPlan): Promise<Child> {
  const port = await freePort();
  const [program, ...args] = command(port);
  const child = spawn(...inDebian(program, args), { stdio: ["ignore", "ignore", "pipe"], cwd: "/" });
  let told = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    told = `${told}${text}`.slice(-2_000);
  });
  const deadline = performance.now() + startMs;
  for (;;) {
    try {
      await ask(port);
      return { pid: child.pid as number, port, end: () => end(child, signal) };
    } catch (error) {
      if (!hasEnded(child) && performance.now() < deadline) {
        await sleep(100);
        continue;
      }
      await end(child, "SIGKILL");
      throw new Error(`${program} does not answer: ${(error as Error).message} ${told.trim()}`);
    }
  }
}
