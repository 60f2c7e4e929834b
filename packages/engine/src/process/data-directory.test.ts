// Who may look into a data directory, and where may its names lead?

import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Database } from "../database/contract.ts";
import { openDatabase } from "../database/database.ts";

let folder: string;
let dataDir: string;
const umask = process.umask();
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "quiver-directory-"));
  dataDir = join(folder, "data");
  // The most open one: whatever is closed was closed on purpose.
  process.umask(0);
});
afterEach(() => {
  process.umask(umask);
  rmSync(folder, { recursive: true, force: true });
});

const definition = {
  name: "c",
  dense_vector: { enabled: true, dimension: 2, auto_create_index: true },
  sparse_vector: { enabled: false },
  tf_idf_options: { enabled: false },
  config: {},
};

async function makeData(): Promise<void> {
  const database = await openDatabase({ dataDir });
  await database.createCollection(definition);
  await fill(database);
  await database.snapshots.create("c", {});
  await database.close();
  // Additional files of a server that ended while it wrote the key. The server's own tests check that it restricts its files.
  for (const name of serversFiles) writeFileSync(join(dataDir, name), "", { mode: 0o600 });
}

const serversFiles = [
  "quiver.lock",
  "quiver.owner",
  "quiver.lock-journal",
  "admin-key",
  "admin-key.new",
  "audit.log",
  "audit.log.1",
  "audit.log.4",
];

/** Enough that closing the database writes a checkpoint of the dense index. */
async function fill(database: Database): Promise<void> {
  const vectors = Array.from({ length: 1_200 }, (_, i) => ({ id: `v${i}`, dense_values: [i, 1] }));
  await database.collection("c").upsert(vectors);
  await database.collection("c").indexed();
}

/** Every file and directory under one, itself included, that others have any right on. */
function open(path: string): string[] {
  const found = lstatSync(path);
  const own = (found.mode & 0o077) === 0 ? [] : [relative(folder, path)];
  return found.isDirectory() ? [...own, ...readdirSync(path).flatMap((name) => open(join(path, name)))] : own;
}

function everything(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return [path, ...readdirSync(path).flatMap((name) => everything(join(path, name)))];
}

describe("rights", () => {
  test("[R9] other users cannot read created files, during use and afterwards", async () => {
    // As an administrator would make it, before the first start.
    mkdirSync(dataDir);
    const database = await openDatabase({ dataDir });
    await database.createCollection(definition);
    expect(open(dataDir)).toEqual([]);
    await fill(database);
    expect(open(dataDir)).toEqual([]);
    await database.close();
    expect(everything(dataDir).length).toBeGreaterThan(6);
    expect(open(dataDir)).toEqual([]);
  });

  test("[R9] wider permissions are restricted at the next start, and other files are not touched", async () => {
    await makeData();
    for (const path of everything(dataDir)) chmodSync(path, 0o777);
    for (const name of ["notes.txt", "audit.log.old", "my-admin-key"])
      writeFileSync(join(dataDir, name), "of somebody", { mode: 0o644 });
    await (await openDatabase({ dataDir })).close();
    expect(open(dataDir).sort()).toEqual([
      "data",
      "data/audit.log.old",
      "data/my-admin-key",
      "data/notes.txt",
    ]);
  });

  test("[R9] the directory itself is closed when it was empty, and otherwise left as it is", async () => {
    const mode = () => statSync(dataDir).mode & 0o777;
    mkdirSync(dataDir, { mode: 0o755 });
    await (await openDatabase({ dataDir })).close();
    expect(mode()).toBe(0o700);
    chmodSync(dataDir, 0o750);
    await (await openDatabase({ dataDir })).close();
    expect(mode()).toBe(0o750);
  });
});

describe("a directory that is not ours", () => {
  const files = (...names: string[]) => {
    mkdirSync(dataDir);
    for (const name of names) writeFileSync(join(dataDir, name), "of somebody", { mode: 0o644 });
  };

  test("[R16] is refused with what was found, and not changed", async () => {
    files("g.txt", "f.txt", "e.txt", "d.txt", "c.txt", ".profile", "admin-key");
    mkdirSync(join(dataDir, "lost+found"));
    const before = everything(dataDir).map((path) => [path, statSync(path).mtimeMs, statSync(path).mode]);
    await expect(openDatabase({ dataDir })).rejects.toMatchObject({
      code: "data_directory_foreign",
      details: {
        path: dataDir,
        found: [".profile", "c.txt", "d.txt", "e.txt", "f.txt"],
        found_total: 6,
      },
    });
    expect(everything(dataDir).map((path) => [path, statSync(path).mtimeMs, statSync(path).mode])).toEqual(
      before,
    );
  });

  test("[R16] is used when that is forced, and is ours from then on", async () => {
    files("notes.txt");
    await (await openDatabase({ dataDir, force: true })).close();
    await (await openDatabase({ dataDir })).close();
    expect(statSync(join(dataDir, "notes.txt")).mode & 0o777).toBe(0o644);
  });

  test.each([
    ["the root of a volume", ["lost+found"]],
    ["one with a key that was put there", ["admin-key"]],
    ["one with the configuration of a container", ["quiver.config.json", ".DS_Store"]],
    ["that of an interrupted first start, with files beside it", ["quiver.lock", "notes.txt"]],
  ])("[R16] %s is no such directory", async (_what, names) => {
    files(...names);
    writeFileSync(join(dataDir, names[0]), "");
    await (await openDatabase({ dataDir })).close();
    expect(readdirSync(dataDir)).toContain("catalog");
  });

  test("[R16] a copy without the lock is no such directory", async () => {
    await makeData();
    writeFileSync(join(dataDir, "notes.txt"), "of somebody");
    for (const name of ["quiver.lock", "quiver.owner"]) rmSync(join(dataDir, name));
    const database = await openDatabase({ dataDir });
    expect(database.listCollections().map(({ name }) => name)).toEqual(["c"]);
    await database.close();
  });
});

