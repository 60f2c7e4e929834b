// How are the published packages made? By `npm run pack`; `--check` is a step of `npm run check` (check.ts).

import { statSync } from "node:fs";
import { basename } from "node:path";
import { installOnce } from "../install-once.ts";
import { readOptions } from "../options.ts";

const usage = `npm run pack -- --out DIR   writes tarballs of the published packages; default packed
npm run pack -- --check     tries them in an empty project instead`;

const { out, check } = readOptions(usage, {
  out: { type: "string", default: "packed" },
  check: { type: "boolean", default: false },
});

// They are not among the dependencies of the project.
installOnce(import.meta.dirname, "compilers, bundlers and linters");
if (check) {
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
