// Does a store notice that an acknowledged state is lost when its meta pages are damaged?

import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { LmdbStore } from "./lmdb.ts";
import { LmdbFile } from "./lmdb-file.ts";
import { commitMarkerFile, type Meta, readCommitMarker } from "./lmdb-meta.ts";

const tables = ["a", "b"];
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "quiver-commit-marker-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const bytes = (text: string) => new TextEncoder().encode(text);

async function write(commits: number): Promise<void> {
  const store = new LmdbStore(directory, tables);
  for (let i = 0; i < commits; i++)
    store.write((writer) => {
      writer.put("a", bytes(`key ${i % 7}`), bytes(`value ${i}`));
      if (i % 3 === 0) writer.put("b", bytes("long"), new Uint8Array(9_000).fill(i));
    });
  await store.close();
}

function seen(): { meta: Meta | undefined; problems: readonly { problem: string }[] } {
  const file = new LmdbFile(directory);
  file.close();
  return file;
}

const path = () => join(directory, "data.mdb");

it.each([1, 2, 3, 6, 7, 8, 15])(
  "[C2] after %d commits, a changed bit at the start of the file is found, or changes nothing",
  async (commits) => {
    await write(commits);
    const whole = readFileSync(path());
    const before = seen();
    expect(before.problems).toEqual([]);
    const { tables: root, pageBytes } = before.meta as Meta;
    const places = [0, pageBytes].flatMap((at) => Array.from({ length: 160 }, (_, i) => at + i));
    for (let i = 8; i < 16; i++) places.push(root.root * pageBytes + i);
    const file = openSync(path(), "r+");
    let silent = 0;
    for (const place of places)
      for (let bit = 0; bit < 8; bit++) {
        writeSync(file, Uint8Array.of(whole[place] ^ (1 << bit)), 0, 1, place);
        const { meta, problems } = seen();
        if (problems.length === 0) {
          silent++;
          expect(meta, `byte ${place}, bit ${bit}`).toEqual(before.meta);
        }
        writeSync(file, whole, place, 1, place);
      }
    closeSync(file);
    // Most bits of the older meta page no longer matter, so changing them may go unnoticed.
    expect(silent).toBeLessThan(0.75 * 8 * places.length);
  },
);

it("[C2] an older file in the place of a newer one is found", async () => {
  await write(4);
  const older = readFileSync(path());
  await write(3);
  writeFileSync(path(), older);
  expect(seen().problems).toMatchObject([{ problem: expect.stringContaining("is lost") }]);
});

it("[I8] a marker that is missing, empty or of an older transaction, as after a power loss, is no damage", async () => {
  await write(4);
  const older = readFileSync(commitMarkerFile(directory));
  for (const commits of [1, 2, 5]) {
    await write(commits);
    for (const marker of [older, Buffer.alloc(0), Buffer.alloc(older.length)]) {
      writeFileSync(commitMarkerFile(directory), marker);
      // The file still holds the previous transaction, so after one commit the marker must name exactly that state.
      expect(seen().problems, `${commits} commits later`).toEqual([]);
    }
    rmSync(commitMarkerFile(directory));
    expect(seen().problems).toEqual([]);
    writeFileSync(commitMarkerFile(directory), older);
  }
});

it("a damaged marker is reported, and rewritten with the next commit", async () => {
  await write(2);
  const marker = readFileSync(commitMarkerFile(directory));
  for (let at = 0; at < marker.length; at++) {
    const damaged = Buffer.from(marker);
    damaged[at] ^= 4;
    writeFileSync(commitMarkerFile(directory), damaged);
    const file = new LmdbFile(directory);
    file.close();
    expect(file.problems).toEqual([]);
    expect(file.commitMarkerProblem).toContain("checksum");
  }
  await write(1);
  expect(readCommitMarker(directory)).toMatchObject({ txn: seen().meta?.txn });
});

it("a store whose marker cannot be written continues, and writes it when the disk allows", async () => {
  await write(1);
  rmSync(commitMarkerFile(directory));
  const store = new LmdbStore(directory, tables);
  const put = (text: string) => store.write((writer) => writer.put("a", bytes("key"), bytes(text)));
  mkdirSync(commitMarkerFile(directory));
  put("one");
  rmSync(commitMarkerFile(directory), { recursive: true });
  put("two");
  await store.close();
  expect(readCommitMarker(directory)).toMatchObject({ txn: seen().meta?.txn });
});
