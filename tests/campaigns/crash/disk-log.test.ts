// Does the simulated disk follow the log, and does it distinguish invalid writes of a store from its own faults?

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Disk, type Fate, type LogRecord } from "./disk-log.ts";

const page = 4096;
let folder: string;
let disk: Disk;
let position = 0;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "quiver-disk-log-"));
  disk = new Disk("/root");
  position = 0;
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function play(kind: LogRecord["kind"], fields: Partial<LogRecord>): void {
  position += 100;
  const none = { inode: 7n, offset: 0, length: 0, covered: 0, one: "", two: "", bytes: new Uint8Array(0) };
  disk.play({ ...none, ...fields, kind, position });
}

const write = (offset: number, bytes: Uint8Array) => play("write", { offset, bytes, length: bytes.length });

function metaPages(first = 0n, second = 1n): Uint8Array {
  const bytes = Buffer.alloc(2 * page);
  bytes.writeBigUInt64LE(first, 0);
  bytes.writeBigUInt64LE(second, page);
  return bytes;
}

/** A store whose first pages are written and synced. */
function makeStore(): void {
  play("create", { one: "/root/data.mdb" });
  write(0, metaPages());
  play("sync", { covered: position });
  play("sync", { inode: 0n, covered: position });
}

function image(fate: Fate): Buffer {
  const place = mkdtempSync(join(folder, "image-"));
  disk.image(place, fate, Math.random);
  return readFileSync(join(place, "data.mdb"));
}

describe("a store's meta pages", () => {
  it("keep their headers in every image, whatever commits write and however they are lost", () => {
    makeStore();
    for (let txn = 1; txn < 40; txn++) {
      write((txn + 2) * page, new Uint8Array(page).fill(txn));
      if (txn % 3 !== 0) play("sync", { covered: position });
      write((txn % 2) * page + 40, new Uint8Array(120).fill(txn));
      if (txn % 2 === 0) play("range", { offset: (txn % 2) * page + 40, length: 120 });
      for (const fate of ["dropped", "kept", "cut", "some writes", "torn"] as const) {
        const bytes = image(fate);
        expect([bytes.readBigUInt64LE(0), bytes.readBigUInt64LE(page)]).toEqual([0n, 1n]);
      }
    }
  });

  it.each([
    ["the second one's header in the first one's place", 0, metaPages(1n, 1n)],
    ["a page's header alone", 0, metaPages().subarray(page)],
    ["the first one moved into the second", page, metaPages().subarray(0, page)],
    ["what reaches from one into the other", page - 8, new Uint8Array(64)],
  ])("are not written in a way that LMDB never does: %s is reported", (_what, offset, bytes) => {
    makeStore();
    expect(() => write(offset, bytes)).toThrow("the store writes");
  });

  it("of a file that is not a store are ignored", () => {
    play("create", { one: "/root/data.tip" });
    expect(() => write(0, new Uint8Array(24))).not.toThrow();
  });
});
