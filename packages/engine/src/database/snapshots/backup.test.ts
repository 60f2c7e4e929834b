// Does a backup restore exactly the original data, and is every invalid file rejected?

import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { randomNumbers } from "@quiverdb/kernels/random";
import { isQuiverError, type QuiverError } from "@quiverdb/protocol/errors";
import { afterAll, describe, expect, it } from "vitest";
import { toHex } from "../../base/bytes.ts";
import { type CollectionDefinition, defineCollection } from "../../collection/definition.ts";
import { prepareCollection } from "../../collection/format.ts";
import { readHead } from "../../collection/head.ts";
import { encodeDelete, encodeUpserts } from "../../collection/schema.ts";
import { collectionTables, declarationOf, metaKeys } from "../../collection/tables.ts";
import { LocalSequencer, randomOpId } from "../../log/sequencer.ts";
import { LmdbStore } from "../../storage/lmdb.ts";
import { MemoryStore } from "../../storage/memory.ts";
import type { Store } from "../../storage/store.ts";
import { checkChain } from "./backup-header.ts";
import { applyBackup, checkRestored, verifyBackup } from "./read-backup.ts";
import { writeBackup } from "./write-backup.ts";

const directory = mkdtempSync(join(tmpdir(), "quiver-backup-"));
afterAll(() => rmSync(directory, { recursive: true }));

const definition: CollectionDefinition = defineCollection({
  name: "c",
  dense_vector: { enabled: true, dimension: 3 },
  sparse_vector: { enabled: true },
  tf_idf_options: { enabled: true },
  config: {},
  store_raw_text: true,
});

const nowMs = 1_700_000_000_000;
let files = 0;

function newStore(): MemoryStore {
  const store = new MemoryStore(collectionTables);
  prepareCollection(store, nowMs, definition);
  return store;
}

/** Random writes: upserts of all kinds of content, new and old ids, and deletes. */
function write(store: Store, next: () => number, times: number, versionsKept = 1_000): void {
  const below = (n: number) => Math.floor(next() * n);
  const options = { versionsKept, maxVectors: null, clock: () => nowMs, newOpId: randomOpId };
  const sequencer = new LocalSequencer(store, options);
  for (let i = 0; i < times; i++) {
    const id = `r${below(40)}`;
    const records = Array.from({ length: 1 + below(5) }, () => ({
      id: `r${below(40)}`,
      ...(below(2) && { document_id: `d${below(4)}` }),
      ...(below(4) ? { dense_values: [next(), next(), -0] } : { text: "no vector" }),
      ...(below(2) && { sparse_indices: [below(9), 20], sparse_values: [next(), 1] }),
      ...(below(2) && { text: `some words ${below(1000)}` }),
      ...(below(2) && { metadata: { n: below(10) } }),
    }));
    const request =
      below(4) === 0
        ? ({ kind: "delete", batch: encodeDelete(id) } as const)
        : ({ kind: "upsert", batch: encodeUpserts(definition, records, "vectors") } as const);
    Array.from(sequencer.write([request]));
  }
}

/** Everything of a store that a backup has, or that a restore derives. */
function contents(store: Store): unknown {
  const readTxn = store.beginRead();
  try {
    return collectionTables
      .filter((table) => table === "meta" || declarationOf(table)?.backup !== undefined)
      .map((table) => [
        table,
        [...readTxn.entries(table)]
          .filter(([key]) => toHex(key) !== toHex(metaKeys.recent))
          .map(([key, value]) => `${toHex(key)} ${toHex(value)}`)
          // No indexes are created here: an absent list of definitions is restored as an empty one.
          .filter((entry) => !entry.endsWith(Buffer.from("{}").toString("hex"))),
      ]);
  } finally {
    readTxn.release();
  }
}

function backUp(
  store: Store,
  since: { version: number; hash: string | null } | null = null,
  collection = definition,
): string {
  const path = join(directory, `f${files++}`);
  const readTxn = store.beginRead();
  const file = openSync(path, "wx");
  try {
    const written = writeBackup(readTxn, file, { collection, since, createdMs: 5 }, () => undefined);
    expect(statSync(path).size).toBe(written.bytes);
  } finally {
    closeSync(file);
    readTxn.release();
  }
  return path;
}

const withFile = <T>(path: string, act: (file: number) => T): T => {
  const file = openSync(path, "r");
  try {
    return act(file);
  } finally {
    closeSync(file);
  }
};
const verify = (path: string) => withFile(path, (file) => verifyBackup(file, () => undefined));

