// A process that applies a log and prints what it has applied to standard output. kill.test.ts kills it.
//
// argv: directory of the store, number of the first entry that was not acknowledged. The log is in the file next to the directory, as
// length-prefixed entries. The entries before that one are sent once more; a line "round N" follows each entry.

import { readFileSync, writeSync } from "node:fs";
import { applyEntry } from "../../src/collection/apply.ts";
import { collectionTables } from "../../src/collection/tables.ts";
import { decodeEntry } from "../../src/log/entry.ts";
import { LmdbStore } from "../../src/storage/lmdb.ts";

const [directory, first] = process.argv.slice(2);
const file = readFileSync(`${directory}.log`);
const store = new LmdbStore(directory, collectionTables);
for (let at = 0; at < file.length; ) {
  const length = file.readUInt32LE(at);
  const entry = decodeEntry(file.subarray(at + 4, at + 4 + length));
  at += 4 + length;
  if (entry.sequence < Number(first) - 5) continue;
  applyEntry(store, entry, 20);
  writeSync(1, `round ${entry.sequence}\n`);
}
// The log ended before the kill.
setInterval(() => undefined, 1_000);
