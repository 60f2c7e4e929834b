import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { endpointList, path } from "./endpoint-list.ts";

test("the client's list of endpoints is that of the operations", async () => {
  const help = "write it with: node tools/launch.mjs run tools/endpoint-list.ts";
  expect(readFileSync(path, "utf8") === (await endpointList()), help).toBe(true);
});
