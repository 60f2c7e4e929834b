// What do tools say that are called with --help, or in a wrong way?

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const run = (tool: string, ...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(import.meta.dirname, tool), ...args], {
    encoding: "utf8",
    timeout: 10_000,
  });
  return { status, stdout, stderr };
};

describe.each([
  ["site/main.ts", "npm run docs"],
  ["pack/main.ts", "npm run pack"],
  ["demo.ts", "npm run demo"],
])("%s", (tool, usage) => {
  test("prints with --help how it is called, and does nothing else", () => {
    for (const help of ["--help", "-h"]) {
      const { status, stdout, stderr } = run(tool, help);
      expect([status, stderr]).toEqual([0, ""]);
      expect(stdout).toMatch(new RegExp(`^${usage}`));
    }
  });

  test("names what it does not know, without a stack trace", () => {
    for (const [args, problem] of [
      [["--unknown"], "Unknown option '--unknown'"],
      [["stray"], "Unexpected argument 'stray'"],
    ] as const) {
      const { status, stdout, stderr } = run(tool, ...args);
      expect([status, stdout]).toEqual([2, ""]);
      expect(stderr).toMatch(new RegExp(`^${problem}`));
      expect(stderr).toContain(`\n\n${usage}`);
      expect(stderr).not.toMatch(/^\s+at /m);
    }
  });
});

test("npm run docs refuses a base or a port that cannot be one", () => {
  expect(run("site/main.ts", "--base", "docs")).toMatchObject({ status: 2 });
  expect(run("site/main.ts", "--port", "http").stderr).toMatch(/^--port is http; expected a port/);
});
