// Is a state that was acknowledged missed when the beginnings of its file are damaged?

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
import type { Meta } from "./lmdb-meta.ts";
import { readTip, tipFile } from "./lmdb-tip.ts";

const tables = ["a", "b"];
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "quiver-tip-"));
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
  "[C2] after %d commits, a changed bit in what a file begins with is found, or changes nothing",
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
    // Of the beginning that is not the newest most bits are of no use any more.
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

it("[I8] a tip that is missing, empty or of an older transaction, as after a power loss, is no damage", async () => {
  await write(4);
  const older = readFileSync(tipFile(directory));
  for (const commits of [1, 2, 5]) {
    await write(commits);
    for (const tip of [older, Buffer.alloc(0), Buffer.alloc(older.length)]) {
      writeFileSync(tipFile(directory), tip);
      // The transaction before the newest is still in the file: after one commit the tip must be of that.
      expect(seen().problems, `${commits} commits later`).toEqual([]);
    }
    rmSync(tipFile(directory));
    expect(seen().problems).toEqual([]);
    writeFileSync(tipFile(directory), older);
  }
});

it("a damaged tip is told, and written anew with the next commit", async () => {
  await write(2);
  const tip = readFileSync(tipFile(directory));
  for (let at = 0; at < tip.length; at++) {
    const damaged = Buffer.from(tip);
    damaged[at] ^= 4;
    writeFileSync(tipFile(directory), damaged);
    const file = new LmdbFile(directory);
    file.close();
    expect(file.problems).toEqual([]);
    expect(file.tipProblem).toContain("checksum");
  }
  await write(1);
  expect(readTip(directory)).toMatchObject({ txn: seen().meta?.txn });
});

it("a store whose tip cannot be written goes on, and the tip follows when it can", async () => {
  await write(1);
  rmSync(tipFile(directory));
  const store = new LmdbStore(directory, tables);
  const put = (text: string) => store.write((writer) => writer.put("a", bytes("key"), bytes(text)));
  mkdirSync(tipFile(directory));
  put("one");
  rmSync(tipFile(directory), { recursive: true });
  put("two");
  await store.close();
  expect(readTip(directory)).toMatchObject({ txn: seen().meta?.txn });
});