describe("a path where nothing can be written", () => {
  test.each([
    ["a file", (path: string) => path],
    ["a file as its parent", (path: string) => join(path, "data")],
    ["a file further up", (path: string) => join(path, "more", "data")],
  ])("[R16] %s is refused", async (_what, place) => {
    const path = join(folder, "file");
    writeFileSync(path, "");
    await expect(openDatabase({ dataDir: place(path) })).rejects.toMatchObject({
      code: "storage_failed",
      message: expect.stringContaining(`${path} is a file.`),
    });
    expect(readdirSync(folder)).toEqual(["file"]);
  });

  test("[R16] a link to what is not there is refused", async () => {
    symlinkSync(join(folder, "nowhere"), dataDir);
    await expect(openDatabase({ dataDir })).rejects.toMatchObject({ code: "storage_failed" });
    expect(readdirSync(folder)).toEqual(["data"]);
  });

  test.runIf(process.platform === "linux")(
    "[R16] a file system that takes no directories is refused",
    async () => {
      for (const path of ["/proc/quiver-data", "/proc/quiver-data/more"])
        await expect(openDatabase({ dataDir: path })).rejects.toMatchObject({
          code: "storage_failed",
          message: expect.stringContaining("Nothing can be created in /proc."),
        });
    },
  );
});

describe("links", () => {
  const places = {
    catalog: () => join(dataDir, "catalog"),
    collections: () => join(dataDir, "collections"),
    snapshots: () => join(dataDir, "snapshots"),
    "a snapshot": () => join(dataDir, "snapshots", readdirSync(join(dataDir, "snapshots"))[0]),
    "a collection's directory": () => join(dataDir, "collections", collectionId()),
    "a collection's file": () => join(dataDir, "collections", collectionId(), "data.mdb"),
    ...Object.fromEntries(serversFiles.map((name) => [name, () => join(dataDir, name)])),
  };
  const collectionId = () => readdirSync(join(dataDir, "collections"))[0];

  test.each(Object.entries(places))("[R10] %s may not be one", async (_what, place) => {
    await makeData();
    const path = place();
    const outside = join(folder, "outside");
    renameSync(path, outside);
    symlinkSync(outside, path);
    const before = everything(outside).map((each) => [each, statSync(each).mtimeMs, statSync(each).mode]);
    await expect(openDatabase({ dataDir })).rejects.toMatchObject({
      code: "storage_failed",
      message: expect.stringContaining(`${relative(dataDir, path)} in the data directory is a symbolic link`),
    });
    expect(everything(outside).map((each) => [each, statSync(each).mtimeMs, statSync(each).mode])).toEqual(
      before,
    );
    // A rejected directory is not locked: without the link, it opens.
    rmSync(path);
    renameSync(outside, path);
    const database = await openDatabase({ dataDir });
    expect((await database.collection("c").describe()).vectors_count).toBe(1_200);
    await database.close();
  });

  test("[R10] a link in the place of a deleted collection is rejected, and nothing is deleted elsewhere", async () => {
    await makeData();
    const outside = join(folder, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "precious"), "");
    symlinkSync(outside, join(dataDir, "collections", "c0"));
    await expect(openDatabase({ dataDir })).rejects.toMatchObject({ code: "storage_failed" });
    expect(readdirSync(outside)).toEqual(["precious"]);
  });

  test("[R10] when one is rejected, nothing has been changed", async () => {
    await makeData();
    for (const path of everything(dataDir)) chmodSync(path, 0o777);
    writeFileSync(join(folder, "outside"), "");
    rmSync(join(dataDir, "snapshots"), { recursive: true });
    symlinkSync(join(folder, "outside"), join(dataDir, "audit.log.2"));
    const before = everything(dataDir).map((path) => [path, lstatSync(path).mode, lstatSync(path).mtimeMs]);
    await expect(openDatabase({ dataDir })).rejects.toMatchObject({ code: "storage_failed" });
    expect(everything(dataDir).map((path) => [path, lstatSync(path).mode, lstatSync(path).mtimeMs])).toEqual(
      before,
    );
  });

  test("[R10] a link of another name is not touched", async () => {
    await makeData();
    symlinkSync(join(folder, "nowhere"), join(dataDir, "audit.log.old"));
    await (await openDatabase({ dataDir })).close();
    expect(lstatSync(join(dataDir, "audit.log.old")).isSymbolicLink()).toBe(true);
  });

  test("[R10] the data directory as a whole may be a link", async () => {
    mkdirSync(join(folder, "elsewhere"));
    symlinkSync(join(folder, "elsewhere"), dataDir);
    await makeData();
    expect(readdirSync(join(folder, "elsewhere"))).toContain("catalog");
  });
});
