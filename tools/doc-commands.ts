// Are the commands of the documents commands of Quiver?
//
// Most commands in documents are about the reader's machine, and cannot run in a check: a server in a container, a backup to a disk. So bash
// goes through them without any program to start (no PATH), and notes what would be given to the command line, under all its names. The
// command line's own parser then says whether it has such a command, and takes such options.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { QuiverCommand } from "@quiverdb/cli/command";
import { wholeProgram } from "@quiverdb/cli/program";
import { CommanderError } from "commander";
import { endOf } from "./children.ts";

/** Ends an argument, and a command. */
const unit = "\u001f";
const record = "\u001e";

/** `npm run [-s] quiver -- ...`, `npm start [-- ...]`, `npx quiverdb ...` and `quiver ...`; every other command does nothing. */
const dryShell = [
  "PATH=",
  "command_not_found_handle() { :; }",
  `quiver() { printf '%s${unit}' "$@" >&3; printf '${record}' >&3; }`,
  'npm() { local words=" $* "; while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done; shift || true; case $words in " run"*" quiver "*) quiver "$@";; " start "*) quiver serve "$@";; esac; }',
  'npx() { if [ "$1" = quiverdb ]; then shift; quiver "$@"; fi; }',
].join("\n");

/** What the command line does not understand, a line for each command. @param script the text of a block */
export async function commandFaults(script: string): Promise<string[]> {
  const faults: string[] = [];
  for (const args of await commandsIn(script)) {
    const fault = await faultOf(args);
    if (fault !== undefined) faults.push(`quiver ${args.join(" ")}: ${fault}`);
  }
  return faults;
}

/** The arguments of each command. */
async function commandsIn(script: string): Promise<string[][]> {
  const folder = mkdtempSync(join(tmpdir(), "quiver-dry-"));
  try {
    const child = spawn("bash", ["-c", `${dryShell}\n${script}`], {
      cwd: folder,
      stdio: ["ignore", "ignore", "ignore", "pipe"],
    });
    let noted = "";
    child.stdio[3]?.on("data", (bytes: Buffer) => {
      noted += bytes.toString("utf8");
    });
    await endOf(child);
    return noted
      .split(record)
      .slice(0, -1)
      .map((command) => command.split(unit).slice(0, -1));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function faultOf(args: readonly string[]): Promise<string | undefined> {
  // The values of options stay in a command once they were parsed.
  const program = await wholeProgram();
  makeIdle(program);
  try {
    await program.parseAsync(["node", "quiver", ...args]);
    return undefined;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // --help and --version end well.
    return error.exitCode === 0 ? undefined : error.message;
  }
}

/** Nothing of it acts or prints any more. */
function makeIdle(command: QuiverCommand): void {
  command.configureOutput({ writeOut: () => {}, writeErr: () => {} });
  // A command with others below it acts by one of them.
  if (command.commands.length === 0) command.action(() => {});
  for (const child of command.commands) makeIdle(child as QuiverCommand);
}
