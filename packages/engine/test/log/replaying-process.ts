// A process that applies a log and prints what it has applied to standard output. kill.test.ts kills it.
//
// argv: directory of the store, number of the first message that was not acknowledged. The log is in the file next to the directory, as
// length-prefixed messages. Those before that one are sent once more; a line "round N" follows each message.

import { readFileSync, writeSync } from "node:fs";
import { collectionTables } from "../../src/collection/tables.ts";
import { applyOrdered } from "../../src/log/ordered.ts";
import { LmdbStore } from "../../src/storage/lmdb.ts";
import { messagesOf } from "./histories.ts";

const [directory, first] = process.argv.slice(2);
const file = readFileSync(`${directory}.log`);
const log: Uint8Array[] = [];
for (let at = 0; at < file.length; at += 4 + log[log.length - 1].length)
  log.push(file.subarray(at + 4, at + 4 + file.readUInt32LE(at)));
const store = new LmdbStore(directory, collectionTables);
const from = Math.max(0, Number(first) - 6);
for (const [i, message] of messagesOf(log, from).entries()) {
  for (const _ of applyOrdered(store, [message], { maxVectors: null, versionsKept: 20 }));
  writeSync(1, `round ${from + i + 1}\n`);
}
// The log ended before the kill.
setInterval(() => undefined, 1_000);
