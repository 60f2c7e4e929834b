// How is a process killed at a moment, and what had it acknowledged by then?

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { expect } from "vitest";

/**
 * Runs a program, which prints "round N" for what it has acknowledged, until it is killed, some time after its first line.
 * @returns the last round it acknowledged
 */
export async function runAndKill(
  program: URL,
  directory: string,
  first: number,
  delayMs: number,
): Promise<number> {
  const child = spawn(process.execPath, [program.pathname, directory, String(first)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  let last = first - 1;
  let killing: NodeJS.Timeout | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    last = Number(line.split(" ")[1]);
    killing ??= setTimeout(() => child.kill("SIGKILL"), delayMs);
  }
  clearTimeout(killing);
  await ended;
  expect(child.signalCode).toBe("SIGKILL");
  return last;
}
