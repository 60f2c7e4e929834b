// Is a store read before it is opened wherever something may have happened to it?

import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openDatabase } from "./database.ts";
import { breakSeal, writeSeal } from "./seal.ts";

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "quiver-seal-"));
});
afterEach(() => rmSync(dataDir, { recursive: true }));

const directory = () => {
  const collections = join(dataDir, "collections");
  return join(collections, readdirSync(collections)[0]);
};

async function makeStore(): Promise<string> {
  const database = await openDatabase({ dataDir });
  const collection = await database.createCollection({
    name: "c",
    dense_vector: { enabled: true, dimension: 2 },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: false },
    config: {},
  });
  expect(collection).toBeDefined();
  await database.collection("c").upsert([{ id: "a", dense_values: [1, 2] }]);
  expect(existsSync(join(directory(), "sealed"))).toBe(false);
  await database.close();
  return directory();
}

it("[C2] closing seals a store, and the next start breaks the seal before it opens it", async () => {
  const path = await makeStore();
  expect(existsSync(join(path, "sealed"))).toBe(true);
  const database = await openDatabase({ dataDir });
  expect(existsSync(join(path, "sealed"))).toBe(false);
  expect(database.collection("c").has("a")).toBe(true);
  await database.close();
  expect(breakSeal(path)).toBe(true);
  // Once only, as after a crash.
  expect(breakSeal(path)).toBe(false);
});

it("[C2] a sealed store whose file was touched is verified, whatever its times say, and its damage found", async () => {
  const path = await makeStore();
  const file = join(path, "data.mdb");
  const original = readFileSync(file);
  const damage = () => {
    // Both meta pages: without them there is no store.
    const bytes = Buffer.from(original);
    bytes.fill(0xff, 0, 8_192);
    writeFileSync(file, bytes);
    utimesSync(file, new Date(0), new Date(0));
  };
  writeFileSync(file, original);
  expect(breakSeal(path)).toBe(false);
  writeSeal(path);
  damage();
  const database = await openDatabase({ dataDir });
  expect(() => database.collection("c").get("a")).toThrow(
    expect.objectContaining({ code: "data_corrupted" }),
  );
  await database.close();
  // What is set aside is not sealed.
  expect(existsSync(join(path, "sealed"))).toBe(false);
});

it("[C2] a copy is no sealed store", async () => {
  const path = await makeStore();
  const copy = `${path}-copy`;
  cpSync(path, copy, { recursive: true, preserveTimestamps: true });
  expect(breakSeal(copy)).toBe(false);
  expect(breakSeal(path)).toBe(true);
});
