#!/usr/bin/env node
// How does the command line start quickly, and the server small?
//
// Node.js caches compiled code, including code with stripped types, in the system's temporary directory, by content: the second start takes
// a third of the processor time of the first. The cache must be enabled before the program is loaded. But it holds in memory what it has read,
// 15 MB in a server, which lives longer than it starts: with one file a thread (../build.mjs) it starts as quickly without.

// As a whole, because Node.js 20 has no such function.
import module from "node:module";
import { availableParallelism } from "node:os";
import { exitCodes } from "./exit-codes.ts";

// What a process cannot change of itself, so the server begins again with it, as the same process:
//   - glibc gives each thread heaps of its own and keeps what was freed in each; with two heaps a server that runs for long holds a third
//     less memory (tools/launch.mjs, which sets the same). And after it has freed a large buffer it keeps all as large, up to 32 MB, unless a
//     threshold is given (docs/decisions/memory.md).
//   - The young generation of V8 grows to 32 MB twice, and then V8 marks the old one, which is hardly larger, after every few requests
//     (docs/decisions/memory.md).
//   - V8 has four helper threads, which compile and collect garbage for all others. On two cores, searches wait for a core that these have
//     (docs/decisions/serving-threads.md).
const heaps = { MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072" };
const flags = {
  "--max-semi-space-size": 8,
  "--v8-pool-size": Math.min(4, Math.max(1, Math.floor(availableParallelism() / 2))),
};
const given = `${process.execArgv.join(" ")} ${process.env.NODE_OPTIONS ?? ""}`.replaceAll("_", "-");
const missing = Object.entries(flags).filter(([flag]) => !given.includes(flag));
const isSet =
  missing.length === 0 &&
  (process.platform !== "linux" || Object.keys(heaps).every((name) => process.env[name] !== undefined));
const isServer = process.argv[2] === "serve";
// A channel to the parent would not survive it.
// Windows has the function, which throws there.
if (isServer && !isSet && process.send === undefined && process.platform !== "win32") {
  const added = missing.map(([flag, value]) => `${flag}=${value}`);
  const args = [process.execPath, ...process.execArgv, ...added, ...process.argv.slice(1)];
  process.execve?.(process.execPath, args, { ...heaps, ...process.env });
}
const isOneFile = import.meta.filename.endsWith(".js");
if (!isServer || !isOneFile) module.enableCompileCache?.();
const { run } = await import("./program.ts");
const exitCode = await run(process.argv);
// A pending read of standard input would keep the process alive.
if (exitCode === exitCodes.interrupted) process.exit(exitCode);
process.exitCode = exitCode;
