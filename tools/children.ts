// How does a tool run another program without leaving it behind?

import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";

const running = new Set<ChildProcess>();

process.once("exit", () => {
  for (const child of running) child.kill("SIGTERM");
});
for (const [signal, exitCode] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const) {
  process.once(signal, () => process.exit(exitCode));
}

/** Starts a program with Node.js. It gets SIGTERM when this process exits first. */
export function startNode(args: readonly string[], options: SpawnOptions): ChildProcess {
  const child = spawn(process.execPath, args, options);
  running.add(child);
  child.once("close", () => running.delete(child));
  return child;
}

/** How a program ended; `output` is its stdout and stderr in order of arrival, if they are pipes. */
export type Ending = { code: number | null; signal: string | null; output: string };

export async function endOf(child: ChildProcess): Promise<Ending> {
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
  }
  const [code, signal] = await once(child, "close");
  return { code, signal, output };
}
