// Is a snapshot there or not, wherever its making or its deletion ends?

import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import { afterEach, beforeEach, expect, it } from "vitest";
import { SnapshotDirectory } from "./snapshot-directory.ts";
import { entryText, readEntry } from "./snapshot-entry.ts";

let dataDir: string;
const path = () => join(dataDir, "snapshots");
const names = () => readdirSync(path()).sort();

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "quiver-snapshot-directory-"));
  mkdirSync(path());
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const snapshotOf = (id: string): Snapshot => ({
  id,
  collection_name: "c",
  version_number: 1,
  hash: "00",
  vector_count: 0,
  since_version: null,
  since_hash: null,
  records_stored: 0,
  size_bytes: 4,
  sha256: "00",
  timestamp: 1,
});

/** A directory of which the given syncs fail, counted from 1. */
function failing(...failures: number[]): SnapshotDirectory {
  let count = 0;
  return new SnapshotDirectory(dataDir, () => {
    if (failures.includes(++count)) throw new QuiverError("storage_failed", "The disk failed (EIO).");
  });
}

function publish(directory: SnapshotDirectory, id: string): void {
  writeFileSync(directory.unfinishedPathOf(id), "file");
  directory.publish(snapshotOf(id));
}

const reopened = () => {
  const { listed, unlisted, strays } = new SnapshotDirectory(dataDir).open();
  return { listed: listed.map(({ id }) => id), unlisted, strays };
};
const nothing = { listed: [], unlisted: [], strays: [] };

it("[B6] a published snapshot exists, and a deleted one does not", () => {
  const directory = failing();
  publish(directory, "a1");
  publish(directory, "b2");
  expect(reopened()).toEqual({ ...nothing, listed: ["a1", "b2"] });
  directory.retire("a1");
  // The process may end here.
  expect(reopened()).toEqual({ ...nothing, listed: ["b2"] });
  directory.clear("b2");
  directory.retire("b2");
  directory.clear("b2");
  expect(names()).toEqual([]);
});

for (const syncs of [[1], [2], [1, 2], [2, 3]])
  it(`[B6] a snapshot whose directory could not be synced does not exist, now and after a restart (syncs ${syncs})`, () => {
    expect(() => publish(failing(...syncs), "a1")).toThrow(
      expect.objectContaining({ code: "storage_failed" }),
    );
    expect(names().filter((name) => name.endsWith(".qbackup"))).toEqual([]);
    expect(reopened()).toEqual(nothing);
    expect(names()).toEqual([]);
  });

it("[B6] a deletion whose directory could not be synced leaves the snapshot", () => {
  publish(failing(), "a1");
  expect(() => failing(1).retire("a1")).toThrow(expect.objectContaining({ code: "storage_failed" }));
  expect(reopened()).toEqual({ ...nothing, listed: ["a1"] });
});

it("[B6] whatever names an interrupted making or deletion leaves, they are removed at start", () => {
  const parts = ["qbackup.new", "json.new", "json"];
  for (let set = 1; set < 8; set++) {
    const left = parts.filter((_, i) => set & (1 << i));
    // An entry without any file means that the file was lost.
    if (!left.includes("qbackup.new") && left.includes("json")) continue;
    for (const part of left)
      writeFileSync(join(path(), `a${set}.${part}`), part === "json" ? entryText(snapshotOf(`a${set}`)) : "");
    expect(reopened(), left.join(" ")).toEqual(nothing);
    expect(names()).toEqual([]);
  }
});

it("[B10] leftovers are distinguished: without a file, without an entry, and of no snapshot", () => {
  publish(failing(), "a1");
  publish(failing(), "b2");
  rmSync(new SnapshotDirectory(dataDir).pathOf("a1"));
  rmSync(join(path(), "b2.json"));
  writeFileSync(join(path(), "c3.json"), entryText(snapshotOf("b2")));
  writeFileSync(join(path(), "notes.txt"), "");
  const directory = new SnapshotDirectory(dataDir);
  expect(directory.isMissing("a1")).toBe(true);
  expect(directory.isMissing("b2")).toBe(false);
  expect(directory.problemOf(snapshotOf("a1"))).toBe("Its file is missing.");
  expect(reopened()).toEqual({ listed: ["a1"], unlisted: ["b2"], strays: ["notes.txt", "c3.json"] });
  expect(names()).toEqual(["a1.json", "b2.qbackup", "c3.json", "notes.txt"]);
});

it("[B10] an entry with any bit changed is not believed", () => {
  const text = Buffer.from(entryText(snapshotOf("a1")));
  expect(readEntry("a1", text.toString())).toEqual(snapshotOf("a1"));
  for (let bit = 0; bit < 8 * text.length; bit++) {
    const changed = Buffer.from(text);
    changed[bit >> 3] ^= 1 << (bit & 7);
    expect(readEntry("a1", changed.toString()), `bit ${bit}`).toBeUndefined();
  }
});
