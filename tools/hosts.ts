// Does the engine know Node.js only where it may?
//
// The compiler proves it: tsconfig.portable.json has the modules that run anywhere, and none of the types of Node.js. So an import of
// `node:fs`, a `Buffer` or an `import.meta.dirname` in them does not compile, nor does an import of a file that has one. Of the packages
// that they import only those below may have types; a package without types needs a declaration file of the project.

import { join } from "node:path";
import { endOf, startNode } from "./children.ts";

/** Packages that run anywhere, and the compiler with its libraries. */
const portablePackages = /^(@noble\/hashes|typebox|typescript|@typescript\/.+)$/;

/** Every breach: a line of the compiler, or a package. @param project relative to `root` */
export async function checkHosts(root: string, project = "tsconfig.portable.json"): Promise<string[]> {
  const tsc = join(import.meta.dirname, "../node_modules/typescript/bin/tsc");
  const args = [tsc, "-p", join(root, project), "--pretty", "false", "--listFiles"];
  const { output } = await endOf(startNode(args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] }));
  const lines = output.split("\n").filter((line) => line !== "");
  const isFile = (line: string) => /^(\/|[A-Z]:).*\.[cm]?ts$/.test(line);
  const packages = lines.flatMap((line) => {
    return isFile(line) ? (/.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(line)?.[1] ?? []) : [];
  });
  return [
    ...lines.filter((line) => !isFile(line)),
    ...[...new Set(packages)]
      .filter((name) => !portablePackages.test(name))
      .map(
        (name) => `${project}: "${name}" is not among the packages that run without Node.js (tools/hosts.ts)`,
      ),
  ];
}
