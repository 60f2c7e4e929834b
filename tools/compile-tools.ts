// Does a folder of tools compile whose packages are installed later?
//
// Such a folder is no part of the project's own compilation, which must pass before anything is installed.

import { join, resolve } from "node:path";
import { endOf, startNode } from "./children.ts";

const tsc = resolve(import.meta.dirname, "../node_modules/typescript/bin/tsc");

/** The errors of the compiler, by the folder's tsconfig.check.json. */
export async function compileTools(folder: string): Promise<string[]> {
  const args = [tsc, "-p", join(folder, "tsconfig.check.json"), "--pretty", "false"];
  const { output } = await endOf(startNode(args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] }));
  return output.split("\n").filter((line) => line !== "");
}
