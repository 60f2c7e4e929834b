// npm run pack -- --out DIR: writes tarballs of the published packages.

import { execFileSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";

const { out } = parseArgs({ options: { out: { type: "string", default: "packed" } } }).values;

// The compilers that write the declarations are not among the dependencies of the project.
if (!existsSync(join(import.meta.dirname, "node_modules", "typescript-6"))) {
  console.log("installing the compilers (npm ci in tools/pack)");
  execFileSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: import.meta.dirname, stdio: "inherit" });
}
console.log("compiling and packing");
const { pack } = await import("./build.ts");
for (const file of await pack(out)) console.log(`${basename(file)}  ${(statSync(file).size / 1024).toFixed(0)} KB`);
