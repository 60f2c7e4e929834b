// npm run pack -- --out DIR   writes tarballs of the published packages
// npm run pack -- --check     tries them in an empty project (check.ts); a step of `npm run check`

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";

const { out, check } = parseArgs({
  options: { out: { type: "string", default: "packed" }, check: { type: "boolean" } },
}).values;

installTools();
if (check === true) {
  const { checkPackages } = await import("./check.ts");
  const { errors, notes } = await checkPackages();
  for (const text of [...notes, ...errors]) console.log(text);
  process.exitCode = errors.length > 0 ? 1 : 0;
} else {
  console.log("compiling and packing");
  const { pack } = await import("./build.ts");
  for (const file of await pack(out))
    console.log(`${basename(file)}  ${(statSync(file).size / 1024).toFixed(0)} KB`);
}

/** The compilers, bundlers and linters that are needed here are not among the dependencies of the project. */
function installTools(): void {
  const modules = join(import.meta.dirname, "node_modules");
  const lockfile = readFileSync(join(import.meta.dirname, "package-lock.json"), "utf8");
  const stamp = join(modules, ".quiver-lock");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lockfile) return;
  console.log("installing compilers, bundlers and linters (npm ci in tools/pack)");
  const args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  execFileSync("npm", args, { cwd: import.meta.dirname, stdio: ["ignore", "ignore", "inherit"] });
  writeFileSync(stamp, lockfile);
}