function restore(paths: readonly string[], versionsKept = 1_000): Store {
  const headers = paths.map((path) => verify(path).header);
  checkChain(headers);
  const store = new MemoryStore(collectionTables);
  for (const path of paths) withFile(path, (file) => applyBackup(store, file, versionsKept, () => undefined));
  checkRestored(store, headers[headers.length - 1], () => undefined);
  // As opening it does: the copy of the definition has the name under which it is restored.
  prepareCollection(store, nowMs, definition);
  return store;
}

const headOf = (store: Store) => {
  const readTxn = store.beginRead();
  try {
    return readHead(readTxn);
  } finally {
    readTxn.release();
  }
};

function errorOf(act: () => unknown): QuiverError {
  try {
    act();
  } catch (error) {
    if (isQuiverError(error)) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

describe("chains", () => {
  it("[B2] [B3] full and incremental backups of random histories restore to the same store, byte for byte", () => {
    for (let seed = 1; seed <= 15; seed++) {
      const next = randomNumbers(seed);
      const store = newStore();
      write(store, next, Math.floor(next() * 30));
      const paths = [backUp(store)];
      for (let links = Math.floor(next() * 5); links > 0; links--) {
        const { version, hash } = headOf(store);
        write(store, next, Math.floor(next() * 20));
        paths.push(backUp(store, { version, hash: toHex(hash) }));
      }
      const restored = restore(paths);
      expect(contents(restored), `seed ${seed}`).toEqual(contents(store));
      // It continues like the original: the next version has the same hash.
      for (const each of [store, restored]) write(each, randomNumbers(seed + 1_000), 3);
      expect(headOf(restored), `seed ${seed}`).toEqual(headOf(store));
    }
  });

  it("a restored store takes no more room on the disk than the original", async () => {
    const wide = defineCollection({
      name: "c",
      dense_vector: { enabled: true, dimension: 384 },
      sparse_vector: { enabled: false },
      tf_idf_options: { enabled: false },
      config: {},
    });
    const [original, restored] = ["original", "restored"].map((name) => {
      mkdirSync(join(directory, name));
      return new LmdbStore(join(directory, name), collectionTables);
    });
    prepareCollection(original, nowMs, wide);
    const options = { versionsKept: 10, maxVectors: null, clock: () => nowMs, newOpId: randomOpId };
    const records = Array.from({ length: 2_000 }, (_, i) => ({
      id: `r${i}`,
      dense_values: new Array<number>(384).fill(i),
    }));
    const batch = encodeUpserts(wide, records, "vectors");
    Array.from(new LocalSequencer(original, options).write([{ kind: "upsert", batch }]));
    withFile(backUp(original, null, wide), (file) => applyBackup(restored, file, 10, () => undefined));
    expect(restored.sizeBytes()).toBeGreaterThan(2_000 * 384 * 4);
    expect(restored.sizeBytes()).toBeLessThan(1.1 * original.sizeBytes());
    for (const store of [original, restored]) await store.close();
  });

  it("[B3] a backup since a version that the log has dropped, never had, or has with another hash is rejected", () => {
    const store = newStore();
    write(store, randomNumbers(7), 60, 10);
    const { version, hash } = headOf(store);
    const since = (from: number, itsHash: string | null = null) =>
      errorOf(() => backUp(store, { version: from, hash: itsHash })).code;
    expect(since(version - 10)).toBe("version_not_kept");
    expect(since(version, "0".repeat(64))).toBe("version_not_kept");
    expect(since(version + 1)).toBe("invalid_request");
    expect(() => backUp(store, { version: version - 9, hash: null })).not.toThrow();
    expect(() => backUp(store, { version, hash: toHex(hash) })).not.toThrow();
  });

  it("[B3] files that do not form a chain are rejected", () => {
    const store = newStore();
    const next = randomNumbers(3);
    write(store, next, 10);
    const full = backUp(store);
    const at = headOf(store).version;
    write(store, next, 10);
    const first = backUp(store, { version: at, hash: null });
    const then = headOf(store).version;
    write(store, next, 10);
    const second = backUp(store, { version: then, hash: null });
    const other = newStore();
    write(other, randomNumbers(4), 60);
    expect(headOf(other).version).toBeGreaterThan(then);
    const foreign = backUp(other, { version: then, hash: null });
    const code = (...paths: string[]) => errorOf(() => restore(paths)).code;
    expect(code(first)).toBe("snapshot_chain_broken");
    expect(code(full, second)).toBe("snapshot_chain_broken");
    expect(code(full, full)).toBe("snapshot_chain_broken");
    expect(code(full, first, first)).toBe("snapshot_chain_broken");
    expect(code(full, first, foreign)).toBe("snapshot_chain_broken");
    expect(headOf(restore([full, first, second]))).toEqual(headOf(store));
  });

  it("[V3] a restored collection keeps as many versions as the new server allows", () => {
    const store = newStore();
    write(store, randomNumbers(5), 40);
    const { version } = headOf(store);
    const readTxn = restore([backUp(store)], 5).beginRead();
    const versions = [...readTxn.keys("versions")];
    readTxn.release();
    expect(versions).toHaveLength(5);
    expect(toHex(versions[4])).toBe(version.toString(16).padStart(16, "0"));
  });
});

describe("files that are not as they were written", () => {
  const store = newStore();
  write(store, randomNumbers(11), 60);
  const good = backUp(store);
  const bytes = readFileSync(good);
  const broken = join(directory, "broken");
  const faultOf = (content: Uint8Array) => {
    writeFileSync(broken, content);
    const error = errorOf(() => verify(broken));
    expect(error.code).toBe("invalid_snapshot");
    const { fault, position } = error.details as { fault: string; position: number };
    expect(position).toBeLessThanOrEqual(content.length);
    expect(error.message).toContain(`at byte ${position}`);
    // A restore without the earlier verification would fail in the same way.
    const target = new MemoryStore(collectionTables);
    expect(
      errorOf(() => withFile(broken, (file) => applyBackup(target, file, 10, () => undefined))).code,
    ).toBe("invalid_snapshot");
    return fault;
  };

  /** The first offsets, which hold the prefix and the start of the header, the last ones, and random ones. */
  const places = (next: () => number) => [
    ...Array.from({ length: 40 }, (_, i) => i),
    ...Array.from({ length: 20 }, (_, i) => bytes.length - 1 - i),
    ...Array.from({ length: 150 }, () => Math.floor(next() * bytes.length)),
  ];

  it("[B4] a file that is truncated anywhere is rejected", () => {
    for (const length of places(randomNumbers(2)))
      expect(["truncated", "foreign"], `length ${length}`).toContain(faultOf(bytes.subarray(0, length)));
  });

  it("[B4] a flipped bit anywhere is rejected", () => {
    const next = randomNumbers(1);
    for (const at of places(next)) {
      const changed = Uint8Array.from(bytes);
      changed[at] ^= 1 << Math.floor(next() * 8);
      expect(["damaged", "truncated", "foreign", "newer"], `byte ${at}`).toContain(faultOf(changed));
    }
  });

  it("[B4] bytes after the end, and missing, repeated or reordered blocks, are rejected", () => {
    expect(faultOf(Buffer.concat([bytes, Buffer.from([0])]))).toBe("damaged");
    const blocks: Buffer[] = [];
    for (let at = 16; at < bytes.length; ) {
      const end = at + 20 + bytes.readUInt32LE(at + 4);
      blocks.push(bytes.subarray(at, end));
      at = end;
    }
    expect(blocks.length).toBeGreaterThanOrEqual(5);
    const prefix = bytes.subarray(0, 16);
    for (let i = 0; i < blocks.length; i++) {
      faultOf(Buffer.concat([prefix, ...blocks.filter((_, j) => j !== i)]));
      faultOf(Buffer.concat([prefix, ...blocks.slice(0, i), blocks[i], ...blocks.slice(i)]));
      if (i > 0)
        faultOf(
          Buffer.concat([
            prefix,
            ...blocks.slice(0, i - 1),
            blocks[i],
            blocks[i - 1],
            ...blocks.slice(i + 1),
          ]),
        );
    }
  });

  it("[B4] a file of a newer format, and one that is no backup, are named as such", () => {
    const prefix = Buffer.from(bytes.subarray(0, 16));
    prefix.writeUInt32LE(2, 8);
    prefix.writeUInt32LE(crc32(prefix.subarray(0, 12)), 12);
    expect(faultOf(Buffer.concat([prefix, bytes.subarray(16)]))).toBe("newer");
    expect(faultOf(Buffer.from("PK\u0003\u0004 and so on, for a while"))).toBe("foreign");
    expect(faultOf(Buffer.alloc(0))).toBe("foreign");
  });
});
