// A catalog is complete from the moment when it has its final name.

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openDatabase } from "./database.ts";

let dataDir: string;

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "quiver-catalog-"));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

it("[I8] an incomplete catalog of an interrupted first start is created again", async () => {
  const left = join(dataDir, "catalog.new");
  mkdirSync(left);
  writeFileSync(join(left, "data.mdb"), Buffer.alloc(8_192));
  const database = await openDatabase({ dataDir });
  expect(database.listCollections()).toEqual([]);
  await database.close();
  expect(existsSync(left)).toBe(false);
});

it("[I8] an incomplete catalog with the final name is damaged: it is neither replaced nor changed", async () => {
  await (await openDatabase({ dataDir })).close();
  const catalog = join(dataDir, "catalog", "data.mdb");
  writeFileSync(catalog, Buffer.alloc(8_192));
  await expect(openDatabase({ dataDir })).rejects.toMatchObject({ code: "data_corrupted" });
  expect(existsSync(catalog)).toBe(true);
});
