// How does a tool get packages that the project itself does without?
//
// A folder of tools/ with a package.json and a lockfile of its own is installed when it is first used, so that `npm start` stays fast.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

/** `npm ci` in a folder, unless its node_modules has been made of this lockfile. @param what for the line that is printed */
export function installOnce(folder: string, what: string): void {
  const modules = join(folder, "node_modules");
  const lockfile = readFileSync(join(folder, "package-lock.json"), "utf8");
  const stamp = join(modules, ".quiver-lock");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lockfile) return;
  console.log(`installing ${what} (npm ci in tools/${basename(folder)})`);
  const args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  execFileSync("npm", args, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  writeFileSync(stamp, lockfile);
}
