#!/usr/bin/env node
// How does the command line start quickly?
//
// Node.js caches compiled code, including code with stripped types, in the system's temporary directory, by content: the second start takes
// a third of the processor time of the first. The cache must be enabled before the program is loaded.

import { enableCompileCache } from "node:module";
import { exitCodes } from "./exit-codes.ts";

enableCompileCache();
const { run } = await import("./program.ts");
const exitCode = await run(process.argv);
// A pending read of standard input would keep the process alive.
if (exitCode === exitCodes.interrupted) process.exit(exitCode);
process.exitCode = exitCode;
