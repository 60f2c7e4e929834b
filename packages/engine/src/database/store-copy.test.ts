// Does a replica that begins with a copy go on like the one it was copied from?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { historyArbitrary, messagesOf, prepared, read, record, stateOf } from "../../test/log/histories.ts";
import { collectionTables } from "../collection/tables.ts";
import { applyOrdered } from "../log/ordered.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import { copyStore, stateHash, writeCopy } from "./store-copy.ts";

const root = mkdtempSync(join(tmpdir(), "quiver-copy-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let directories = 0;
const newDirectory = () => join(root, `d${directories++}`);

async function* cut(copy: AsyncIterable<Uint8Array>, bytes: number): AsyncGenerator<Uint8Array> {
  let left = bytes;
  for await (const piece of copy) {
    yield piece.subarray(0, left);
    left -= piece.length;
    if (left <= 0) return;
  }
}

test("[Y6] a copy that was made after any message, in a transaction too, goes on like its original", async () => {
  await fc.assert(
    fc.asyncProperty(historyArbitrary, fc.nat(1_000), async (history, part) => {
      const { log, states } = record(history);
      const at = part % (log.length + 1);
      const directory = newDirectory();
      const original = prepared(new LmdbStore(directory, collectionTables));
      for (const _ of applyOrdered(original, messagesOf(log).slice(0, at), history));
      const copied = newDirectory();
      await writeCopy(copied, copyStore(original, directory));
      const copy = new LmdbStore(copied, collectionTables);
      expect(stateOf(copy)).toEqual(states[at]);
      // Some messages come again.
      for (const _ of applyOrdered(copy, messagesOf(log).slice(Math.max(0, at - 2)), history));
      for (const _ of applyOrdered(original, messagesOf(log).slice(at), history));
      expect(stateOf(copy)).toEqual(states.at(-1));
      const [a, b] = await Promise.all([original, copy].map((store) => read(store, stateHash)));
      expect(a).toBe(b);
      await Promise.all([original.close(), copy.close()]);
    }),
    { numRuns: 15 },
  );
});

test("[Y6] a copy that was cut short, or changed on the way, is refused", async () => {
  const directory = newDirectory();
  const store = prepared(new LmdbStore(directory, collectionTables));
  const pieces: Uint8Array[] = [];
  for await (const piece of copyStore(store, directory)) pieces.push(piece);
  const whole = Buffer.concat(pieces);
  const given = async function* (bytes: Uint8Array) {
    yield bytes;
  };
  for (const bytes of [0, 1, 9, whole.length - 33, whole.length - 1])
    await expect(writeCopy(newDirectory(), cut(given(whole), bytes)), String(bytes)).rejects.toMatchObject({
      code: "invalid_snapshot",
    });
  const changed = Uint8Array.from(whole);
  changed[whole.length >> 1] ^= 1;
  await expect(writeCopy(newDirectory(), given(changed))).rejects.toMatchObject({ code: "invalid_snapshot" });
  await store.close();
});
