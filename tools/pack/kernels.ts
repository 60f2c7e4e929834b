// How are the kernels in the published package?
//
// As bytes in a module, 50 KB of text: bundlers and single executables find them without knowing of files.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The text of the module that stands in for engine/process/kernel-builds.ts. @param dist folder of the compiled kernels */
export function kernelsModule(dist: string): string {
  const builds = readdirSync(dist).filter(
    (name) => name === "release.wasm" || name.endsWith("-release.wasm"),
  );
  const entries = builds.map((name) => {
    const bytes = readFileSync(join(dist, name)).toString("base64");
    return `  ${JSON.stringify(name.replace(/\.wasm$/, ""))}: ${JSON.stringify(bytes)},`;
  });
  return `// The compiled kernels, in base64.
const builds = {
${entries.join("\n")}
};
export function kernelBytes(build) {
  if (!Object.hasOwn(builds, build)) throw new Error(\`The package has no kernel \${build}; it has \${Object.keys(builds).join(", ")}.\`);
  return new Uint8Array(Buffer.from(builds[build], "base64"));
}
`;
}
