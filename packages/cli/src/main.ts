#!/usr/bin/env node
// How does the command line start quickly?
//
// Node.js keeps what it has compiled, the stripped types included, in the system's temporary directory, by content:
// the second start takes a third of the first one's processor time. The cache has to be on before the program is loaded.

import { enableCompileCache } from "node:module";
import { exitCodes } from "./exit-codes.ts";

enableCompileCache();
const { run } = await import("./program.ts");
const exitCode = await run(process.argv);
// A read of standard input that nobody waits for any more would keep the process alive.
if (exitCode === exitCodes.interrupted) process.exit(exitCode);
process.exitCode = exitCode;
