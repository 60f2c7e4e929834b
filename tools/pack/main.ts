// npm run pack -- --out DIR   writes tarballs of the published packages
// npm run pack -- --check     tries them in an empty project (check.ts); a step of `npm run check`

import { statSync } from "node:fs";
import { basename } from "node:path";
import { parseArgs } from "node:util";
import { installOnce } from "../install-once.ts";

const { out, check } = parseArgs({
  options: { out: { type: "string", default: "packed" }, check: { type: "boolean" } },
}).values;

// They are not among the dependencies of the project.
installOnce(import.meta.dirname, "compilers, bundlers and linters");
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
