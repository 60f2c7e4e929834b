#!/usr/bin/env node
// How does the command line start quickly?
//
// Node.js caches compiled code, including code with stripped types, in the system's temporary directory, by content: the second start takes
// a third of the processor time of the first. The cache must be enabled before the program is loaded.

// As a whole, because an older Node.js, which is told below, has no such function.
import module from "node:module";
import { exitCodes } from "./exit-codes.ts";

const nodeMajorMin = 24;
const { node } = process.versions;
if (Number.parseInt(node, 10) < nodeMajorMin) {
  process.stderr.write(`quiver: needs Node.js ${nodeMajorMin} or newer; this is ${node}.\n`);
  process.exit(exitCodes.failed);
}
// glibc gives each thread heaps of its own and keeps what was freed in each; with two heaps a server that runs for long holds a third less
// memory (tools/launch.mjs, which sets the same). A process cannot change this of itself, so it begins again, as the same process.
if (
  process.argv[2] === "serve" &&
  process.platform === "linux" &&
  process.env.MALLOC_ARENA_MAX === undefined
) {
  const args = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(process.execPath, args, { ...process.env, MALLOC_ARENA_MAX: "2" });
}
module.enableCompileCache();
const { run } = await import("./program.ts");
const exitCode = await run(process.argv);
// A pending read of standard input would keep the process alive.
if (exitCode === exitCodes.interrupted) process.exit(exitCode);
process.exitCode = exitCode;
