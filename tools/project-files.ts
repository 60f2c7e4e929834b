// Which files belong to the project?

import { execFileSync } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { join } from "node:path";

/**
 * Paths of the project's files, relative to `root`, with `/`, sorted: what git tracks and what is new but not ignored.
 * Where `root` is not the top of a git work tree (an unpacked archive), everything but installed and built files.
 */
export function projectFiles(root: string): string[] {
  return existsSync(join(root, ".git")) ? filesOfGit(root) : filesOfArchive(root);
}

/** A test, or a part made for tests: nothing else may import it, and it may import everything. */
export function isTestFile(path: string): boolean {
  return /\.test\.m?ts$/.test(path) || /(^|\/)(test|tests|testing)\//.test(path);
}

function filesOfGit(root: string): string[] {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const output = execFileSync("git", args, { cwd: root, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  const paths = new Set(output.split("\0").filter((path) => path !== ""));
  // A file that was deleted but not yet committed is still listed.
  return [...paths].filter((path) => existsSync(join(root, path))).sort();
}

function filesOfArchive(root: string): string[] {
  const entries = globSync("**/*", {
    cwd: root,
    withFileTypes: true,
    exclude: ["**/node_modules", "**/dist", ".cache"],
  });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(root.length + 1)
        .replaceAll("\\", "/"),
    )
    .sort();
}
