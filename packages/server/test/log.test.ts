// Does a log without a reader block requests?

import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";

const lines = 5_000;
const program = `
  import { openLog } from ${JSON.stringify(new URL("../src/operations/log.ts", import.meta.url).href)};
  const log = openLog("info", 100_000);
  for (let i = 0; i < ${lines}; i++) {
    log.info({ i, filling: "x".repeat(200) }, "line");
    if (i % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  process.stderr.write("written");
  // The process ends when its log has been read.
`;

test("[O8] a log without a reader blocks nothing, is bounded, and reports how many lines it dropped", async () => {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program]);
  const [said] = await once(child.stderr, "data");
  expect(String(said)).toContain("written");
  let text = "";
  for await (const chunk of child.stdout) text += chunk;
  const read = text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
  const told = read.filter(({ msg }) => msg === "line");
  const leftOut = read
    .filter(({ lines: count }) => count !== undefined)
    .reduce((sum, { lines: count }) => sum + count, 0);
  expect(leftOut).toBeGreaterThan(0);
  expect(told.length + leftOut).toBe(lines);
  expect(told.map(({ i }) => i)).toEqual(told.map(({ i }) => i).toSorted((a, b) => a - b));
});
