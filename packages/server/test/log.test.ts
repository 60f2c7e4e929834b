// Does a log without a reader block requests, and is its line of a request like every other line?

import { spawn } from "node:child_process";
import { once } from "node:events";
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { readableLines } from "../src/operations/log.ts";

const lines = 5_000;
const program = `
  import { openLog } from ${JSON.stringify(new URL("../src/operations/log.ts", import.meta.url).href)};
  const { logger: log } = openLog("info", { waitingBytesMax: 100_000 });
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

test("[H22] the line of a request is what the general logger would write, at its level, and in order with other lines", async () => {
  const given = { request_id: "a-1", method: "POST", route: "/a/:b", status: 200, ms: 1.25 };
  const unreadable = { request_id: "a-2", route: "unreadable", status: 400 };
  const source = `
    import { openLog } from ${JSON.stringify(new URL("../src/operations/log.ts", import.meta.url).href)};
    for (const level of ["info", "warn"]) {
      const { logger, request, end } = openLog(level);
      for (const line of [${JSON.stringify(given)}, ${JSON.stringify(unreadable)}]) {
        request(line);
        logger.info(line, "request");
      }
      logger.warn("last of " + level);
      end();
    }
    process.exit(0);
  `;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", source]);
  let text = "";
  for await (const chunk of child.stdout) text += chunk;
  const lines = text
    .trimEnd()
    .split("\n")
    .map((line) => ({ ...JSON.parse(line), time: "then" }));
  expect(lines.map(({ msg }) => msg)).toEqual([
    "request",
    "request",
    "request",
    "request",
    "last of info",
    "last of warn",
  ]);
  expect(lines[0]).toEqual(lines[1]);
  expect(lines[2]).toEqual(lines[3]);
  expect(lines[0]).toMatchObject({ level: 30, ...given });
  expect(Object.keys(lines[0])).toEqual(Object.keys(lines[1]));
});

test("[H22] on a terminal a line has its time, level, message and fields, and a request its result", async () => {
  const readable = await readableLines();
  const base = { level: 30, time: "2026-01-02T03:04:05.000Z", pid: 1, hostname: "h" };
  const request = {
    ...base,
    request_id: "r-1",
    method: "POST",
    route: "/a/:b",
    status: 200,
    ms: 1.25,
    msg: "request",
  };
  const serving = { ...base, level: 40, url: "http://127.0.0.1:1", msg: "serving" };
  const text = stripVTControlCharacters(readable(`${JSON.stringify(request)}\n${JSON.stringify(serving)}\n`));
  expect(text.split("\n")).toEqual([
    expect.stringMatching(/^\[\d\d:\d\d:05\] INFO: POST \/a\/:b 200 1\.25 ms \{"request_id":"r-1"\}$/),
    expect.stringMatching(/^\[\d\d:\d\d:05\] WARN: serving \{"url":"http:\/\/127\.0\.0\.1:1"\}$/),
    "",
  ]);
});
