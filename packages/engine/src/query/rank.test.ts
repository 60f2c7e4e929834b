import { expect, it } from "vitest";
import { ByteWriter } from "../base/byte-writer.ts";
import { readOperations, storedRecord, writeUpsert } from "../collection/record.ts";
import { ordinalKey } from "../collection/tables.ts";
import { MemoryStore } from "../storage/memory.ts";
import { rankHits } from "./rank.ts";

const content = { documentId: null, dense: null, sparse: null, text: null, metadataJson: null };

/** The bytes of a stored record that has an id and nothing else. */
function recordWithId(id: string): Uint8Array {
  const out = new ByteWriter();
  writeUpsert(out, { id, ...content });
  const [operation] = readOperations(out.take());
  if (operation?.kind !== "upsert") throw new Error("an upsert was written");
  return storedRecord(operation, 1);
}

it("[Q4] [Q20] thousands of tied hits are ordered by id, and other tasks run while the ids are read", async () => {
  const count = 5_000;
  const idOf = (ordinal: number) => `r${(ordinal * 2_311) % count}`;
  const store = new MemoryStore(["records"]);
  store.write((writer) => {
    for (let ordinal = 0; ordinal < count; ordinal++)
      writer.put("records", ordinalKey(ordinal), recordWithId(idOf(ordinal)));
  });
  const reader = store.beginRead();
  const inOrder = Array.from({ length: count }, (_, ordinal) => ordinal)
    .filter((ordinal) => ordinal !== 7)
    .sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
  for (const k of [1, 10, 2_000, count]) {
    const hits = Array.from({ length: count }, (_, ordinal) => ({ ordinal, score: ordinal === 7 ? 2 : 1 }));
    const steps = rankHits(reader, hits, k);
    let turns = 0;
    let step = steps.next();
    for (; !step.done; step = steps.next()) turns++;
    expect(step.value.map(({ ordinal }) => ordinal)).toEqual([7, ...inOrder].slice(0, k));
    expect(turns).toBe(k === 1 ? 0 : 4);
  }
  reader.release();
  await store.close();
});
