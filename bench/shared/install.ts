// How are the rivals installed?
//
// From bench/package-lock.json into bench/node_modules, separate from the product's dependencies. No install script is run, because such
// scripts may download binaries from anywhere; all rivals but one include their binaries in their packages.
//
// Here `npm install` follows the lockfile and checks the same hashes as `npm ci`, but tolerates missing binaries of other platforms: not
// every registry offers all of them.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const bench = resolve(import.meta.dirname, "..");
/** Compiled here, by node-gyp. */
const compiled = ["hnswlib-node"];

/** Installs missing packages; returns the reason of a failure, or undefined. Whether a rival works shows when it is opened. */
export function installRivals(): string | undefined {
  const stamp = join(bench, "node_modules", ".quiver-lock-sha256");
  const wanted = createHash("sha256")
    .update(readFileSync(join(bench, "package-lock.json")))
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return undefined;
  const run = (...args: string[]) =>
    execFileSync("npm", args, { cwd: bench, stdio: "pipe", shell: process.platform === "win32" });
  console.log("installing the rivals");
  try {
    run("install", "--ignore-scripts", "--no-save");
  } catch (error) {
    return `npm could not install the rivals: ${String(error).split("\n")[0]}; its own words are those of \`npm install\` in bench`;
  }
  for (const name of compiled) {
    try {
      run("rebuild", name);
    } catch (error) {
      console.log(`${name} could not be compiled: ${String(error).split("\n")[0]}`);
    }
  }
  writeFileSync(stamp, wanted);
  return undefined;
}
